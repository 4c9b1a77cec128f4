"""Random kernels of semaphores, transfers of sizes known at run time, cores, and prints."""

from __future__ import annotations

import math

from .random_verdicts import BITS, HALVES, KINDS, WORDS, Kernel, Ref, Shape
from .random_verdicts_memory import ANY, VMEM


class Semaphores(Kernel):
    """Arrays of semaphores of both kinds: parts of them, counts, reads, waits, barriers."""

    def fill(self) -> None:
        draw = self.draw
        out = self.output((8, 128), "int32", VMEM)
        self.line("total = jnp.int32(0)")
        for _ in range(draw.choice([1, 1, 2])):
            getattr(self, draw.choice(["counted", "counted", "copied", "barrier", "scoped"]))()
        self.line(f"{out.name}[...] = jnp.full((8, 128), total)")

    def semaphores(self, kind: str) -> tuple[str, Shape]:
        shape = self.draw.choice([(), (), (1,), (3,), (4,), (2, 3), (2, 2, 2)])
        name = f"s{len(self.scratch)}"
        text = f"pltpu.SemaphoreType.{kind}({shape})" if shape else f"pltpu.SemaphoreType.{kind}"
        self.scratch.append((Ref(name, (), "int32"), text))
        return name, shape

    def one(self, name: str, shape: Shape) -> str:
        """One semaphore of an array, by way of parts of it."""
        draw = self.draw
        if not shape:
            return name
        if draw.random() < 0.3:
            start = draw.randrange(shape[0])
            place = self.position(shape[0] - 1) if draw.random() < 0.5 else str(start)
            if draw.random() < 0.5 or len(shape) == 1:
                size = draw.randint(1, shape[0] - start)
                name, shape = f"{name}.at[pl.ds({start}, {size})]", (size, *shape[1:])
            else:
                name, shape = f"{name}.at[{place}]", shape[1:]
        places = [
            self.position(n - 1) if draw.random() < 0.5 else str(draw.randrange(n)) for n in shape
        ]
        return f"{name}.at[{', '.join(places)}]"

    def counted(self, name: str = "", shape: Shape = ()) -> None:
        draw = self.draw
        if not name:
            name, shape = self.semaphores("REGULAR")
        sem = self.one(name, shape)
        amount = draw.choice(["1", "3", "n[1]", "n[0] + 1"])
        if "n" in amount:
            _ = self.scalars
        given = draw.choice(["", f", inc={amount}", f", {amount}"])
        taken = amount if given else "1"
        if draw.random() < 0.2:
            given += ", core_index=0"
        self.line(f"pl.semaphore_signal({sem}{given})")
        if draw.random() < 0.4:
            self.line(f"total += pl.semaphore_read({sem})")
        if draw.random() < 0.2:
            self.line(f"pl.delay({draw.choice(['10', '100', 'n[1]'])})")
            _ = self.scalars
        decrement = draw.choice(["", "", "", ", decrement=False"])
        self.line(f"pl.semaphore_wait({sem}, {taken}{decrement})")

    def copied(self) -> None:
        draw = self.draw
        name, shape = self.semaphores("DMA")
        kind = draw.choice(KINDS)
        size = (draw.choice([2, 4, 8]), 8, 128)
        x, held = self.input(size, kind, ANY, "hbm"), self.buffer(size, kind)
        sem = self.one(name, shape)
        way = draw.choice(["whole", "parts", "loop", "read"])
        if way == "whole":
            self.line(f"copy = pltpu.async_copy({x.name}, {held.name}, {sem})")
            self.line("copy.wait()")
        elif way == "read":
            self.line(f"copy = pltpu.make_async_copy({x.name}, {held.name}, {sem})")
            self.line("copy.start()")
            self.line("copy.wait()")
            self.line(f"total += pl.semaphore_read({sem})")
        else:
            index = "i" if not shape else f"i % {shape[0]}"
            first = ", ".join([index, *("0" for _ in shape[1:])])
            sem = f"{name}.at[{first}]" if shape else name
            count = min(size[0], shape[0]) if shape else 1
            copy = f"pltpu.make_async_copy({x.name}.at[i], {held.name}.at[i], {sem})"
            for verb in ("start", "wait"):
                if way == "parts":
                    self.line(f"for i in range({count}):")
                else:
                    self.line(f"@pl.loop(0, {count})")
                    self.line("def _(i):")
                self.line(f"    {copy}.{verb}()")
            self.line(f"pltpu.sync_copy({x.name}, {held.name})")
        out = self.output(size, kind, VMEM)
        self.line(f"{out.name}[...] = {held.name}[...]")

    def barrier(self) -> None:
        if "collective_id" in self.options:
            return
        self.compared = False
        given = self.draw.choice(["collective_id=0", "collective_id=7"])
        self.options = f", compiler_params=pltpu.CompilerParams({given})"
        self.line("barrier = pltpu.get_barrier_semaphore()")
        self.line("pl.semaphore_signal(barrier, 2)")
        self.line("pl.semaphore_wait(barrier, 2)")

    def scoped(self) -> None:
        draw = self.draw
        shape = draw.choice([(), (2,), (2, 2)])
        self.line("def scope(sem):")
        self.depth += 1
        self.line("total = jnp.int32(0)")
        self.counted("sem", shape)
        self.line("return total")
        self.depth -= 1
        text = f"pltpu.SemaphoreType.REGULAR({shape})" if shape else "pltpu.SemaphoreType.REGULAR"
        self.line(f"total += pl.run_scoped(scope, {text})")


