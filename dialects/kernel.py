"""The conventions of a kernel module: which function is the kernel, what its arguments are.

A Mosaic module holds one kernel `func.func` whose attributes describe grid, windows and argument
groups (spec/tpu_dialect.md section 4). How the program calls it is `kernel_call.py`'s. The module
attribute `tpu.form` names the form a pass left the module in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Data, Operation

from pallasite.diagnostics import Note, SourceLocation, VerifyError
from pallasite.dialects.index_maps import axes_used
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.types import integers_in, tiling_of
from pallasite.dialects.walking import operations

FORM = "tpu.form"
"""String attribute of a module: the form a pass left it in."""
UNSPECIFIED = "tpu.unspecified"
"""Unit attribute of a `memref.alloca` that holds blocks which may overrun their array: reading what
lies outside gives unspecified values, but is no error."""
SLOTS = "tpu.slots"
"""Integer attribute of a `tpu.enqueue_dma` that fetches a block which may overrun its array: of how
many blocks the buffer of its target consists. What the copy leaves of its block is undefined."""
BLOCK = "tpu.block"
"""Array attribute of a `tpu.enqueue_dma` whose target is the first part of a block of a pipeline:
the sizes of the block, all of which the kernel may load."""
WRITTEN_ONCE = "tpu.written_once"
"""Array attribute of a kernel in later forms: the operands whose blocks are written back once,
because the steps of one output block must follow each other."""
EXTENT = "tpu.extent"
"""Attribute of a `memref.alloca` that was rounded up to whole tiles: the elements it holds."""
IN_PLACE = ("any", "hbm", "host", "semaphore_mem")
"""Memories in which a kernel sees operands where the program has them: whole, without a window."""
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
"""From the kernel's source down to single registers; lowerings go from left to right."""
DYNAMIC = -(1 << 63)
"""The size of a grid axis that only the program tells, as MLIR writes it."""


def form_of(module: ModuleOp) -> str:
    """The form `module` is in: what a pass recorded, else what its operations and types show."""
    recorded = module.attributes.get(FORM)
    if isinstance(recorded, StringAttr):
        return recorded.data
    for op in operations(module):
        name = op.name
        if name == "pallas.kernel":
            return "pallas"
        if name.startswith("grid."):
            return "tiles"
        if name in _REGISTER_OPERATIONS:
            return "vreg"
    # Kernels without vectors look alike in all forms but for the layouts of their arguments.
    kernel = kernel_function(module)
    if kernel is not None and any(tiling_of(t) is not None for t in kernel.function_type.inputs):
        return "vreg"
    return "mosaic"


_REGISTER_OPERATIONS = ("tpu.load", "tpu.store", "tpu.roll_vectors", "tpu.unroll_vectors")


def set_form(module: ModuleOp, form: str) -> None:
    """Records that `module` is now in `form`."""
    module.attributes[FORM] = StringAttr(form)


@dataclass(frozen=True)
class Window:
    """How one operand of a gridded kernel is cut into blocks.

    `bounds` is the block shape (squeezed dimensions are 1), `transform` the index map's symbol;
    both are None for an operand that the kernel sees whole, the latter alone where it does not see
    all of its dimensions. `low` and `high` are the padding of an element window, None for a blocked
    one. `buffers` is 1, 2, or None for the default; 1 for a block that stays the same. The kernel's
    ref lacks the `squeezed` dimensions (only in the `pallas` form; later ones keep them).
    """

    bounds: tuple[int, ...] | None = None
    transform: str | None = None
    low: tuple[int, ...] | None = None
    high: tuple[int, ...] | None = None
    buffers: int | None = None
    revisits: bool = False
    squeezed: tuple[int, ...] = ()

    @property
    def windowed(self) -> bool:
        """Whether the kernel sees blocks of the operand, by an index map, and not the whole of
        it."""
        return self.transform is not None

    def broken_rule(self, type: Attribute) -> str | None:
        """What is wrong with the block, for a kernel that sees it as `type`; None if nothing is.

        Both have the same shape, but for dimensions of size 1. In register form a tiled ref may be
        rounded up to whole tiles.
        """
        if not isinstance(type, MemRefType):
            return f"expected inputs and outputs to be memrefs, got {type}"
        bounds, seen = self.bounds or (), cast("MemRefType[Attribute]", type).get_shape()
        if any(size < 1 for size in bounds):
            return f"block sizes must be positive, got {bounds}"
        if [n for n in bounds if n != 1] == [n for n in seen if n != 1]:
            return None
        if tiling_of(type) is not None and len(bounds) == len(seen):
            if all(size <= rounded for size, rounded in zip(bounds, seen, strict=True)):
                return None
        return f"the block is {bounds}, but the kernel's ref has the shape {seen}"


