"""Random kernels of grids and transfers: sizes and blocks known at run time, awaited copies."""

from __future__ import annotations

from .random_verdicts import BITS, KINDS, Kernel, Ref, Shape
from .random_verdicts_memory import ANY, SMEM, VMEM, Views

HBM = "pl.BlockSpec(memory_space=pltpu.HBM)"


class Tables(Kernel):
    """Grids, also of unknown sizes, whose index maps read prefetched tables."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        steps = draw.choice([1, 2, 3, 4])
        _ = self.scalars
        two = draw.random() < 0.3
        self.grid = (steps, 2) if two else (steps,)
        self.dynamic = draw.random() < 0.3
        names = "i, j, *n" if two else "i, *n"
        rank = draw.choice([1, 2, 2, 2, 3])
        block = self._block(rank)
        counts = [draw.choice([1, 2, 4]) for _ in range(rank)]
        moved = draw.randrange(rank)
        counts[moved] = draw.choice([4, 5])
        whole = tuple(b * c for b, c in zip(block, counts, strict=True))
        place = draw.choice(
            ["n[0][i]", "n[0][i] % 3", "i", "n[0][n[0][i] % 4]", "(n[0][i] * 2) % 4"]
        )
        place = place if place == "i" else f"({place}) % 4"
        index = ", ".join(f"({place})" if d == moved else "0" for d in range(rank))
        x = self.input(whole, kind, self._spec(block, names, index))
        results = list(block)
        results[0] *= steps
        out_index = ", ".join("i" if d == 0 else "0" for d in range(rank))
        o = self.output(tuple(results), kind, self._spec(block, names, out_index, out=True))
        self.line(f"value = {x.name}[...].reshape({block})")
        if draw.random() < 0.3 and BITS[kind] >= 16:
            self.line(f"value = value + n[pl.program_id(0)].astype(jnp.{kind})")
        self.line(f"{o.name}[...] = value.reshape({o.name}.shape)")
        if draw.random() < 0.5:
            words = ("arbitrary", "parallel") if not self.dynamic else ("arbitrary",)
            semantics = tuple(draw.choice(words) for _ in self.grid)
            self.options = (
                f", compiler_params=pltpu.CompilerParams(dimension_semantics={semantics})"
            )

    def _block(self, rank: int) -> Shape:
        draw = self.draw
        if rank == 1:
            return (draw.choice([128, 256, 512, 1024]),)
        rows, columns = draw.choice([8, 8, 16, 32, 64]), draw.choice([128, 128, 256, 384])
        return (*[draw.choice([1, 1, 2, 3]) for _ in range(rank - 2)], rows, columns)

    def _spec(self, block: Shape, names: str, index: str, out: bool = False) -> str:
        style = self.draw.choice(["", "", "squeezed", "element"])
        sizes = [str(n) for n in block]
        if style == "squeezed" and len(block) > 2 and block[0] == 1:
            sizes[0] = self.draw.choice(["None", "pl.squeezed", "pl.Squeezed()"])
        places = index.split(", ")
        if style == "element" and not out:
            sizes = [f"pl.Element({n})" for n in block]
            places = [f"({p}) * {n}" for p, n in zip(places, block, strict=True)]
        modes = ["", "", "", "", ", pipeline_mode=pl.Buffered(1)", ", pipeline_mode=pl.Buffered(2)"]
        mode = "" if out else self.draw.choice(modes)
        return f"pl.BlockSpec(({', '.join(sizes)},), lambda {names}: ({', '.join(places)},){mode})"


class Awaited(Views):
    """Transfers started and awaited by semaphores, also of arrays of them, in turn or in loops."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        shape = self.shape(ranks=(1, 2, 2, 2, 3, 3))
        source = self.input(shape, kind, draw.choice([ANY, ANY, VMEM, HBM]), "hbm")
        view = self.part(source)
        if draw.random() < 0.3 and view.shape:
            view = self.part(view)
        if not view.shape:
            view = source
        space = draw.choice(["VMEM", "VMEM", "HBM", "out"])
        out = self.output(view.shape, kind, draw.choice([ANY, VMEM]) if space == "out" else VMEM)
        count = draw.choice([1, 1, 2, 4])
        shape_of = "()" if count == 1 else f"({count},)"
        sems = Ref(f"s{len(self.scratch)}", (), "int32")
        self.scratch.append((sems, f"pltpu.SemaphoreType.DMA({shape_of})"))
        sem = sems.name if count == 1 else f"{sems.name}.at[{self.position(count - 1)}]"
        if space == "VMEM":
            target = self.buffer(view.shape, kind)
        elif space == "HBM":
            self.line(f"pltpu.sync_copy({view.name}, {out.name})")
            target = None
        else:
            target = out
        if target is not None:
            way = draw.choice(["plain", "when", "loop", "split"])
            copy = f"pltpu.make_async_copy({view.name}, {target.name}, {sem})"
            self.start(way, copy, view, target, sem)
            if target is not out:
                self.line(f"{out.name}[...] = {target.name}[...]")

    def start(self, way: str, copy: str, view: Ref, target: Ref, sem: str) -> None:
        if way == "loop" and view.shape[0] > 1:
            self.line(f"@pl.loop(0, {view.shape[0]})")
            self.line("def _(i):")
            part = f"{view.name}.at[pl.ds(i, 1)], {target.name}.at[pl.ds(i, 1)]"
            self.line(f"    copy = pltpu.make_async_copy({part}, {sem})")
            self.line("    copy.start()")
            self.line("    copy.wait()")
        elif way == "split" and view.shape[0] > 1:
            cut = self.draw.randint(1, view.shape[0] - 1)
            for n, text in enumerate((f"pl.ds(0, {cut})", f"pl.ds({cut}, {view.shape[0] - cut})")):
                part = f"{view.name}.at[{text}], {target.name}.at[{text}]"
                self.line(f"copy{n} = pltpu.make_async_copy({part}, {sem})")
                self.line(f"copy{n}.start(){self.draw.choice(['', '', '  # first'])}")
            self.line("copy0.wait()")
            self.line("copy1.wait()")
        else:
            self.line(f"copy = {copy}")
            self.line("copy.start(priority=1)" if self.draw.random() < 0.1 else "copy.start()")
            self.line("copy.wait()")


