"""Random kernels of blocks that move: accumulators over grids, pipelines, buffers by hand."""

from __future__ import annotations

from .random_verdicts import BITS, BYTES, HALVES, WORDS, Kernel, Ref, Shape
from .random_verdicts_grids import HBM
from .random_verdicts_memory import ANY, VMEM

KINDS = (*WORDS, *WORDS, *HALVES, *BYTES, "int4", "uint4", "bool")
ROWS, COLUMNS = (8, 8, 16, 32, 64), (128, 128, 256, 384)


class Blocked(Kernel):
    tolerance = 5e-2

    def spread(self, kind: str, text: str) -> str:
        """Some change of a block."""
        if kind == "bool":
            return self.draw.choice([text, f"~{text}"])
        if BITS[kind] < 16:
            return text
        one = f"jnp.asarray(1, jnp.{kind})"
        return self.draw.choice([text, f"{text} + {one}", f"{text} * {text}"])


class Accumulators(Blocked):
    """Products and sums over the last axis of a grid, in scratch or in the output's block."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "bfloat16", "bfloat16", "int8", "float8_e4m3fn", "int4"])
        self.total = "int32" if kind in ("int8", "int4") else "float32"
        tiles = [
            draw.choice([8, 16, 32, 64, 128]),
            draw.choice([128, 256]),
            draw.choice([128, 256]),
        ]
        counts = [draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2, 3])]
        m, k, n = (t * c for t, c in zip(tiles, (counts[0], counts[2], counts[1]), strict=True))
        m -= draw.choice([0, 0, 0, 3]) if counts[0] > 1 else 0
        bm, bk, bn = tiles
        self.grid = tuple(counts)
        turned = draw.random() < 0.3
        self.input((m, k), kind, f"pl.BlockSpec(({bm}, {bk}), lambda i, j, k: (i, k){self.mode()})")
        shape, block = ((n, k), (bn, bk)) if turned else ((k, n), (bk, bn))
        index = "(j, k)" if turned else "(k, j)"
        self.input(shape, kind, f"pl.BlockSpec({block}, lambda i, j, k: {index}{self.mode()})")
        bias = draw.random() < 0.4
        if bias:
            row = f"pl.BlockSpec((1, {bn}), lambda i, j, k: (0, j))"
            self.input((1, n), draw.choice(["float32", "bfloat16"]), row)
        to = draw.choice([self.total, "bfloat16", "float32", kind])
        out = self.output((m, n), to, f"pl.BlockSpec(({bm}, {bn}), lambda i, j, k: (i, j))")
        held = self.buffer((bm, bn), self.total) if to != self.total or draw.random() < 0.5 else out
        dims = "((1,), (1,))" if turned else "((1,), (0,))"
        self.line(f"@pl.when(pl.program_id(2) == {draw.choice(['0', 'jnp.int32(0)'])})")
        self.line("def _():")
        self.line(f"    {held.name}[...] = jnp.zeros_like({held.name})")
        self.line(
            f"part = lax.dot_general(x0[...], x1[...], ({dims}, ((), ())), "
            f"preferred_element_type=jnp.{self.total})"
        )
        self.line(f"{held.name}[...] += part")
        if held is not out:
            self.line("@pl.when(pl.program_id(2) == pl.num_programs(2) - 1)")
            self.line("def _():")
            added = f"{held.name}[...]" + (" + x2[...].astype(jnp.float32)" if bias else "")
            act = draw.choice(
                ["{}", "{}", "jnp.maximum({}, 0)", "jax.nn.silu(({}).astype(jnp.float32))"]
            )
            self.line(f"    {out.name}[...] = ({act.format(added)}).astype(jnp.{to})")
        self._settings()

    def mode(self) -> str:
        count = self.draw.choice([None, None, None, 1, 2, 3])
        return f", pipeline_mode=pl.Buffered({count})" if count else ""

    def _settings(self) -> None:
        draw = self.draw
        fused = "allow_input_fusion=(True, False)" if len(self.inputs_of) == 2 else ""
        given = [
            draw.choice(["", "dimension_semantics=('parallel', 'parallel', 'arbitrary')",
                         "dimension_semantics=('parallel', 'arbitrary', 'arbitrary')"]),
            draw.choice(["", "", "vmem_limit_bytes=8 * 2**20", "vmem_limit_bytes=64 * 2**20"]),
            draw.choice(["", "", "disable_bounds_checks=True"]),
            draw.choice(["", "", "", "has_side_effects=True"]),
            draw.choice(["", "", "", fused]),
        ]  # fmt: skip
        words = ", ".join(g for g in given if g)
        if words:
            self.options = f", compiler_params=pltpu.CompilerParams({words})"


class Pipelines(Blocked):
    """`emit_pipeline` over arrays in HBM: blocks, bounded slices, buffers, tables, conditions."""

    compared = False  # JAX's interpreter asks the device, which is no TPU, how it tiles.

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        block: Shape = (draw.choice(ROWS), draw.choice(COLUMNS))
        lead = draw.choice([False, False, True])
        counts = (draw.choice([1, 2, 3]), draw.choice([1, 1, 2]))
        rows, columns = (b * c for b, c in zip(block, counts, strict=True))
        ragged = draw.choice([0, 0, 0, 1, 5]) if counts[0] > 1 else 0
        shape = (rows - ragged, columns)
        whole = (2, *shape) if lead else shape
        inputs = [self.input(whole, kind, draw.choice([ANY, ANY, HBM]))
                  for _ in range(draw.choice([1, 1, 2]))]  # fmt: skip
        out = self.output(whole, kind, ANY)
        names = ["i", "j"]
        grid = [str(counts[0]), str(counts[1])]
        index = ["i", "j"]
        size = list(map(str, block))
        if lead:
            names, grid, index, size = (
                ["b", *names],
                ["2", *grid],
                ["b", *index],
                [draw.choice(["None", "1"]), *size],
            )
        style = draw.choice(["", "", "bounded", "table", "when"])
        if style == "bounded" and not ragged:
            size[-2] = f"pl.BoundedSlice({block[0]})"
            index[-2] = f"pl.ds(i * {block[0]}, {block[0]})"
            if draw.random() < 0.5:
                index[-2] = f"pl.ds(pl.multiple_of(i * {block[0]}, {block[0]}), {block[0]})"
        source = list(index)
        if style == "table":
            _ = self.scalars
            source[-2] = f"n[i] % {counts[0]}"
        first = self._spec(size, names, source)
        last = self._spec(size, names, index)
        refs = [f"r{i}" for i in range(len(inputs))]
        scratch = draw.random() < 0.3
        self.line(f"def inner({', '.join([*refs, 'out'])}{', held' if scratch else ''}):")
        value = " + ".join(f"{r}[...]" for r in refs) if BITS.get(kind, 8) >= 16 else "r0[...]"
        if scratch:
            self.line("    held[...] = r0[...]")
            self.line(f"    out[...] = {self.spread(kind, 'held[...]')}")
        else:
            self.line(f"    out[...] = {self.spread(kind, f'({value})')}")
        if style == "when" and BITS.get(kind, 8) >= 16:
            self.line(f"    @pl.when({self.position(3)} > 1)")
            self.line("    def _():")
            self.line("        out[...] = out[...] + r0[...]")
        shape = (1, *block) if lead and size[0] == "1" else block
        held = self.buffer(shape, kind) if scratch else None
        self._run(grid, [first] * len(inputs) + [last], [*inputs, out], held)

    def _spec(self, size: list[str], names: list[str], index: list[str]) -> str:
        mode = self.draw.choice(
            [
                "",
                "",
                "",
                ", pipeline_mode=pl.Buffered(1)",
                ", pipeline_mode=pl.Buffered(3)",
                ", pipeline_mode=pl.Buffered(2, use_lookahead=True)",
            ]
        )
        place = f"lambda {', '.join(names)}: ({', '.join(index)})"
        return f"pl.BlockSpec(({', '.join(size)}), {place}{mode})"

    def _run(self, grid: list[str], specs: list[str], refs: list[Ref], held: Ref | None) -> None:
        """Calls the pipeline on all `refs`, of which the last is written."""
        draw = self.draw
        if draw.random() < 0.2:
            grid[0] = f"({self.position(int(grid[0]))})"
        semantics = f", dimension_semantics=(pltpu.ARBITRARY,) * {len(grid)}"
        options = draw.choice(["", "", semantics])
        scratches = f", scratches=[{held.name}]" if held else ""
        self.line(
            f"pltpu.emit_pipeline(inner, grid=({', '.join(grid)},), "
            f"in_specs=[{', '.join(specs[:-1])}], out_specs=[{specs[-1]}]{options})"
            f"({', '.join(ref.name for ref in refs)}{scratches})"
        )


class Doubled(Blocked):
    """Two buffers by hand: the next copy is on its way while this block is computed on."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        rows, columns = draw.choice([8, 8, 16, 32, 20, 1]), draw.choice([128, 128, 256, 100])
        count, slots = draw.choice([2, 3, 4]), draw.choice([2, 2, 3])
        stacked = draw.random() < 0.5
        shape = (count, rows, columns) if stacked else (count * rows, columns)
        x = self.input(shape, kind, ANY)
        out = self.output(shape, kind, draw.choice([VMEM, ANY]))
        held = self.buffer((slots, rows, columns), kind)
        sems = self._semaphores(slots)
        place = (
            "i"
            if stacked
            else draw.choice(
                [f"pl.ds(i * {rows}, {rows})", f"pl.ds(pl.multiple_of(i * {rows}, {rows}), {rows})"]
            )
        )
        self.line("def copy(i, slot):")
        self.line(
            f"    return pltpu.make_async_copy({x.name}.at[{place}], "
            f"{held.name}.at[slot], {sems}.at[slot])"
        )
        self.line("copy(0, 0).start()")
        unrolled = draw.choice(["", "", ", unroll=True"])
        looped = draw.random() < 0.8
        self.line(f"@pl.loop(0, {count}{unrolled})" if looped else f"for i in range({count}):")
        if looped:
            self.line("def _(i):")
        slot = draw.choice(["{} % {}", "lax.rem({}, {})"]) if looped else "{} % {}"
        self.line(f"    slot = {slot.format('i', slots)}")
        self.line(f"    @pl.when(i + 1 < {count})" if looped else f"    if i + 1 < {count}:")
        if looped:
            self.line("    def _():")
        self.line(f"        copy(i + 1, {slot.format('(i + 1)', slots)}).start()")
        self.line("    copy(i, slot).wait()")
        value = self.spread(kind, f"{held.name}[slot]")
        if "pltpu.VMEM" in self.outputs_of[0][1]:
            self.line(f"    {out.name}[{place}] = {value}")
        else:
            back = self.buffer((slots, rows, columns), kind)
            sent = self._semaphores(slots)
            self.line(f"    {back.name}[slot] = {value}")
            self.line(
                f"    done = pltpu.make_async_copy({back.name}.at[slot], "
                f"{out.name}.at[{place}], {sent}.at[slot])"
            )
            self.line("    done.start()")
            self.line("    done.wait()")

    def _semaphores(self, slots: int) -> str:
        name = f"s{len(self.scratch)}"
        self.scratch.append((Ref(name, (), "int32"), f"pltpu.SemaphoreType.DMA(({slots},))"))
        return name