class Sizes(Kernel):
    """Transfers of sizes and from places known at run time, in one or several dimensions."""

    compared = False

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice((*KINDS, *WORDS))
        shape = draw.choice([(64, 128), (64, 256), (4, 16, 128), (8, 8, 128), (2, 3, 32, 256),
                             (1024,), (2048,), (32, 72), (3, 24, 128)])  # fmt: skip
        space = draw.choice([ANY, ANY, VMEM])
        x = self.input(shape, kind, space)
        out = self.output(shape, kind, draw.choice([ANY, VMEM]))
        whole = self.input(shape, kind, ANY)
        self.line(f"pltpu.sync_copy({whole.name}, {out.name})")
        dynamic = draw.sample(range(len(shape)), min(len(shape), draw.choice([1, 1, 1, 2])))
        source, target = [], []
        for dim, held in enumerate(shape):
            back = len(shape) - dim
            if dim not in dynamic:
                source.append(":")
                target.append(":")
                continue
            unit = draw.choice({1: [128, 128, 1], 2: [8, 8, 16, 32, 1]}.get(back, [1]))
            unit = min(unit, held)
            if draw.random() < 0.7:
                size = self.position(max(unit, held // 2), unit)
            else:
                size = str(draw.choice([n for n in (unit, 2 * unit, held // 2) if 0 < n <= held]))
            most = held - max(unit, held // 2)
            starts = [self.position(most, unit) if draw.random() < 0.5 else "0" for _ in range(2)]
            source.append(f"pl.ds({starts[0]}, {size})")
            target.append(f"pl.ds({starts[1]}, {size})")
        copy = f"{x.name}.at[{', '.join(source)}], {out.name}.at[{', '.join(target)}]"
        if draw.random() < 0.5:
            self.line(f"pltpu.sync_copy({copy})")
            return
        name = f"s{len(self.scratch)}"
        self.scratch.append((Ref(name, (), "int32"), "pltpu.SemaphoreType.DMA"))
        self.line(f"copy = pltpu.make_async_copy({copy}, {name})")
        self.line("copy.start()")
        self.line("copy.wait()")


class Meshes(Kernel):
    """`pl.kernel` and `pl.core_map` over a mesh of cores, whose refs are all in HBM."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(("float32", "int32", *HALVES, "int8"))
        rows, columns = draw.choice([16, 32, 64, 128]), draw.choice([128, 256])
        self.x = self.input((rows, columns), kind, "", "hbm")
        self.o = self.output((rows, columns), kind, "")
        half = rows // 2
        self.line("core = lax.axis_index('core')")
        count = "lax.axis_size('core')"
        part = draw.choice(["rows", "rows", "whole", "columns", "first"])
        one = f"jnp.asarray(1, jnp.{kind})"
        changed = "held[...]" if BITS[kind] < 16 else f"held[...] + {one}"
        self.held = (rows, columns)
        if part == "rows":
            self.line(f"start = pl.multiple_of(({count} - 1) * core * {half}, {half})")
            view = f".at[pl.ds(start, {half})]"
            self.held = (half, columns)
            self.line(f"pltpu.sync_copy({self.x.name}, {self.o.name})")
        elif part == "columns":
            self.line("start = pl.multiple_of(core * 128 * (core < 0), 128)")
            view = ".at[:, pl.ds(start, 128)]"
            self.held = (rows, 128)
            self.line(f"pltpu.sync_copy({self.x.name}, {self.o.name})")
        else:
            view = ""
        lines = [
            f"pltpu.sync_copy({self.x.name}{view}, held)",
            f"held[...] = {changed}",
            f"pltpu.sync_copy(held, {self.o.name}{view})",
        ]
        if part == "first":
            self.line("@pl.when(core == 0)")
            self.line("def _():")
            lines = [f"    {line}" for line in lines]
        self.lines += ["    " + line for line in lines]
        self.way = draw.choice(["kernel", "kernel", "map"])
        self.compared = False

    def _text(self) -> str:
        kind, shape = self.o.kind, self.o.shape
        lines = ["def call(x):"]
        mesh = "pltpu.create_tensorcore_mesh('core')"
        if self.way == "kernel":
            scratch = f"[pltpu.VMEM({self.held}, jnp.{kind})]"
            lines += [
                f"    def body({self.x.name}, {self.o.name}, held):",
                *(f"    {line}" for line in self.lines),
                f"    return [pl.kernel(body, out_type=jax.ShapeDtypeStruct({shape}, jnp.{kind}),",
                f"        mesh={mesh}, scratch_types={scratch})(x)]",
            ]
        else:
            lines += [
                "    def run(refs):",
                f"        {self.x.name}, {self.o.name} = refs",
                f"        @pl.core_map({mesh})",
                "        def _():",
                "            def scope(held):",
                *(f"            {line}" for line in self.lines),
                f"            pl.run_scoped(scope, pltpu.VMEM({self.held}, jnp.{kind}))",
                f"    return [pl.run_state(run)((x, jnp.zeros({shape}, jnp.{kind})))[1]]",
            ]
        return "\n".join([*lines, ""])


class Prints(Kernel):
    """Prints of scalars and vectors, delays and checks, between loads and stores."""

    compared = False

    def fill(self) -> None:
        draw = self.draw
        shape, kind = self.shape(), draw.choice(KINDS)
        x = self.input(shape, kind, VMEM)
        out = self.output(shape, kind, VMEM)
        n = self.scalars
        for _ in range(draw.choice([1, 2])):
            way = draw.choice(["text", "scalar", "scalars", "vector", "delay", "when", "loop"])
            if way == "text":
                self.line("pl.debug_print('here')")
            elif way == "scalar":
                self.line(f"pl.debug_print('n {draw.choice(['', '= '])}{{}}', {n[0]})")
            elif way == "scalars":
                self.line(f"pl.debug_print('n {{}} and {{}}', {n[0]}, {n[1]} * 2)")
            elif way == "vector":
                self.line(f"pl.debug_print('v {{}}', {x.name}[...])")
            elif way == "delay":
                self.line(f"pl.delay({draw.choice(['1', '1000', n[0]])})")
            elif way == "when":
                self.line(f"@pl.when({n[0]} > 1)")
                self.line("def _():")
                self.line(f"    pl.debug_print('when {{}}', {n[2]})")
            else:
                self.line("@pl.loop(0, 3)")
                self.line("def _(i):")
                self.line("    pl.debug_print('i {}', i)")
        self.line(f"{out.name}[...] = {x.name}[...]")
        if math.prod(shape) < 4096 and draw.random() < 0.3:
            self.line("pl.debug_check(n[0] > 0, 'n is positive')")