class Places(Kernel):
    """Operands and results in every memory, results that share an operand's memory."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        shape = self.shape(ranks=(1, 2, 2, 2, 3))
        where = draw.choice(["vmem", "vmem", "any", "hbm", "smem", "default"])
        specs = {"vmem": VMEM, "any": ANY, "hbm": HBM, "smem": SMEM, "default": "pl.BlockSpec()"}
        x = self.input(shape, kind, specs[where])
        aliased = draw.random() < 0.4
        to = where if aliased else draw.choice(["vmem", "any", "hbm", "smem", "default"])
        out = self.output(shape, kind, specs[to])
        if aliased:
            self.options = f", input_output_aliases={{{len(self.prefetched)}: 0}}"
        direct = {"vmem", "default"}
        if where in direct and to in direct:
            one = f"jnp.asarray(1, jnp.{kind})"
            text = f"{x.name}[...] + {one}" if BITS[kind] >= 16 else f"{x.name}[...]"
            self.line(f"{out.name}[...] = {text}")
        elif "smem" in (where, to) and where != to and draw.random() < 0.3:
            held = self.buffer(shape, kind)
            self.line(f"pltpu.sync_copy({x.name}, {held.name})")
            self.line(f"pltpu.sync_copy({held.name}, {out.name})")
        else:
            self.line(f"pltpu.sync_copy({x.name}, {out.name})")
        if draw.random() < 0.4:
            self.scoped(shape, kind, out)

    def scoped(self, shape: Shape, kind: str, out: Ref) -> None:
        """Memory for a part of the kernel, by way of which the result goes."""
        space = self.draw.choice(["VMEM", "VMEM", "SMEM"])
        self.line("def scope(buffer, semaphore):")
        self.line(f"    copy = pltpu.make_async_copy({out.name}, buffer, semaphore)")
        self.line("    copy.start()")
        self.line("    copy.wait()")
        self.line(f"    pltpu.sync_copy(buffer, {out.name})")
        text = f"pltpu.{space}({shape}, jnp.{kind}), pltpu.SemaphoreType.DMA(())"
        self.line(f"pl.run_scoped(scope, {text})")
