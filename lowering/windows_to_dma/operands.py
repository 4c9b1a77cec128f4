"""Operands of a kernel with windows: which are pipelined, which copied once, which left in place.

An operand without a window is left where it is if it is in HBM, SMEM or semaphore memory, or if the
program around the kernel keeps the array in VMEM (a transfer into it may outlive the kernel); else
it is copied once. A window is trivial if its block is the whole array and its index is always zero
(spec/pallas_semantics.md sections 1.4 and 2.1): its operand is copied once if the kernel sees it in
VMEM, else left where it is. The blocks of all other windows are pipelined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import cast

from xdsl.dialects.builtin import LocationAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from pallasite.diagnostics import Unsupported, UsageError, VerifyError
from pallasite.dialects.kernel import DYNAMIC, Kernel, Window
from pallasite.dialects.kernel_call import Call, check_sizes, missing_operands
from pallasite.dialects.locations import position_of, source_location
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import bit_width, memory_space, memref_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.lowering.windows_to_dma.maps import ranges
from pallasite.passes.ranges import Range

_ANY = MemorySpaceAttr("any")
_ZERO = Range(0, 0)
_BUFFERED_SPACES = ("vmem", "smem", None)


class Role(Enum):
    """What becomes of an operand."""

    WHOLE = auto()
    """The body uses the array where it is; nothing is copied."""
    COPIED = auto()
    """The whole array is copied: an input into a buffer before the first step, an output out of
    one after the last step."""
    PIPELINED = auto()
    """Blocks are copied while the body works on other blocks."""


@dataclass(frozen=True)
class Operand:
    """One input or output of the kernel."""

    argument: BlockArgument
    window: Window
    role: Role
    output: bool
    type: MemRefType[Attribute]
    """The type of the whole array as an argument of the new function."""
    location: LocationAttr
    index_map_or_none: FuncOp | None = None
    ranges: tuple[Range, ...] = ()
    """The values that each result of the index map may take."""
    shares: int | None = None
    """For a copied output without a window that aliases such an input: the position of that input
    among the operands. Both have one buffer."""
    number: int | None = None
    """Its position among all operands of the call (an input) or among its results (an output)."""

    @property
    def block_type(self) -> MemRefType[Attribute]:
        """The type of the ref that the body sees."""
        return cast("MemRefType[Attribute]", self.argument.type)

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of a block; of the whole array if there is no window."""
        return self.window.bounds or self.block_type.get_shape()

    @property
    def index_map(self) -> FuncOp:
        """The function from grid point to block; a `ValueError` if there is none."""
        if self.index_map_or_none is None:
            raise ValueError("operand has no index map")
        return self.index_map_or_none

    @property
    def buffers(self) -> int:
        """The number of blocks in the window buffer: what the window asks for, else one for an
        output whose blocks are revisited, else two."""
        return self.window.buffers or (1 if self.output and self.window.revisits else 2)

    @property
    def stride(self) -> int:
        """For blocks of rank 1: elements from one to the next in their buffer.

        In VMEM each block starts at a whole register (1024 words), in SMEM they are adjacent.
        """
        if memory_space(self.block_type) == "smem":
            return self.block[0]
        register = SUBLANES * LANES * packing(bit_width(self.block_type))
        return -(-self.block[0] // register) * register

    def buffer_type(self, buffers: int) -> MemRefType[Attribute]:
        """The type of a window buffer of `buffers` blocks.

        Blocks of 8x128 in two buffers give 2x8x128; blocks of rank 1 lie behind each other in a
        buffer of rank 1, so blocks of 1000 of f32 give 2048.
        """
        shape = self.block
        if buffers > 1:
            shape = (buffers * self.stride,) if len(shape) == 1 else (buffers, *shape)
        type = self.block_type
        return memref_of(type.element_type, shape, type.memory_space)

    @property
    def role_name(self) -> str:
        """What messages call it, such as `input 2`; without the number if that is not known."""
        role = "output" if self.output else "input"
        return role if self.number is None else f"{role} {self.number}"

    def hint(self, what: str) -> str:
        """The SSA name of something that belongs to this operand, such as `x_window`."""
        return f"{self.argument.name_hint or self.role_name.replace(' ', '')}_{what}"


def classify(
    kernel: Kernel, call: Call | None, functions: Mapping[str, FuncOp]
) -> tuple[Operand, ...]:
    """The inputs and outputs of `kernel` with their roles, in the order of its arguments.

    `functions` are the functions of the module, among them index maps. Raises a `UsageError` if the
    shapes of arrays are needed and `call` is None, or if the call does not fit the kernel; a
    `VerifyError` for a wrong window or index map; `Unsupported` for blocks in other memory than
    VMEM and SMEM.
    """
    count = len(kernel.operands)
    inputs = count
    dynamic = sum(bound == DYNAMIC for bound in kernel.grid or ())
    if call is not None:
        check_sizes(call, source_location(kernel.func))
        inputs = count - len(call.results)
        expected = dynamic + len(kernel.prefetch) + inputs
        if inputs < 0 or len(call.operands) != expected:
            raise UsageError(
                "call-mismatch",
                f"kernel has {count} inputs and outputs, {len(kernel.prefetch)} scalar-prefetch "
                f"operands and {dynamic} dynamic bounds, but the call has "
                f"{len(call.operands)} operands and {len(call.results)} results",
                source_location(kernel.func),
                missing_operands(expected - len(call.operands), dynamic),
            )
    first = dynamic + len(kernel.prefetch)
    held: set[int] = set()
    if call is not None:
        shared = {inputs + output: n - first for n, output in call.aliases}
        held = {inputs + output for output in call.results_in_vmem}
        held |= {shared[output] for output in held if output in shared}
    result: list[Operand] = []
    for n, (argument, window) in enumerate(zip(kernel.operands, kernel.windows, strict=True)):
        shape = None
        if call is not None:
            tensor = call.operands[first + n] if n < inputs else call.results[n - inputs]
            shape = tensor.get_shape()
        number = first + n if n < inputs else n - inputs
        operand = _classify(
            kernel, functions, argument, window, shape, output=n >= inputs, held=n in held
        )
        result.append(replace(operand, number=number))
    return tuple(_sharing(result, call, first, inputs))


def _sharing(
    operands: Sequence[Operand], call: Call | None, first: int, inputs: int
) -> Iterator[Operand]:
    """`operands`, where outputs without a window share the buffer of the input that they alias.

    `first` operands of the call come before the inputs: dynamic bounds and scalar prefetch.
    """
    aliases = {inputs + output: n - first for n, output in (call.aliases if call else ())}
    for n, operand in enumerate(operands):
        source = aliases.get(n)
        if source is not None and 0 <= source < inputs and not operand.window.windowed:
            other = operands[source]
            if operand.role is other.role is Role.COPIED and not other.window.windowed:
                operand = replace(operand, shares=source)
        yield operand


def _classify(
    kernel: Kernel,
    functions: Mapping[str, FuncOp],
    argument: BlockArgument,
    window: Window,
    shape: tuple[int, ...] | None,
    *,
    output: bool,
    held: bool,
) -> Operand:
    """The operand that is `argument` of the kernel.

    `shape` is that of its array, None without a call; `held` says that the program around the
    kernel keeps the array in VMEM.
    """
    location = _location(kernel.func, argument)
    if not isinstance(argument.type, MemRefType):
        raise VerifyError(
            "kernel-signature",
            f"expected inputs and outputs to be memrefs, got {argument.type}",
            position_of(location),
        )
    type = cast("MemRefType[Attribute]", argument.type)
    space = memory_space(type)
    if not window.windowed and (held or space not in ("vmem", None)):
        return Operand(argument, window, Role.WHOLE, output, type, location)
    if shape is None:
        raise UsageError(
            "missing-call",
            "the shapes of the arrays are needed, but the module does not record its call "
            "(tpu.call); read the StableHLO module that contains the call, or name it with --like",
            position_of(location),
        )
    array = memref_of(type.element_type, shape, _ANY)
    if not window.windowed:
        if type.get_shape() != shape:
            raise UsageError(
                "call-mismatch",
                f"operand without a window has shape {type.get_shape()} in the kernel, "
                f"{shape} in the call",
                position_of(location),
            )
        return Operand(argument, window, Role.COPIED, output, array, location)
    whole = Operand(argument, window, Role.PIPELINED, output, array, location)
    return _windowed(kernel, functions, whole)


def _windowed(kernel: Kernel, functions: Mapping[str, FuncOp], operand: Operand) -> Operand:
    """`operand`, which has a window, with its index map and its role."""
    window, shape = operand.window, operand.type.get_shape()
    position = position_of(operand.location)
    index_map = functions.get(window.transform or "")
    if index_map is None:
        raise VerifyError("index-map", f"index map @{window.transform} does not exist", position)
    bounds = [None if bound == DYNAMIC else bound for bound in kernel.grid or ()]
    found = ranges(index_map, bounds)
    if not len(operand.block) == len(found) == len(shape):
        raise VerifyError(
            "index-map",
            f"expected one block size and one index per dimension of the array, got block "
            f"{operand.block} and {len(found)} indices for array {shape}",
            position,
        )
    rule = window.broken_rule(operand.block_type)
    if rule is not None:
        raise VerifyError("window-bounds", rule, position)
    if operand.output and window.revisits and window.buffers == 2:
        raise VerifyError(
            "revisit-mode", "an output whose blocks are revisited has one buffer, got 2", position
        )
    padded = any(window.low or ()) or any(window.high or ())
    # An index that depends on an axis of several steps is not trivial even if it is always 0, so
    # the bounds of such axes are taken as unknown here.
    fixed = ranges(index_map, [bound if bound == 1 else None for bound in bounds])
    trivial = operand.block == shape and not padded and all(r == _ZERO for r in fixed)
    space = memory_space(operand.block_type)
    if trivial and space not in ("vmem", None):
        element = operand.block_type.element_type
        type = memref_of(element, shape, operand.block_type.memory_space)
        return replace(operand, role=Role.WHOLE, type=type, index_map_or_none=index_map)
    if space not in _BUFFERED_SPACES:
        raise Unsupported(
            "window-space",
            f"blocks of a window must be in vmem or smem, got {space}: data there is only "
            "reached by DMA; take the whole array and copy blocks in the kernel",
            position,
        )
    if trivial:
        return replace(operand, role=Role.COPIED, index_map_or_none=index_map)
    return replace(operand, index_map_or_none=index_map, ranges=found)


def _location(function: FuncOp, argument: BlockArgument) -> LocationAttr:
    """Where messages about `argument` point: the function's location if that is known, else that
    of the first operation that uses `argument`."""
    if position_of(function.location) is None:
        # The uses of a value are listed from the last to the first.
        for use in reversed(list(argument.uses)):
            if position_of(use.operation.location) is not None:
                return use.operation.location
    return function.location
