"""Memory for part of a kernel, and the end of every region of the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.pallas.base import PallasOp
from pallasite.dialects.pallas.subcore_rules import scratch_spaces
from pallasite.dialects.tpu import DMASemaphoreType, SemaphoreType
from pallasite.dialects.tpu.cores import own_core
from pallasite.dialects.types import AnyMemRef, memory_space
from pallasite.dialects.verification import BrokenRule


@irdl_op_definition
class YieldOp(PallasOp):
    """Ends a region; its operands are the results of a scope, or the indices of an index map."""

    name = "pallas.yield"

    values = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class RunScopedOp(PallasOp):
    """Allocates refs and semaphores for as long as its region runs, on the core that runs it.

    The memory is undefined at first, and semaphores are zero. Both are freed at the end of the
    region, where the semaphores must be zero again.

    Example:

        pallas.run_scoped (%buf: memref<8x128xf32, #tpu.memory_space<vmem>>,
                           %sem: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {
          ...
        }
    """

    name = "pallas.run_scoped"

    res = var_result_def()
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, body: Region | Block, result_types: Sequence[Attribute] = ()):
        region = Region(body) if isinstance(body, Block) else body
        super().__init__(regions=[region], result_types=[list(result_types)])

    @classmethod
    def parse(cls, parser: Parser) -> RunScopedOp:
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument()
        )
        types: list[Attribute] = []
        if parser.parse_optional_punctuation("->") is not None:
            types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        body = parser.parse_region(arguments)
        end_region(body)
        op = cls(body, types)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.body.block.args, lambda a: print_argument(printer, a))
        printer.print_string(") ")
        if self.res:
            printer.print_string("-> (")
            printer.print_list(self.res.types, printer.print_attribute)
            printer.print_string(") ")
        print_body(printer, self.body)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        for number, argument in enumerate(self.body.block.args):
            check_scratch(own_core(self), argument, f"allocation {number}", scoped=True)
        check_yield(self.body, tuple(self.res.types), "the scope")


def print_argument(printer: Printer, argument: SSAValue) -> None:
    """Prints `%name: type`, without the location that other arguments may have."""
    printer.print_ssa_value(argument)
    printer.print_string(": ")
    printer.print_attribute(argument.type)


def print_body(printer: Printer, region: Region) -> None:
    """Prints a region without its arguments, and without an end that says nothing."""
    last = region.block.last_op
    plain = isinstance(last, YieldOp) and not last.values and not last.attributes
    printer.print_region(region, print_entry_block_args=False, print_block_terminators=not plain)


def end_region(region: Region) -> None:
    """Adds the `pallas.yield` without values that text leaves out."""
    block = region.block
    if block.last_op is None or not block.last_op.has_trait(IsTerminator):
        block.add_op(YieldOp())


def end_of(region: Region) -> YieldOp:
    """The `pallas.yield` that ends a region, as verifiers have checked (`check_yield`)."""
    return cast(YieldOp, region.block.last_op)


SCRATCH_ADVICE = (
    "keep it in VMEM if it fits there: pltpu.VMEM(shape, dtype)",
    "or let the program allocate it, as one result more that nobody reads: "
    "out_shape=[..., jax.ShapeDtypeStruct(shape, dtype)], with pl.BlockSpec(memory_space=pl.ANY), "
    "or out_type=[..., jax.ShapeDtypeStruct(shape, dtype)] of pl.kernel",
)
"""What to write instead of scratch in HBM."""


def check_scratch(core: str, argument: BlockArgument, what: str, *, scoped: bool = False) -> None:
    """A ref of known shape in a memory of `core`; semaphores are in semaphore memory.

    What is `scoped` may be in HBM, where JAX makes the buffers of pipelines over blocks there.
    """
    if argument.name_hint:
        what = f"{what} (%{argument.name_hint})"
    if not isinstance(argument.type, MemRefType):
        raise VerifyException(f"{what}: expected a ref, got {argument.type}")
    type = cast(AnyMemRef, argument.type)
    space = memory_space(type)
    spaces = scratch_spaces(core)
    if space not in spaces and not (scoped and space == "hbm"):
        known = ", ".join(name for name in spaces if name != "cmem")
        raise BrokenRule(
            f"{what}: expected memory in {known}, got {type}",
            advice=SCRATCH_ADVICE,
            code="scratch-space",
        )
    if isinstance(type.element_type, SemaphoreType | DMASemaphoreType) != (
        space == "semaphore_mem"
    ):
        raise VerifyException(
            f"{what}: semaphores, and nothing else, are in semaphore_mem, got {type}"
        )
    if not type.has_static_shape():
        raise VerifyException(f"{what}: expected a known shape, got {type}")


def check_yield(region: Region, types: Sequence[Attribute], what: str) -> None:
    """The region ends with a `pallas.yield` of values of `types`."""
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"expected {what} to end with pallas.yield")
    actual = tuple(last.values.types)
    if actual != tuple(types):
        expected, got = (", ".join(map(str, t)) or "nothing" for t in (types, actual))
        raise VerifyException(f"expected {what} to yield {expected}, got {got}")
