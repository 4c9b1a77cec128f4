"""The table of steps of random kernels, one function per family of operations."""

from __future__ import annotations

from collections.abc import Callable

from . import random_memory as memory
from . import random_shapes as shapes
from . import random_values as values
from .random_kernels import Builder

FAMILIES: dict[str, Callable[[Builder], None]] = {
    function.__name__: function
    for function in (
        values.float_arithmetic, values.float_functions, values.inexact_functions,
        values.integer_arithmetic, values.integer_functions, values.compare, values.masks,
        values.select, values.cast_type, values.bitcast,
        shapes.broadcast, shapes.shape_cast, shapes.transpose, shapes.concatenate,
        shapes.extract_slice, shapes.rotate, shapes.strided_rotate, shapes.iota, shapes.reduce,
        shapes.reduce_index, shapes.matmul, shapes.general_matmul, shapes.gather,
        shapes.extract_scalar,
        memory.load, memory.strided_load, memory.strided_store, memory.store_part, memory.scratch,
        memory.loop, memory.row_loop, memory.branch, memory.while_loop,
    )
}  # fmt: skip


def store_all(b: Builder) -> None:
    """The last value and some earlier one end in outputs of their own; masks as integers."""
    if not b.values:
        b.input((8, 128), "f32")
    for value in dict.fromkeys((b.values[-1], b.pick(b.values))):
        if value.element == "i1":
            value = b.define(f"arith.extui {value.name} : {value.type} to $T", value, element="i32")
        ref = b.output(value)
        memory.store(b, ref, value, ", ".join([b.index(0)] * len(value.shape)))
