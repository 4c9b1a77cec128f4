"""The five generations that Pallasite models, and their lookup by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pallasite.diagnostics import UsageError
from pallasite.targets.target import GIB, KIB, MIB, SparseCores, Target


def _square(*types: str) -> set[tuple[str, str]]:
    return {(a, b) for a in types for b in types}


_FLOAT_V5 = _square("f32", "bf16", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ")
_INT_V5 = _square("i8") | _square("i4")
_PUSHED_V5 = frozenset({"f32", "bf16", "f8E5M2", "i8", "i4"})
_V7_NARROW = ("f8E5M2", "f8E4M3FN")
_V7_PAIRS = _square("f32", "bf16", *_V7_NARROW)
_V6_CASTS = {("bf16", "i8"), ("bf16", "i4"), ("i8", "bf16"), ("i4", "bf16")}
_V7_CASTS = _V6_CASTS | {
    ("f8E5M2", "bf16"), ("f8E4M3FN", "bf16"), ("bf16", "f8E5M2"), ("bf16", "f8E4M3FN"),
    ("f4E2M1FN", "f8E5M2"), ("f4E2M1FN", "f8E4M3FN"), ("f32", "i8"), ("f32", "i4"),
    ("i8", "f8E5M2"), ("i8", "f8E4M3FN"),
}  # fmt: skip

_GATHERS = frozenset({8, 16, 32})
_SPARSE_V5P = SparseCores(cores=4, subcores=16, lanes=8, vmem_bytes=512 * KIB, semaphores=27)
_SPARSE_V6E = SparseCores(
    cores=2, subcores=16, lanes=8, vmem_bytes=256 * KIB, semaphores=27, scalar_semaphores=7029
)
_SPARSE_V7X = SparseCores(
    cores=2, subcores=16, lanes=16, vmem_bytes=512 * KIB, semaphores=59, scalar_semaphores=6929,
    dma_granule_bytes=64, unconverted=frozenset(),
)  # fmt: skip

_BF16_V4 = frozenset({
    "arith.divf", "arith.negf", "math.absf", "math.ceil", "math.cos", "math.floor", "math.log1p",
    "math.round", "math.roundeven", "math.rsqrt", "math.sin", "math.sqrt", "math.tan",
})  # fmt: skip
_BF16_V6 = _BF16_V4 | {
    "arith.addf", "arith.cmpf", "arith.maximumf", "arith.minimumf", "arith.mulf", "arith.subf",
    "math.erf", "math.exp", "math.exp2", "math.log", "math.powf", "math.tanh",
}  # fmt: skip

_I16_V6 = frozenset({"arith.addi", "arith.cmpi", "arith.muli", "arith.subi"})

_EQUATED = frozenset({8, 16, 32})
_SHIFTED = frozenset({4, 8, 16, 32})

_V4 = Target(
    name="v4", topology="v4:2x2x1", device_kind="TPU v4", cores=2,
    vmem_bytes=16 * MIB, copies_to_vmem=False, hbm_bytes=16 * GIB, reserved_semaphores=79,
    reserved_smem_bytes=136,
    memory_banks=16, staging_registers=1,
    matmul_pairs=frozenset(_square("f32", "bf16")),
    bf16_ops=_BF16_V4, max_mask_subelements=2, interleaved_pack_bits=32,
    unconverted=frozenset({"f4E2M1FN", "i2"}),
    transpose_bits=frozenset({16, 32}),
    clock_hz=1050e6, hbm_bytes_per_second=615e9,
    bf16_ops_per_second=137.5e12,
)  # fmt: skip
_V5E = Target(
    name="v5e", topology="v5e:2x2", device_kind="TPU v5 lite",
    vmem_bytes=128 * MIB, hbm_bytes=16 * GIB,
    matmul_pairs=frozenset(_FLOAT_V5 | _INT_V5), pushed_types=_PUSHED_V5,
    bf16_ops=_BF16_V4, equated_bits=_EQUATED, shifted_bits=_SHIFTED,
    unsigned_unpack=True, widens_matmuls=True,
    narrowest_select_bits=8, max_mask_subelements=4, splits_wide_rows=True,
    cut_sublanes=frozenset(range(1, 8)),
    unconverted=frozenset({"f4E2M1FN"}),
    sublane_gather=True, strided_rotate_bits=frozenset({16, 32}),
    stochastic_round=True,
    transpose_bits=frozenset({16, 32}),
    routes_any_offset=False,
    clock_hz=1500e6, hbm_bytes_per_second=820e9,
    bf16_ops_per_second=197e12, int8_ops_per_second=394e12,
)  # fmt: skip
# The cores of both compute alike.
_V5P = replace(
    _V5E,
    name="v5p", topology="v5p:2x2x1", device_kind="TPU v5", cores=2, active_cores=2,
    vmem_bytes=64 * MIB, reserved_vmem_bytes=64 * KIB, copies_to_vmem=False,
    hbm_bytes=48 * GIB, reserved_semaphores=75,
    routes_any_offset=True,
    clock_hz=1750e6, hbm_bytes_per_second=1230e9,
    bf16_ops_per_second=229.5e12, int8_ops_per_second=459e12, ici_bytes_per_second=90e9,
    sparse=_SPARSE_V5P,
)  # fmt: skip
_V6E = Target(
    name="v6e", topology="v6e:2x2", device_kind="TPU v6 lite",
    vmem_bytes=128 * MIB, reserved_vmem_bytes=64 * KIB, scoped_vmem_bytes=32 * MIB,
    hbm_bytes=32 * GIB, reserved_semaphores=73,
    mxu_contracting=256, mxu_columns=256, mxus=2,
    matmul_pairs=frozenset(_FLOAT_V5 | _INT_V5), pushed_types=_PUSHED_V5,
    bf16_ops=_BF16_V6, i16_ops=_I16_V6, equated_bits=_EQUATED, shifted_bits=_SHIFTED,
    unsigned_unpack=True,
    byte_division=True, widens_matmuls=True,
    narrowest_select_bits=8, max_mask_subelements=4, splits_wide_rows=True,
    cut_sublanes=frozenset({4}),
    sublane_gather=True, lane_gather_bits=_GATHERS, sublane_gather_bits=_GATHERS,
    rotate_bits=frozenset({8, 16, 32}), strided_rotate_bits=frozenset({8, 16, 32}),
    stochastic_round=True, dma_signals_regular=True,
    transpose_bits=frozenset({8, 16, 32}), direct_casts=frozenset(_V6_CASTS),
    unconverted=frozenset({"f4E2M1FN"}),
    clock_hz=1750e6, hbm_bytes_per_second=1640e9,
    bf16_ops_per_second=920e12, int8_ops_per_second=1840e12, ici_bytes_per_second=90e9,
    bf16_trunc=True, spreads_packed_lanes=True, large_half_tiles=frozenset({"scoped"}),
    large_buffer_halves=True,
    sparse=_SPARSE_V6E,
)  # fmt: skip
_V7X = Target(
    name="v7x", topology="tpu7x:2x2x1", device_kind="TPU7x",
    chip_devices=2,
    vmem_bytes=64 * MIB, reserved_vmem_bytes=64 * KIB, scoped_vmem_bytes=32 * MIB,
    vmem_beside_inputs=10 * MIB, hbm_bytes=96 * GIB,
    semaphores=4096, reserved_semaphores=415, reserved_smem_bytes=1928,
    mxu_contracting=256, mxu_columns=256, mxus=2, accumulators=256,
    matmul_pairs=frozenset(_V7_PAIRS), pushed_types=frozenset({"f32", "bf16", *_V7_NARROW}),
    bf16_ops=_BF16_V6, i16_ops=_I16_V6, equated_bits=_EQUATED, shifted_bits=_SHIFTED,
    unsigned_unpack=True,
    byte_division=True, widens_matmuls=True,
    narrowest_select_bits=8, max_mask_subelements=4, splits_wide_rows=True,
    cut_sublanes=frozenset({4}),
    sublane_gather=True, lane_gather_bits=_GATHERS, sublane_gather_bits=_GATHERS,
    rotate_bits=frozenset({8, 16, 32}), strided_rotate_bits=frozenset({8, 16, 32}),
    stochastic_round=True, dma_signals_regular=True,
    transpose_bits=frozenset({8, 16, 32}), direct_casts=frozenset(_V7_CASTS),
    clock_hz=1750e6, hbm_bytes_per_second=3700e9,
    bf16_ops_per_second=1155e12, ici_bytes_per_second=90e9,
    bf16_trunc=True, spreads_packed_lanes=True, widens_mixed_bytes=True,
    large_half_tiles=frozenset({"scratch", "scoped"}), large_buffer_halves=True,
    unmultiplied=frozenset({"f8E4M3B11FNUZ", "i16", "i2"}),
    sparse=_SPARSE_V7X,
)  # fmt: skip

TARGETS: dict[str, Target] = {t.name: t for t in (_V4, _V5E, _V5P, _V6E, _V7X)}

DEFAULT_TARGET = _V5E.name
"""Whose kernels are meant where nobody says."""


def targets_with(feature: Callable[[Target], object]) -> str:
    """The names of the targets of which `feature` is true, for messages: `v6e and v7x`."""
    *others, last = (name for name, target in TARGETS.items() if feature(target))
    return f"{', '.join(others)} and {last}" if others else last


def get_target(name: str) -> Target:
    """The record of target `name`; a `UsageError` naming the known targets otherwise."""
    # Compared and not looked up: callers may pass what has no hash.
    if name not in tuple(TARGETS):
        known = ", ".join(TARGETS)
        raise UsageError("unknown-target", f"expected a target of {known}, got {name!r}")
    return TARGETS[name]