@dataclass(frozen=True)
class Kernel:
    """The kernel function of a module with its arguments sorted into the groups of
    spec/tpu_dialect.md 4.1."""

    func: FuncOp
    grid: tuple[int, ...] | None
    """Iteration bounds (DYNAMIC where unknown), None for a kernel without a grid."""
    semantics: tuple[str, ...]
    indices: tuple[BlockArgument, ...]
    prefetch: tuple[BlockArgument, ...]
    operands: tuple[BlockArgument, ...]
    """Inputs, then outputs."""
    windows: tuple[Window, ...]
    scratch: tuple[BlockArgument, ...]

    @cached_property
    def location(self) -> SourceLocation | None:
        """Where it begins; asked for once its function has come to its place."""
        return source_location(self.func)


def kernel_function(module: ModuleOp) -> FuncOp | None:
    """The function that runs on the TensorCore: by its core type, else, if it has none, the one
    called `main`."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    cores = [_keyword(func.attributes.get("tpu.core_type")) for func in functions]
    for func, core in zip(functions, cores, strict=True):
        if core == "tc":
            return func
    for func, core in zip(functions, cores, strict=True):
        if func.sym_name.data == "main" and core is None:
            return func
    return None


def _keyword(attribute: Attribute | None) -> str | None:
    """The keyword of an enumeration of the `tpu` dialect, which need not be loaded for it."""
    if not isinstance(attribute, Data) or not attribute.name.startswith("tpu."):
        return None
    word = cast(Data[Any], attribute).data
    return str(word) if isinstance(word, str) else None


MOST_STEPS = (1 << 31) - 2
"""Of a grid, and along each of its axes."""
_COUNT_BLOCKS = "the size of an axis is how many blocks it has: pl.cdiv(n, block), or 0 for none"
_FEWER_STEPS = "steps are counted in 32 bits: take larger blocks, or loop inside the kernel"


def broken_grid_rule(sizes: Sequence[int]) -> tuple[str, str] | None:
    """What is wrong with the sizes of a grid, and what to write instead; None if nothing is.

    libtpu: "iteration_bounds should be between 0 and 2147483646"; it counts steps from the outer
    axis inwards in an int. Loops of later forms count in i32, too.
    """
    steps = 1
    for axis, size in enumerate(sizes):
        if size == DYNAMIC:
            continue
        if not 0 <= size <= MOST_STEPS:
            advice = _COUNT_BLOCKS if size < 0 else _FEWER_STEPS
            return f"grid axis {axis}: expected a size from 0 to {MOST_STEPS}, got {size}", advice
        steps *= size
        if steps > MOST_STEPS:
            return (
                f"expected a grid of at most {MOST_STEPS} steps, got {steps} in {axis + 1} axes",
                _FEWER_STEPS,
            )
    return None


def describe_kernel(func: FuncOp) -> Kernel:
    """The kernel `func` with its arguments sorted; a `VerifyError` at its line names the attribute
    that breaks a convention. `Unsupported` of a function of several blocks, which no form has."""
    for function in (func, *functions_of(func.parent_op()).values()):
        if function.body.blocks:
            check_structured(function)
    try:
        return _described(func)
    except ValueError as error:
        message, *advice = map(str, error.args)
        where = source_location(func)
        raise VerifyError("kernel-signature", message, where, [Note(a) for a in advice]) from error


def check_structured(func: FuncOp) -> None:
    """Raises `Unsupported` unless a function has one block: branches are operations."""
    if len(func.body.blocks) != 1:
        raise refusal(
            func,
            "unstructured-function",
            f"expected one block in function @{func.sym_name.data}, got {len(func.body.blocks)}",
            "write branches and loops as scf operations",
        )


def check_structured_region(op: Operation, index: int) -> None:
    """The same of region `index` of an operation, which may be empty."""
    blocks = len(op.regions[index].blocks)
    if blocks > 1:
        raise refusal(
            op,
            "unstructured-region",
            f"expected one block in a region of {op.name}, got {blocks}",
            "write branches and loops as scf operations",
        )


def _described(func: FuncOp) -> Kernel:
    attributes = func.attributes
    bounds = attributes.get("iteration_bounds")
    grid = None if bounds is None else _integers(bounds, "iteration_bounds")
    broken = broken_grid_rule(grid or ())
    if broken is not None:
        raise ValueError(*broken)
    semantics = _listed(attributes, "dimension_semantics") or ()
    arguments = tuple(func.body.block.args) if func.body.blocks else ()
    steps = len(grid or ())
    prefetch = _count(attributes, "scalar_prefetch")
    scratch = _count(attributes, "scratch_operands")
    first = steps + prefetch
    last = len(arguments) - scratch
    if first > last:
        raise ValueError(
            f"kernel has {len(arguments)} arguments, fewer than its {steps} grid indices, "
            f"{prefetch} scalar-prefetch and {scratch} scratch arguments"
        )
    operands = arguments[first:last]
    entries = _listed(attributes, "window_params")
    if entries is not None:
        windows = tuple(_window(entry) for entry in entries)
        if len(windows) != len(operands):
            raise ValueError(f"expected {len(operands)} window_params, got {len(windows)}")
    else:
        windows = (Window(),) * len(operands)
    maps = functions_of(func.parent_op()) if windows and grid else {}
    return Kernel(
        func, grid, tuple(_word(entry, "dimension_semantics") for entry in semantics),
        arguments[:steps], arguments[steps:first], operands,
        tuple(_single(window, maps, grid or ()) for window in windows), arguments[last:],
    )  # fmt: skip


def functions_of(module: Operation | None) -> dict[str, FuncOp]:
    """The functions of a module by symbol name; none of a kernel that no module holds."""
    if not isinstance(module, ModuleOp):
        return {}
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def _single(window: Window, maps: Mapping[str, FuncOp], grid: Sequence[int]) -> Window:
    """`window` with one buffer if its block stays the same in all steps, as the compiler has it.

    It counts as the same if its index map reads no axis of several steps (asked of libtpu 0.0.51).
    """
    index_map = maps.get(window.transform or "")
    if index_map is None or not index_map.body.blocks:
        return window
    if any(grid[axis] != 1 for axis in axes_used(index_map, len(grid))):
        return window
    return replace(window, buffers=1)


# Attributes. What is of another kind than Mosaic's is refused: to read it as absent would be to
# run another kernel.


def _integers(attribute: Attribute, what: str) -> tuple[int, ...]:
    if not isinstance(attribute, DenseArrayBase) or not isinstance(attribute.elt_type, IntegerType):
        raise ValueError(f"expected {what} as array<i64: ...>, got {attribute}")
    return integers_in(cast("DenseArrayBase[IntegerType]", attribute))


def _listed(attributes: Mapping[str, Attribute], name: str) -> tuple[Attribute, ...] | None:
    found = attributes.get(name)
    if found is not None and not isinstance(found, ArrayAttr):
        raise ValueError(f"expected {name} as a list, got {found}")
    return None if found is None else tuple(found)


def _count(attributes: Mapping[str, Attribute], name: str) -> int:
    found = attributes.get(name)
    if found is None:
        return 0
    if not isinstance(found, IntegerAttr) or found.value.data < 0:
        raise ValueError(f"expected {name} as a number of arguments, got {found}")
    return found.value.data


def _word(attribute: Attribute, name: str) -> str:
    word = _keyword(attribute)
    if word is None or attribute.name != f"tpu.{name}":
        raise ValueError(f"expected {name} as #tpu.{name}<...>, got {attribute}")
    return word


_BUFFERS: Mapping[str, int] = {"synchronous": 1, "double_buffered": 2}
"""Of a window, by its pipeline mode."""


def _window(entry: Attribute) -> Window:
    if not isinstance(entry, DictionaryAttr):
        raise ValueError(f"expected window_params as dictionaries, got {entry}")
    transform = entry.data.get("transform_indices")
    bounds = entry.data.get("window_bounds")
    if bounds is None:
        return Window()
    squeezed = entry.data.get("squeezed")
    dropped = () if squeezed is None else _integers(squeezed, "squeezed of window_params")
    if transform is None and dropped:
        return Window(_integers(bounds, "window_bounds of window_params"), squeezed=dropped)
    if not isinstance(transform, SymbolRefAttr):
        raise ValueError(f"window_params: expected transform_indices as a symbol, got {transform}")
    low, high = _paddings(entry.data.get("window_kind"))
    mode, revisits = entry.data.get("pipeline_mode"), entry.data.get("revisit_mode")
    return Window(
        _integers(bounds, "window_bounds of window_params"),
        transform.root_reference.data,
        low,
        high,
        None if mode is None else _BUFFERS[_word(mode, "pipeline_mode")],
        revisits is not None and _word(revisits, "revisit_mode") == "any",
        dropped,
    )


_Padding = tuple[int, ...] | None


def _paddings(kind: Attribute | None) -> tuple[_Padding, _Padding]:
    """The elements before and after each dimension that an element window adds."""
    if kind is None:
        return None, None
    # `#tpu.element_window` has the parameters `low` and `high`, both arrays of integers.
    if kind.name != "tpu.element_window":
        raise ValueError(f"window_params: expected window_kind as #tpu.element_window, got {kind}")
    sides = (cast(ArrayAttr[IntegerAttr], getattr(kind, side)) for side in ("low", "high"))
    low, high = (tuple(n.value.data for n in side) for side in sides)
    return low, high
