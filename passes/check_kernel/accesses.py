"""Refuses illegal loads and stores of vectors: by memory, alignment, masks and strides.

Vectors move between registers and VMEM in whole tiles (spec/vreg_lowering.md sections 5.6 and 8).
So an index that is known only at run time must be proven to be a multiple of the tile, except where
the TPU compiler can access single rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.dialects.viewed import views_behind
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.accesses import accessed_shape, base_of, indices_of, stores, value_of
from pallasite.passes.check_kernel.masks import masks_elements
from pallasite.passes.check_kernel.part_accesses import load_rule, part_of_tile_rule
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.unproven import unproven
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.reference_tiles import VIEWS, has_large_halves, rows_of_tiles, tile_rows
from pallasite.passes.spaced_out import Along, places_of, product_with_ones, spaced_out
from pallasite.targets import Target


def _vector_access(op: Operation, target: Target) -> None:
    """Refuses vector accesses outside of VMEM."""
    base = base_of(op)
    space = memory_space(base.type)
    if space not in (None, "vmem"):
        verb = "stored to" if stores(op) else "loaded from"
        raise refusal(
            op, "memory-space", f"vectors cannot be {verb} {space}, only VMEM",
            "access SMEM one scalar at a time" if space == "smem" else "copy it to VMEM with a DMA",
        )  # fmt: skip


def _strided(op: tpu.StridedLoadOp | tpu.StridedStoreOp, target: Target) -> None:
    """Refuses strides along lanes, and along rows of arrays with several columns of tiles.

    A stride of 0, which loads one row repeatedly, is legal in arrays of any number of whole tiles
    (libtpu 0.0.51). A strided access must begin at the first element of the rows.
    """
    strides = [int(s) for s in op.strides.get_values()]
    shape = cast(AnyMemRef, base_of(op).type).get_shape()
    if not strides or all(s == 1 for s in strides):
        return
    columns = max(shape[-1:])
    repeats = len(shape) > 1 and strides[-2] == 0 and columns % LANES == 0
    if len(shape) < 2 or strides[-1] != 1 or (columns > LANES and not repeats):
        kind = "an array whose rows have" if len(shape) > 1 else "a flat array of"
        raise refusal(
            op, "strided-access",
            f"strides {strides} of {kind} {columns} elements are not supported",
            f"a strided access needs rows of at most {LANES} elements and a stride of 1 along them",
            *_instead(op, shape, strides, target),
        )  # fmt: skip
    if constant_of(op.indices[-1]) != 0:
        raise refusal(
            op, "strided-access", "a strided access that does not begin at the first element of "
            "the rows is not supported", "whole registers are loaded and stored at a distance",
            "begin at element 0 and slice the value, or select what is stored",
        )  # fmt: skip
    _packed_strides(op, shape, target)


def _packed_strides(
    op: tpu.StridedLoadOp | tpu.StridedStoreOp, shape: Sequence[int], target: Target
) -> None:
    """Refuses strided accesses of packed types, except loads of whole words from constant
    indices."""
    loading = not stores(op)
    value = cast("VectorType[Attribute]", value_of(op).type)
    p = packing(bit_width(value))
    # The compiler folds arithmetic, and does not look behind a promise.
    known = all(constant_of(index) is not None for index in op.indices)
    promised = known and _promises(op.indices)
    known = known and not promised
    if p == 1 or (loading and known and value.get_shape()[-2] % p == 0 and shape[-2] % p == 0):
        return
    raise refusal(
        op, "strided-access",
        f"a strided {'load' if loading else 'store'} of {value} is not supported",
        f"{p} rows share the words of a register: packed types are only loaded at a distance, at "
        f"constant indices, {p} rows at a time",
        *(["leave out pl.multiple_of of a constant, which hides it"] if promised else []),
        *_instead(op, shape, [int(s) for s in op.strides.get_values()], target),
    )  # fmt: skip


def _promises(numbers: Sequence[SSAValue]) -> bool:
    """Whether a promise (`tpu.assume_multiple`) is among the values from which constant `numbers`
    are computed."""
    values, seen = [*numbers], set[SSAValue]()
    while values:
        value = values.pop()
        if isinstance(value.owner, tpu.AssumeMultipleOp):
            return True
        if value not in seen and isinstance(value.owner, Operation):
            seen.add(value)
            values += value.owner.operands
    return False


def _instead(
    op: tpu.StridedLoadOp | tpu.StridedStoreOp,
    shape: Sequence[int],
    strides: Sequence[int],
    target: Target,
) -> list[str]:
    if 0 in strides and isinstance(op, tpu.StridedLoadOp):
        return [f"load what is repeated once and repeat its value: {_repeated(op, strides)}"]
    starts, counts = [constant_of(index) for index in op.indices], accessed_shape(op)
    dims = [
        Along(size, start, count, stride)
        for size, start, count, stride in zip(shape, starts, counts, strides, strict=True)
        if start is not None
    ]
    known = len(dims) == len(shape)
    if isinstance(op, tpu.StridedStoreOp):
        return _chosen(dims) if known else [_one_by_one(strides)]
    if not known:
        return ["load the rows one by one, ref[pl.ds(i, 1), :], of types of 32 bits"]
    return spaced_out("ref[...]", dims, target)


def _chosen(dims: Sequence[Along]) -> list[str]:
    """Advice for a strided store at constant indices."""
    *rows, lanes = dims
    start, stride = lanes.start, lanes.stride
    whole = all(dim == Along(dim.size, 0, dim.size) for dim in rows)
    if stride == 1 or not whole or lanes.count * stride != lanes.size:
        return [_one_by_one([dim.stride for dim in dims])]
    spread, matrix = f"jnp.repeat(value, {stride}, {len(rows)})", ""
    if not rows and lanes.size > LANES:
        # More than a register of a flat vector is not made of parts.
        product = product_with_ones("value", places_of(lanes, "j", "i"), 0)
        spread, matrix = f"{product}.astype(ref.dtype)", (
            f", i and j = lax.broadcasted_iota(jnp.int32, ({lanes.count}, {lanes.size}), 0) and 1"
        )  # fmt: skip
    return [
        f"spread the value and choose: ref[...] = jnp.where(k % {stride} == {start}, "
        f"{spread}, ref[...]), with k = "
        f"lax.broadcasted_iota(jnp.int32, ref.shape, {len(rows)}){matrix}"
    ]


def _one_by_one(strides: Sequence[int]) -> str:
    which, store = "rows", "ref[2:3, :] = value[1:2, :]"
    if len(strides) == 1:
        which, store = "elements", "ref[2:3] = value[1:2]"
    elif strides[-1] > 1:
        which, store = "columns", "ref[:, 2:3] = value[:, 1:2]"
    return (
        f"store the {which} one by one, {store}, or choose between the value "
        "and what is there with jnp.where"
    )


def _repeated(op: tpu.StridedLoadOp, strides: Sequence[int]) -> str:
    """The JAX expression for a load with strides of 0, each of which repeats one row."""
    shape = op.result.type.get_shape()
    taken: list[str] = []
    for index, size, stride in zip(op.indices, shape, strides, strict=True):
        start = constant_of(index)
        size = size if stride else 1
        tail = f", stride={stride}" if stride > 1 else ""
        taken.append(f"pl.ds({'i' if start is None else start}, {size}{tail})")
    return f"jnp.broadcast_to(ref[{', '.join(taken)}], {shape})"


def _byte_masks(op: Operation, target: Target) -> None:
    """Refuses stores of rank 1 that do not cover whole rows of words, on targets that cannot mask
    elements within a word."""
    type = cast("VectorType[Attribute]", value_of(op).type)
    shape = type.get_shape()
    if len(shape) != 1 or masks_elements(type, target):
        return
    whole = LANES * packing(bit_width(type))
    (start,) = indices_of(op)
    if shape[0] % whole or remainder(start, whole) != 0:
        raise refusal(
            op, "byte-mask", f"{target.name} cannot store part of the words that hold {whole} "
            f"elements of {type.element_type} of a one-dimensional array",
            f"that masks single elements of words, which {target.name} does not have of so few "
            "bits",
            f"store multiples of {whole} elements at multiples of {whole}, or use a "
            "two-dimensional array",
        )  # fmt: skip


def _alignment(op: Operation, target: Target) -> None:
    """Refuses a dynamic index along lanes or rows whose offset in a tile is not known."""
    for dim, index, divisor in _dynamic_indices(op, target, large_halves=False):
        if remainder(index, divisor) is None:
            raise unproven(op, dim, divisor)


def _whole_alignment(op: Operation, target: Target) -> None:
    """Refuses a dynamic index that is not proven to start a tile, as the TPU compiler does.

    It does not accept a known offset from the start of a tile either. In some buffers 16-bit rows
    have larger tiles (`has_large_halves`).
    """
    base = base_of(op)
    large_halves = bit_width(base.type) == 16 and has_large_halves(base, target)
    for dim, index, divisor in _dynamic_indices(op, target, large_halves=large_halves):
        if constant_of(index) is None and remainder(index, divisor) != 0:
            raise unproven(op, dim, divisor)


def _dynamic_indices(
    op: Operation, target: Target, *, large_halves: bool
) -> Iterator[tuple[int, SSAValue, int]]:
    """The dimensions in which `op` must start a tile, each with its index and the elements of a
    tile."""
    memref = cast(AnyMemRef, base_of(op).type)
    indices = indices_of(op)
    shape = memref.get_shape()
    if not shape or len(indices) != len(shape) or -1 in shape:
        return
    loaded = accessed_shape(op)
    for dim, index in enumerate(indices):
        divisor = _divisor(memref, dim, loaded, large_halves, _columns(base_of(op)))
        if len(shape) - dim == 2 and divisor > 1:
            divisor = _rows_of_recast(base_of(op), target) or divisor
        if len(shape) - dim == 2 and divisor > SUBLANES and isinstance(base_of(op), BlockArgument):
            # XLA may have laid out what the kernel gets in smaller tiles.
            divisor = min(divisor, rows_of_tiles(base_of(op), target))
        if divisor > 1:
            yield dim, index, divisor


def _short_rows(op: Operation, target: Target) -> None:
    """Refuses a part of a single row, at an index known only at run time, that lies in one
    register.

    Asked of libtpu 0.0.51: in arrays of over 128 columns, an access of more than 128 columns of one
    row may start at any row; an access that fits a register must start at a tile, and so must one
    of several rows.
    """
    memref = cast(AnyMemRef, base_of(op).type)
    shape, index = memref.get_shape(), indices_of(op)
    accessed = accessed_shape(op)
    if len(shape) < 2 or len(index) != len(shape) or bit_width(memref) != 32:
        return
    rows, columns = tile_rows(shape[-2], 32), _columns(base_of(op))
    if columns <= LANES or accessed[-1] > LANES:
        return
    if shape[-2] > 1 and accessed[-2] == 1 and remainder(index[-2], rows) is None:
        raise refusal(
            op, "unproven-alignment",
            f"{accessed[-1]} columns of a row that is known at run time cannot be accessed in an "
            f"array of {columns} columns",
            f"the compiler finds single rows in arrays of one column of tiles, or more than {LANES}"
            " columns of a row",
            "access the whole row, ref[pl.ds(i, 1), :], and slice or extend its value",
        )  # fmt: skip


def _columns(array: SSAValue) -> int:
    """The columns of the array of which `array` is a part: the tiles of a part lie beside the
    array's other columns of tiles."""
    behind = (view.operands[0] for view in views_behind(array, *_BESIDE))
    return max(cast(AnyMemRef, ref.type).get_shape()[-1] for ref in (array, *behind))


