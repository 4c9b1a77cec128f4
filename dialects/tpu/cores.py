"""Which core an operation runs on and which core a memref belongs to (spec/tpu_dialect.md 3,
"Core")."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.attrs import MemorySpaceAttr
from pallasite.dialects.tpu.keywords import CoreType, CoreTypeAttr
from pallasite.dialects.types import AnyMemRef

TENSOR_CORE = CoreType.TC.value
SCALAR_SUBCORE = CoreType.SC_SCALAR_SUBCORE.value
VECTOR_SUBCORE = CoreType.SC_VECTOR_SUBCORE.value
_MAIN = StringAttr("main")


def declared_core(op: Operation) -> str | None:
    """The core type of the nearest ancestor that has one; a function called `main` has `tc`.

    Ancestors may be unregistered, with inherent attributes in the dictionary.
    """
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        name = "core_type" if parent.name == "pallas.kernel" else "tpu.core_type"
        core = parent.get_attr_or_prop(name)
        if isinstance(core, CoreTypeAttr):
            return core.data.value
        if parent.get_attr_or_prop("sym_name") == _MAIN:
            return TENSOR_CORE
        parent = parent.parent_op()
    return None


def own_core(op: Operation) -> str:
    """The core type that `op` runs on: as declared, `tc` by default."""
    return declared_core(op) or TENSOR_CORE


def memory_core(type: AnyMemRef) -> str | None:
    """The core that the memory space of a memref names, if any."""
    space = type.memory_space
    return space.core_type if isinstance(space, MemorySpaceAttr) else None


def in_space(type: AnyMemRef, space: str) -> bool:
    """Whether a memref is in memory `space`, of whichever core."""
    attr = type.memory_space
    return isinstance(attr, MemorySpaceAttr) and attr.data == space


def check_vector_subcore(op: Operation) -> None:
    """Raises unless `op` runs on a vector subcore."""
    core = own_core(op)
    if core != VECTOR_SUBCORE:
        raise VerifyException(f"{op.name} runs on {VECTOR_SUBCORE} only, got core {core}")


def enclosing_function(op: Operation) -> Operation | None:
    """The function around `op`."""
    parent = op.parent_op()
    while parent is not None and parent.name != "func.func":
        parent = parent.parent_op()
    return parent


def check_scalar_semaphore(type: AnyMemRef) -> None:
    """A single semaphore is a memref of rank 0."""
    if type.get_num_dims():
        raise VerifyException(f"expected a semaphore of rank 0, got {type}")
