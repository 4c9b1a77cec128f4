"""Rules of a kernel's body that Mosaic's own operations do not check (spec/pallas_semantics.md 3
and 4)."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType, i1
from xdsl.ir import Operation, Region
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu import EnqueueDmaOp, WaitDma2Op
from pallasite.dialects.verification import BrokenRule


def check_transfers(op: Operation) -> None:
    """No DMA in `op` copies booleans, which memory holds as int32, or waits for their bytes."""
    for inner in op.walk():
        if not isinstance(inner, EnqueueDmaOp | WaitDma2Op):
            continue
        for ref in inner.operands:
            if isinstance(ref.type, MemRefType) and ref.type.element_type == i1:
                message = f"booleans are not copied by DMAs, got {ref.type}; convert to int32"
                raise BrokenRule(message, inner)


# Positions


def innermost_grid(op: Operation) -> tuple[Operation, Region] | None:
    """The kernel or pipeline around `op`, and which of its regions `op` is in; None outside."""
    region = op.parent_region()
    while region is not None:
        parent = region.parent_op()
        if parent is None:
            return None
        if parent.name in ("pallas.kernel", "pallas.emit_pipeline"):
            return parent, region
        region = parent.parent_region()
    return None


def enclosing_kernel(op: Operation) -> Operation | None:
    """The kernel around `op`, None outside."""
    parent: Operation | None = op.parent_op()
    while parent is not None and parent.name != "pallas.kernel":
        parent = parent.parent_op()
    return parent


def check_axis(op: Operation, axis: int) -> None:
    """The grid around `op` has that axis."""
    found = innermost_grid(op)
    if found is None:
        return
    grid, _ = found
    axes = cast("tuple[int, ...]", getattr(grid, "user_axes", ()))
    if not 0 <= axis < len(axes):
        raise VerifyException(
            f"axis {axis} is out of range for the {len(axes)} axes of the grid of {grid.name}"
        )


def check_axis_name(op: Operation, name: str) -> None:
    """The kernel around `op` has an axis of that name."""
    kernel = enclosing_kernel(op)
    if kernel is None:
        return
    names = [n for n in cast("tuple[str, ...]", getattr(kernel, "axis_names", ())) if n]
    if name not in names:
        known = ", ".join(names) or "no names"
        raise VerifyException(f"expected an axis of the kernel's grid ({known}), got {name}")
