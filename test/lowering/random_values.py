"""Steps of random kernels that compute element by element, or change element types."""

from __future__ import annotations

from dataclasses import replace

from .random_kernels import BITS, FLOATS, INTEGERS, RANGES, Builder, Value, is_float


def float_arithmetic(b: Builder) -> None:
    x = b.value(lambda v: v.element in FLOATS)
    y = b.same(x)
    op, bound = b.pick(
        (
            ("addf", x.bound + y.bound), ("subf", x.bound + y.bound),
            ("mulf", x.bound * y.bound), ("maximumf", max(x.bound, y.bound)),
            ("minimumf", max(x.bound, y.bound)),
        )
    )  # fmt: skip
    b.define(f"arith.{op} {x.name}, {y.name} : $T", merged(x, y), bound=bound)


def merged(x: Value, y: Value) -> Value:
    """`x` with the inexactness of both."""
    return replace(
        x, bound=max(x.bound, y.bound), scale=max(x.scale, y.scale), coarse=x.coarse or y.coarse
    )


def float_functions(b: Builder) -> None:
    x = b.value(lambda v: v.element in FLOATS and v.bound <= 16 and v.exact)
    op, bound = b.pick(
        (
            ("arith.negf", 0), ("math.absf", 0), ("math.exp", 1 << 24), ("math.tanh", 1),
            ("math.sin", 1), ("math.floor", 0), ("math.ceil", 0), ("math.erf", 1),
            ("math.exp2", 1 << 16), ("math.roundeven", 0),
        )
    )  # fmt: skip
    b.define(
        f"{op} {x.name} : $T", x, bound=bound or x.bound, scale=bound or x.scale,
        coarse=x.coarse or (bool(bound) and x.element != "f32"),
    )  # fmt: skip


def inexact_functions(b: Builder) -> None:
    """Of numbers from 1 to 17, whose results no later rounding may magnify."""
    x = b.value(lambda v: v.element in FLOATS and v.bound <= 16 and v.exact)
    one = b.splat(x.shape, x.element, 1)
    positive = b.emit(f"math.absf {x.name} : {x.type}")
    positive = b.emit(f"arith.addf {positive}, {one.name} : {x.type}")
    op = b.pick(("math.log", "math.sqrt", "math.rsqrt", "math.log1p", "arith.divf", "math.powf"))
    operands = positive
    if op == "arith.divf":
        operands = f"{x.name}, {positive}"
    elif op == "math.powf":
        operands = f"{positive}, {one.name}"
    b.define(f"{op} {operands} : $T", x, bound=17, scale=17, coarse=x.element != "f32")


def integer_arithmetic(b: Builder) -> None:
    x = b.value(lambda v: v.element in INTEGERS)
    kind = b.rng.random()
    if kind < 0.3:
        amount = b.splat(x.shape, x.element, b.rng.randrange(BITS[x.element]))
        op = b.pick(("shli", "shrsi", "shrui"))
        b.define(f"arith.{op} {x.name}, {amount.name} : $T", x, bound=integer_top(x))
    elif kind < 0.4:
        divisor = b.splat(x.shape, x.element, b.pick((1, 2, 3, 7, 8, 100, -3)))
        op = b.pick(("divsi", "remsi", "divui", "remui"))
        b.define(f"arith.{op} {x.name}, {divisor.name} : $T", x, bound=integer_top(x))
    else:
        y = b.same(x)
        # Bytes are not added; asking often enough is asking once in a while.
        adds = ("addi", "addi") if x.element != "i8" or b.chance(0.1) else ()
        op = b.pick(
            (*adds, "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui",
             "minui")
        )  # fmt: skip
        b.define(f"arith.{op} {x.name}, {y.name} : $T", x, bound=integer_top(x))


def integer_functions(b: Builder) -> None:
    x = b.value(lambda v: v.element == "i32" or (v.element in INTEGERS and b.chance(0.1)))
    op = b.pick(("absi", "ctpop", "ctlz"))
    b.define(f"math.{op} {x.name} : $T", x, bound=integer_top(x))


