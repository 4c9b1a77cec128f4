"""Block specs: how operands of kernels and pipelines are cut into blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from xdsl.dialects.builtin import LocationAttr, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pallasite.dialects.pallas import DimAttr, WindowAttr, YieldOp
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import jax_core, pallas_core, state_indexing
from pallasite.frontend.jaxprs.locations import location_of_function
from pallasite.frontend.jaxprs.maps import affine_map
from pallasite.frontend.jaxprs.tracer import Surroundings, Tracer, Value


@dataclass(frozen=True)
class Windows:
    """Makes the windows of one kernel, or of one pipeline."""

    tracer: Tracer
    grid: Sequence[int | None]
    """The sizes of all axes, None if unknown."""
    prefetch: Sequence[Attribute] = ()
    """The types of the refs that index maps may read."""
    surroundings: Surroundings | None = None
    """Those of the index maps; None for maps of a kernel, which only know its grid and mesh."""
    maps: list[Region] = field(default_factory=list[Region])
    """The index maps, so far, that are not affine; windows name them by their numbers."""

    def of(self, mapping: Any, consts: Sequence[Value] = (), *, stays: bool = False) -> WindowAttr:
        """The window of a `BlockMapping`, whose index map captures `consts`.

        An array that `stays` whole where it is has one buffer, whatever is asked for.
        """
        dims = [_dimension(self.tracer, dim) for dim in mapping.block_shape]
        dtype = mapping.array_aval.dtype
        words = types.key_shape(dtype) if types.is_key(dtype) else ()
        dims += [DimAttr("blocked", size) for size in words]
        index_map = self._index_map(mapping, len(words), consts)
        pipelining = {} if stays else _pipelining(self.tracer, mapping.pipeline_mode)
        return WindowAttr(dims, index_map, **pipelining)

    def _index_map(self, mapping: Any, words: int, consts: Sequence[Value]) -> AffineMap | int:
        """The index map if it is affine, else its number in `maps`, to which it is added.

        It gives 0 for each of the `words` dimensions that the array has here and not in JAX.
        """
        leaves = mapping.index_map_out_tree.num_leaves
        affine = None if consts else affine_map(mapping.index_map_jaxpr, self.grid, leaves)
        if affine is None:
            self.maps.append(self._region(mapping, words, consts))
            return len(self.maps) - 1
        results = [
            AffineExpr.constant(index) if isinstance(index, int) else index
            for index in _indices(mapping, affine.results)
        ]
        zeros = (AffineExpr.constant(0),) * words
        return AffineMap(affine.num_dims, 0, (*results, *zeros))

    def _region(self, mapping: Any, words: int, consts: Sequence[Value]) -> Region:
        """The index map as a region of one i32 per grid axis and the scalar-prefetch refs."""
        closed = mapping.index_map_jaxpr
        block = Block(arg_types=[*[i32] * len(self.grid), *self.prefetch])
        name_arguments(block, closed.jaxpr.debug_info)
        location: LocationAttr = location_of_function(closed.jaxpr.debug_info)
        kernel = self.tracer.surroundings
        of_map = Surroundings(axes=kernel.axes, mesh=kernel.mesh, is_map=True)
        inner = Tracer(self.surroundings or of_map, block, location)
        captured = consts or inner.constants(closed.consts)
        results: list[Any] = inner.run(closed.jaxpr, list(block.args), captured)
        values = [
            inner.scalar(index, i32) if isinstance(index, int) else inner.value(index)
            for index in _indices(mapping, results)
        ]
        values += [inner.scalar(0, i32) for _ in range(words)]
        inner.add(YieldOp(*values))
        return Region(block)


def _dimension(tracer: Tracer, dim: Any) -> DimAttr:
    match dim:
        case pallas_core.Blocked(block_size=size):
            return DimAttr("blocked", size)
        case pallas_core.Squeezed():
            return DimAttr("squeezed")
        case pallas_core.Element(block_size=size, padding=(low, high)):
            return DimAttr("element", size, low, high)
        case pallas_core.BoundedSlice(block_size=size):
            return DimAttr("bounded", size)
        case _:
            raise tracer.unsupported(
                f"a block dimension {dim}",
                "use pl.Blocked, pl.Squeezed, pl.Element or pl.BoundedSlice; rows may be gathered "
                "with one copy each",
                code="unsupported-block",
            )


def _pipelining(tracer: Tracer, mode: Any) -> dict[str, Any]:
    if mode is None:
        return {}
    if not isinstance(mode, pallas_core.Buffered):
        raise tracer.unsupported(
            f"pipeline mode {mode}", "use pl.Buffered(n)", code="unsupported-block"
        )
    return {
        "buffers": mode.buffer_count,
        "lookahead": mode.use_lookahead,
        "revisits": mode.revisit is pallas_core.RevisitMode.ANY,
    }


def _indices(mapping: Any, results: Sequence[Any]) -> list[Any]:
    """An index per dimension, start and size of a bounded one; what the map fixes is an `int`."""
    indices: list[Any] = []
    for index in jax.tree.unflatten(mapping.index_map_out_tree, results):
        is_slice = isinstance(index, state_indexing.Slice)
        indices += [index.start, index.size] if is_slice else [index]
    return indices


def name_arguments(block: Block, debug_info: jax_core.DebugInfo) -> None:
    """Gives the arguments of a block the names that the function's author gave them."""
    names = debug_info.arg_names
    if names is not None and len(names) == len(block.args):
        give_names(block.args, names)


def give_names(values: Sequence[SSAValue], names: Sequence[str]) -> None:
    """Gives `values` the `names` that are names in Python, too."""
    for argument, name in zip(values, names, strict=True):
        # Of `_2`, xDSL takes the digits for a number of its own, and nothing is left.
        if re.fullmatch(r"(?!_\d+$)[A-Za-z_]\w*", name):
            argument.name_hint = name


def grid_sizes(grid: Sequence[Any]) -> list[int | None]:
    """The sizes of grid axes, None where only run time tells."""
    return [None if pallas_core.is_dynamic_dim(size) else int(size) for size in grid]


def axis_semantics(given: Sequence[Any]) -> list[str]:
    """The dimension semantics of axes as words; JAX takes strings and members of enumerations."""
    return [str(getattr(word, "value", word)) for word in given]
