"""The `Target` record: what passes and the modelled machine ask of a TPU generation.

Element types are named as MLIR spells them (`f32`, `bf16`, `i8`, `f8E5M2`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
_ROWS_AT_ONCE = 8
"""Rows of VMEM that one access reaches: those of a register."""


@dataclass(frozen=True)
class SparseCores:
    """The SparseCores of one device (JAX 0.10.2, `tpu_info`; memories asked of libtpu 0.0.51)."""

    cores: int
    subcores: int
    """Vector subcores of each core, beside its one scalar subcore."""
    lanes: int
    """Words of a register."""
    vmem_bytes: int
    """Bytes per vector subcore. Memory that the subcores of a core share is taken from the same
    pool of `subcores * vmem_bytes`."""
    semaphores: int
    """Semaphores of one vector subcore that a kernel may use, including one for the barrier between
    devices; the compiler keeps the others."""
    smem_bytes: int = 2046 * 4
    """SMEM of a vector subcore that a kernel may use."""
    scalar_smem_bytes: int = 16327 * 4
    """SMEM of a scalar subcore that a kernel may use."""
    scalar_semaphores: int = 7019
    """Semaphores of a scalar subcore that a kernel may use."""
    dma_granule_bytes: int = 32
    """Transfers move whole multiples of this size."""
    unconverted: frozenset[str] = frozenset({"f8E4M3FN"})
    """Element types that registers cannot convert from or to."""

    @property
    def pool_bytes(self) -> int:
        """The memory of a core from which its subcores take their own VMEM and what they share."""
        return self.subcores * self.vmem_bytes


@dataclass(frozen=True)
class Target:
    """What one TPU core (and its chip) offers. Sizes are bytes, per core unless named otherwise."""

    name: str
    topology: str
    """The name of a small slice of this chip for JAX's ahead-of-time compiler."""
    device_kind: str
    """The attribute `device_kind` of JAX's devices of this chip."""
    cores: int = 1
    """TensorCores of one device that a kernel can use."""
    active_cores: int = 1
    """The only size of a core-parallel axis that the compiler accepts (asked of libtpu 0.0.51,
    which uses the second core of v4 for parallel axes only)."""
    sublanes: int = 8
    lanes: int = 128
    """Rows and columns of a register, in 32-bit words."""
    vmem_bytes: int = 128 * MIB
    reserved_vmem_bytes: int = 0
    """VMEM that the compiler reserves, so that no kernel can use it (asked of libtpu 0.0.51: chips
    with SparseCores)."""
    scoped_vmem_bytes: int = 16 * MIB
    """VMEM of a kernel that does not ask for more."""
    copies_to_vmem: bool = True
    """Copies that the program makes of arrays in another layout lie in VMEM that kernels do not
    get."""
    vmem_beside_inputs: int | None = None
    """Bytes of VMEM that are free if the program copies all inputs of a kernel there; None if it
    makes no such copies (asked of libtpu 0.0.51, to within 16 KiB)."""
    smem_bytes: int = 1 * MIB
    reserved_smem_bytes: int = 1924
    """SMEM that the compiler reserves, so that no kernel can use it (asked of libtpu 0.0.51, which
    says how much is too much). Where scalar registers run out, a KiB more is for spilling them."""
    hbm_bytes: int = 16 * GIB
    semaphores: int = 512
    """Regular and DMA semaphores together, including the reserved ones."""
    reserved_semaphores: int = 71
    """Semaphores that the compiler reserves, so that no kernel can use them (asked of libtpu
    0.0.51)."""

    mxu_contracting: int = 128
    """Rows of the stationary operand that one MXU pass contracts."""
    mxu_columns: int = 128
    """Columns of the stationary operand of one MXU pass."""
    mxus: int = 4
    """Matrix units of a core; kernels that control them explicitly number them from 0."""
    staging_registers: int = 2
    """Stationary operands that a matrix unit may hold besides the one in use."""
    pushed_types: frozenset[str] = frozenset({"f32", "bf16"})
    """Element types of operands that a kernel may push into a matrix unit explicitly."""
    accumulators: int = 0
    """Registers in which a matrix unit keeps sums; 0 if results leave it through a queue."""
    matmul_pairs: frozenset[tuple[str, str]] = frozenset()
    """Operand element types (left, right) that the MXU multiplies without conversion."""

    bf16_ops: frozenset[str] = frozenset()
    """Operations on packed bf16 that need no conversion; all others are done in f32. The compiler
    was asked about each."""
    i16_ops: frozenset[str] = frozenset()
    """Arithmetic on packed 16-bit integers that needs no conversion; all other is done in i32."""
    ordered_bits: frozenset[int] = frozenset({16, 32})
    """Widths of integers whose order (`slt`, `ult`, ...) registers compare without widening; the
    resulting mask has the same width."""
    equated_bits: frozenset[int] = frozenset({16, 32})
    """Widths of integers that registers compare for equality (`eq`, `ne`) without widening."""
    shifted_bits: frozenset[int] = frozenset({16, 32})
    """Widths of integers that registers shift by a scalar amount without widening."""
    unsigned_unpack: bool = False
    """Integers narrower than 16 bits can be unpacked with zero extension, also for shifts by
    vectors."""
    byte_division: bool = False
    """Vectors of unsigned bytes can be divided; vectors of 16-bit integers can on every target."""
    widens_matmuls: bool = False
    """The compiler widens operands that the matrix unit cannot multiply, if they are two integers
    of one type of at most 8 bits, or narrow floats. Wider floats are widened on every target."""
    widens_mixed_bytes: bool = False
    """The compiler does so also for two different integer types of at most 8 bits."""
    unmultiplied: frozenset[str] = frozenset()
    """Element types that cannot be multiplied with floats in a matrix product, even widened."""
    cut_sublanes: frozenset[int] = frozenset()
    """Numbers of sublanes into which a reshape can cut registers of one column without moving
    data."""
    bf16_trunc: bool = False
    """The compiler accepts `math.trunc` of bf16."""
    spreads_packed_lanes: bool = False
    """The compiler accepts reshapes that turn the lanes of several registers of a packed type into
    sublanes."""
    splits_wide_rows: bool = False
    """The compiler accepts reshapes that split rows of more than 128 lanes into several rows."""
    narrowest_select_bits: int = 32
    """Width of the narrowest element that a select takes without widening."""
    max_mask_subelements: int = 1
    """Mask bits per 32-bit word that the mask registers hold."""
    sublane_gather: bool = False
    """The compiler accepts `dynamic_gather` along sublanes."""
    lane_gather_bits: frozenset[int] = frozenset({8, 32})
    """Element widths that the compiler gathers along lanes."""
    sublane_gather_bits: frozenset[int] = frozenset({32})
    """Element widths that the compiler gathers along sublanes."""
    rotate_bits: frozenset[int] = frozenset({16, 32})
    """Element widths that the cross-lane unit rotates along lanes without unpacking."""
    strided_rotate_bits: frozenset[int] = frozenset()
    """Element widths for which the cross-lane unit can rotate each row by a different amount."""
    stochastic_round: bool = False
    """The target has `tpu.stochastic_convert`, which rounds floats up or down at random."""
    dma_signals_regular: bool = False
    """A transfer may signal a regular semaphore, which counts transfers instead of bytes."""
    interleaved_pack_bits: int = 16
    """Width of the narrowest packed element for interleaved pack and unpack; 32 means that there
    are none."""
    transpose_bits: frozenset[int] = frozenset({32})
    """Element widths that the cross-lane unit transposes."""
    direct_casts: frozenset[tuple[str, str]] = frozenset()
    """(from, to) conversions that need no intermediate 32-bit type."""
    unconverted: frozenset[str] = frozenset()
    """Element types that registers hold but cannot convert from or to."""

    large_half_tiles: frozenset[str] = frozenset()
    """Kinds of buffers of a kernel, `scratch` and `scoped` (`run_scoped`), of 16-bit elements that
    the compiler tiles by whole registers (16 rows) if their rows are a multiple of that."""
    large_buffer_halves: bool = False
    """The compiler does so also for buffers of 16-bit elements that have no layout yet."""

    chip_devices: int = 1
    """JAX devices per chip."""
    routes_any_offset: bool = True
    """Transfers reach every other device of a pod; if false, only devices that are a power of two
    away (JAX, "Distributed Computing in Pallas for TPUs", Routing)."""
    sparse: SparseCores | None = None
    """The SparseCores of a device, if it has any."""

    clock_hz: float = 940e6
    hbm_bytes_per_second: float = 820e9
    vmem_bytes_per_second: float = 16e12
    """Bandwidth of copies within VMEM, about twenty times that of HBM."""
    ici_bytes_per_second: float = 45e9
    """Bandwidth of one link between chips, in one direction."""
    dma_latency_seconds: float = 1e-6
    """Time from the start of a transfer to its first byte."""
    bf16_ops_per_second: float = 197e12
    """Throughput of all MXUs of a core together."""
    int8_ops_per_second: float = 0.0
    """The same for 8-bit operands; 0 if it is that of bf16."""
    vpu_slots: int = 4
    """VPU operations on registers that can be issued per cycle."""
    load_slots: int = 3
    """Registers that can be loaded per cycle."""
    memory_banks: int = 32
    """Banks of VMEM: row n of 128 words lies in bank n modulo this number. Eight rows in different
    banks are accessed at once; a stride that maps them to fewer banks takes several accesses
    (inferred from the size of the compiler's code)."""

    def row_accesses(self, stride: int) -> int:
        """How many accesses it takes to load or store the words of eight rows of VMEM that are
        `stride` rows apart; one row for all of them if that is 0."""
        if not stride:
            return 1
        banks = self.memory_banks
        return max(1, math.gcd(stride, banks) * _ROWS_AT_ONCE // banks)

    @property
    def spatial(self) -> bool:
        """Chips are neighbours in three dimensions, not in two."""
        return self.topology.partition(":")[2].count("x") == 2