def integer_top(x: Value) -> float:
    return 2.0 ** (BITS[x.element] - 1)


def compare(b: Builder) -> None:
    x = b.data(lambda v: v.exact and not v.element.startswith("f8"))
    y = b.same(x)
    if not y.exact:
        return
    if is_float(x.element):
        predicate = b.pick(
            ("oeq", "ogt", "oge", "olt", "ole", "one", "une", "ueq", "ult", "uge", "ord", "uno")
        )
        text = f"arith.cmpf {predicate}"
    else:
        text = f"arith.cmpi {b.pick(('eq', 'ne', 'slt', 'sle', 'sgt', 'sge', 'ult', 'uge'))}"
    b.define(f"{text}, {x.name}, {y.name} : {x.type}", x, element="i1", bound=1, scale=0.0)


def masks(b: Builder) -> None:
    m = b.value(lambda v: v.element == "i1")
    if m.element != "i1":
        compare(b)
        return
    b.define(f"arith.{b.pick(('andi', 'ori', 'xori'))} {m.name}, {b.same(m).name} : $T", m)


def select(b: Builder) -> None:
    m = _mask(b)
    if m is None:
        return
    known = [v for v in b.values if v.shape == m.shape and v.element != "i1"]
    x = b.pick(known) if known and b.chance(0.7) else b.input(m.shape, b.element())
    y = b.same(x)
    b.define(f"arith.select {m.name}, {x.name}, {y.name} : {m.type}, $T", merged(x, y))


def _mask(b: Builder) -> Value | None:
    """A mask; None if the values that there are do not compare."""
    if not any(v.element == "i1" for v in b.values) or b.chance(0.5):
        compare(b)
    known = [v for v in b.values if v.element == "i1"]
    return b.pick(known[-2:]) if known else None


# Types.


def cast_type(b: Builder) -> None:
    x = b.value(lambda v: v.bound < 128 or not is_float(v.element))
    wanted = b.pick([e for e in BITS if e not in (x.element, "i1")])
    old, new = BITS[x.element], BITS[wanted]
    bound = x.bound
    if is_float(x.element) and is_float(wanted):
        if old == new or (new == 8 and bound > 16):
            return
        op = "extf" if new > old else "truncf"
        if new < old and bound > RANGES[wanted]:
            b.define(f"arith.{op} {x.name} : {x.type} to $T", x, element=wanted, scale=bound)
            return
    elif is_float(x.element):
        if not x.exact or bound > RANGES[wanted] + 1:
            return
        op = "fptosi"
    elif is_float(wanted):
        if x.element == "i1" or "f8" in wanted:
            return
        op = b.pick(("sitofp", "uitofp"))
        bound = 2.0**old if op == "uitofp" else bound
        if bound > 1 << 30:
            return
    elif new == old:
        return
    elif x.element == "i1":
        op, bound = b.pick(("extui", "extsi")), 1
    else:
        op = b.pick(("extsi", "extui")) if new > old else "trunci"
        bound = min(bound, 2.0 ** (new - 1)) if op != "extui" else 2.0**old
    b.define(f"arith.{op} {x.name} : {x.type} to $T", x, element=wanted, bound=bound)


def bitcast(b: Builder) -> None:
    """Integers seen as integers of another width: rows split or merge."""
    x = b.value(lambda v: v.element in INTEGERS and len(v.shape) > 1)
    wanted = b.pick([e for e in INTEGERS if e != x.element])
    rows = x.shape[-2] * BITS[x.element]
    if rows % BITS[wanted]:
        return
    shape = (*x.shape[:-2], rows // BITS[wanted], x.shape[-1])
    bound = 2.0 ** (BITS[wanted] - 1)
    b.define(f"tpu.bitcast {x.name} : {x.type} -> $T", x, element=wanted, shape=shape, bound=bound)