_BESIDE = (tpu.MemrefSliceOp, tpu.MemrefSqueezeOp, tpu.MemrefBitcastOp)


def _divisor(
    memref: AnyMemRef, dim: int, loaded: Sequence[int], large_halves: bool, columns: int
) -> int:
    """The number of which a dynamic index of dimension `dim` must be a multiple.

    Along lanes it is the tile. Rows of 32-bit types may start anywhere if one row is accessed, or
    if the array has one column of tiles; `columns` is the number of columns of the array, of which
    this ref may be a part.
    """
    shape, bits = memref.get_shape(), bit_width(memref)
    back = len(shape) - dim
    if back > 2:
        return 1
    if back == 1:
        return LANES if len(shape) > 1 else LANES * packing(bits)
    if bits == 32 and (columns <= LANES or loaded[dim] == 1):
        return 1
    tiling = tiling_of(memref)
    if tiling is not None:
        return tiling.tile_of(dim)
    return tile_rows(shape[dim], bits, large_halves=large_halves)


def _rows_of_recast(array: SSAValue, target: Target) -> int | None:
    """The rows of a tile of `array` if it is a bitcast or a reshape of another array, whose tiles
    it keeps; else None.

    Asked of libtpu 0.0.51 about all pairs of 32, 16, 8 and 4 bits in 128 and 256 columns. In one
    column of tiles, single rows of words are tiles of their own.
    """
    views = list(views_behind(array, *VIEWS))
    source = views[-1].operands[0] if views else array
    recast = any(isinstance(view, tpu.MemrefBitcastOp | tpu.MemrefReshapeOp) for view in views)
    kind, view = cast(AnyMemRef, source.type), cast(AnyMemRef, array.type)
    if not recast or tiling_of(view) is not None or len(kind.get_shape()) < 2:
        return None
    single = bit_width(kind) == 32 and kind.get_shape()[-1] <= LANES
    rows = 1 if single else rows_of_tiles(source, target)
    return max(1, rows * bit_width(kind) // bit_width(view))


def _no_addition(op: tpu.VectorStoreOp, target: Target) -> None:
    """Refuses stores that add to memory (libtpu: "not implemented: add to vmem")."""
    if op.add.value.data:
        raise refusal(
            op, "store-add", "a store that adds to what is in memory is not for TensorCores",
            "only stores of the SparseCore add",
            "load, add and store",
        )  # fmt: skip


def _mask_type(op: tpu.VectorLoadOp | tpu.VectorStoreOp, target: Target) -> None:
    """Refuses masks that are no booleans; libtpu 0.0.51 fails on all of them
    ("vmask->ProducesVmreg()"), although JAX lowers any `mask=`."""
    if op.mask is not None and bit_width(op.mask.type) != 1:
        raise refusal(
            op, "mask-type", f"the mask of an access is {op.mask.type}",
            "a mask is a vector of booleans, which lies in a mask register",
            "compare it: mask != 0",
        )  # fmt: skip


def _rank_rule(op: tpu.VectorStoreOp, target: Target) -> None:
    """Refuses stores of vectors of lower rank than their memref.

    libtpu: "memref and vector rank mismatch"; `vector.store` has no such rule.
    """
    stored, memref = op.value.type, op.base.type
    if stored.get_num_dims() != memref.get_num_dims():
        raise refusal(
            op, "store-rank", f"the TPU compiler cannot store {stored} to {memref}",
            "it wants a vector with as many dimensions as the memref",
            "give the value leading dimensions of 1",
        )  # fmt: skip


ACCESS_RULES: RuleTable = {
    **dict.fromkeys(
        (tpu.StridedLoadOp, tpu.StridedStoreOp, vector.LoadOp, vector.StoreOp),
        (_vector_access, _alignment),
    ),
    tpu.VectorLoadOp: (_mask_type, _vector_access, _alignment),
    tpu.VectorStoreOp: (_mask_type, _no_addition, _vector_access, _alignment),
}
_PARTS = (part_of_tile_rule, _whole_alignment)
ACCESS_REFERENCE_RULES: RuleTable = {
    **dict.fromkeys((tpu.StridedLoadOp, tpu.StridedStoreOp), (_strided,)),
    **dict.fromkeys((tpu.VectorLoadOp, vector.LoadOp), (_short_rows, load_rule, *_PARTS)),
    tpu.VectorStoreOp: (_rank_rule, _byte_masks, _short_rows, *_PARTS),
    vector.StoreOp: (_byte_masks, _short_rows, *_PARTS),
}
"""What the TPU compiler refuses and we could do: `--allow-beyond-reference` lifts these."""
