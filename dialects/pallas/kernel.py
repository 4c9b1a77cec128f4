"""The kernel: a body that runs once per grid point, over blocks of the program's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, BlockArgument, Region
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_region_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface

from pallasite.dialects.pallas.attrs import OperandAttr, Role
from pallasite.dialects.pallas.axes import OverGrid, axis_properties
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.pallas.kernel_rules import verify_kernel
from pallasite.dialects.pallas.kernel_text import parse_kernel, print_kernel
from pallasite.dialects.tpu import (
    CoreType,
    CoreTypeAttr,
    DimensionSemantics,
    DimensionSemanticsAttr,
)
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.tpu.cores import TENSOR_CORE
from pallasite.dialects.types import dense_integers

LAYOUT_PASSES = "needs_layout_passes"
"""Parameter of a kernel on subcores: the compiler's layout passes see its vectors, which need not
be registers then; without them a load gives a vector of lower rank than its ref."""
COMPACT = "use_tc_tiling_on_sc"
"""Parameter of a kernel on subcores: whether its arrays are tiled as on a TensorCore, which they
are if it is not given."""


@irdl_op_definition
class KernelOp(OverGrid):
    """A Pallas kernel: grid, operands with their blocks, scratch, and the body.

    The body runs once per grid point, last axis fastest. Its arguments are refs: of the
    scalar-prefetch operands, then the inputs, the outputs and the scratch.

    Index maps are affine maps of the grid indices where possible. Any other map is a region of
    `maps`, which takes one i32 per grid axis and the scalar-prefetch refs, and yields one i32 per
    dimension of the array. `mapped` lists grid axes that a transformation such as `vmap` has added;
    the body does not see them.

    In a mesh kernel the grid is the mesh of cores. The mesh of a kernel `on` subcores has an axis
    of SparseCores and, for vector subcores, an axis of the subcores of each. A module has one such
    kernel per kind of subcore, and all have the same operands and scratch.
    """

    name = "pallas.kernel"

    sym_name = prop_def(StringAttr)
    grid = opt_prop_def(I64_ARRAY)
    grid_names = opt_prop_def(ArrayAttr[StringAttr])
    mesh = opt_prop_def(UnitAttr)
    core_type = opt_prop_def(CoreTypeAttr)
    operand_specs = prop_def(ArrayAttr[OperandAttr], prop_name="operands")
    aliases = opt_prop_def(I64_ARRAY)
    params = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    maps = var_region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        return cls(**parse_kernel(parser))

    def print(self, printer: Printer) -> None:
        print_kernel(printer, self)

    def __init__(
        self,
        name: str,
        specs: Sequence[OperandAttr],
        body: Region | Block,
        maps: Sequence[Region] = (),
        *,
        grid: Sequence[int] | None = None,
        grid_names: Sequence[str] | None = None,
        semantics: Sequence[str] | None = None,
        mapped: Sequence[int] = (),
        mesh: bool = False,
        core: str | None = None,
        aliases: Mapping[int, int] | None = None,
        params: Mapping[str, Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        """`grid` has DYNAMIC where the program tells the size; `aliases` maps positions of
        operands, scalar-prefetch ones counted, to those of results; `core` is the kind of the
        cores of a mesh, None for TensorCores."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "operands": ArrayAttr(specs),
            **axis_properties(semantics, mapped),
        }
        if grid is not None:
            properties["grid"] = dense_integers(grid)
        if grid_names is not None:
            properties["grid_names"] = ArrayAttr(StringAttr(n) for n in grid_names)
        if mesh:
            properties["mesh"] = UnitAttr()
        if core is not None:
            properties["core_type"] = CoreTypeAttr(CoreType(core))
        if aliases:
            properties["aliases"] = dense_integers([n for pair in aliases.items() for n in pair])
        if params:
            properties["params"] = DictionaryAttr(dict(params))
        region = Region(body) if isinstance(body, Block) else body
        super().__init__(
            properties=properties, regions=[region, list(maps)], attributes=dict(attributes or {})
        )

    def verify_(self) -> None:
        verify_kernel(self)

    @property
    def grid_shape(self) -> tuple[int, ...] | None:
        """Sizes of the grid's axes, DYNAMIC where unknown; None without a grid."""
        return None if self.grid is None else integers_of(self.grid)

    @property
    def core(self) -> str:
        """The kind of core that runs the body."""
        return TENSOR_CORE if self.core_type is None else self.core_type.data.value

    @property
    def on_subcores(self) -> bool:
        """Whether subcores of SparseCores run the body."""
        return self.core != TENSOR_CORE

    @property
    def axis_names(self) -> tuple[str, ...]:
        """One name per axis, empty where it has none."""
        rank = len(self.grid_shape or ())
        return ("",) * rank if self.grid_names is None else tuple(n.data for n in self.grid_names)

    @property
    def known_semantics(self) -> tuple[DimensionSemanticsAttr, ...]:
        """One per axis: as given, else arbitrary, and parallel for mapped axes."""
        rank = len(self.grid_shape or ())
        if self.semantics is not None and len(self.semantics) == rank:
            return self.semantics.data
        kinds = (DimensionSemantics.PARALLEL, DimensionSemantics.ARBITRARY)
        return tuple(DimensionSemanticsAttr(kinds[a in self.user_axes]) for a in range(rank))

    @property
    def alias_pairs(self) -> tuple[tuple[int, int], ...]:
        """(operand, result) pairs that share memory; operands count scalar prefetch."""
        flat = integers_of(self.aliases)
        return tuple(zip(flat[::2], flat[1::2], strict=True))

    def arguments(self, role: Role) -> tuple[BlockArgument, ...]:
        """The body's arguments for operands of that role."""
        pairs = zip(self.operand_specs, self.body.block.args, strict=False)
        return tuple(argument for spec, argument in pairs if spec.role is role)

    def specs(self, role: Role) -> tuple[OperandAttr, ...]:
        """The operands of that role."""
        return tuple(spec for spec in self.operand_specs if spec.role is role)

    @property
    def scratch(self) -> tuple[BlockArgument, ...]:
        """The body's arguments for scratch: what is not an operand."""
        return tuple(self.body.block.args[len(self.operand_specs) :])

    @property
    def layout_passes(self) -> bool:
        """Whether the compiler's layout passes run: always for TensorCores."""
        given = self.param(LAYOUT_PASSES)
        return not self.on_subcores or (isinstance(given, IntegerAttr) and bool(given.value.data))

    @property
    def compact(self) -> bool:
        """Whether arrays are tiled as on a TensorCore."""
        given = self.param(COMPACT)
        return not isinstance(given, IntegerAttr) or bool(given.value.data)

    def param(self, name: str) -> Attribute:
        """The compiler parameter of that name, `none` if it is not given."""
        given = self.params.data if self.params is not None else {}
        return given.get(name, NoneAttr())
