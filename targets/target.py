"""The `Target` record: what passes and the modelled machine ask of a TPU generation.

Element types are named as MLIR spells them (`f32`, `bf16`, `i8`, `f8E5M2`).
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True)
class SparseCores:
    """The SparseCores of one device (JAX 0.10.2, `tpu_info`; memories asked of libtpu 0.0.51)."""

    cores: int
    subcores: int
    """Vector subcores of each core, beside its one scalar subcore."""
    lanes: int
    """Words of a register."""
    vmem_bytes: int
    """Of a vector subcore. The memory that the subcores of a core share is what they leave of
    theirs: all of them together have `subcores * vmem_bytes`."""
    semaphores: int
    """What the compiler leaves a kernel of one subcore, and one for the barrier between devices."""
    smem_bytes: int = 2046 * 4
    """What it leaves a kernel of a vector subcore's SMEM."""
    scalar_smem_bytes: int = 16327 * 4
    """What it leaves a kernel of a scalar subcore's SMEM."""
    scalar_semaphores: int = 7019
    """What it leaves a kernel of a scalar subcore."""
    dma_granule_bytes: int = 32
    """Of what a transfer moves at least, and a whole number of."""
    unconverted: frozenset[str] = frozenset({"f8E4M3FN"})
    """Element types that no conversion in registers reads or writes."""

    @property
    def pool_bytes(self) -> int:
        """Of the memory of which one core's subcores have their own and their shared parts."""
        return self.subcores * self.vmem_bytes


@dataclass(frozen=True)
class Target:
    """What one TPU core (and its chip) offers. Sizes are bytes, per core unless named otherwise."""

    name: str
    topology: str
    """What JAX's ahead-of-time compiler calls a small slice of this chip."""
    device_kind: str
    """What JAX's devices of this chip call themselves (`device_kind`)."""
    cores: int = 1
    """TensorCores that one device shows to a kernel."""
    active_cores: int = 1
    """Steps that the compiler takes of a core-parallel axis: no more and no fewer (asked of libtpu
    0.0.51, which gives a kernel on v4 its second core for parallel axes only)."""
    sublanes: int = 8
    lanes: int = 128
    """Words of a register: rows and columns."""
    vmem_bytes: int = 128 * MIB
    reserved_vmem_bytes: int = 0
    """What the compiler keeps of it, from every kernel (asked of libtpu 0.0.51: chips with
    SparseCores)."""
    scoped_vmem_bytes: int = 16 * MIB
    """What the compiler gives a kernel that does not ask for more."""
    copies_to_vmem: bool = True
    """Copies that the program makes of arrays in another order are in what kernels do not get."""
    vmem_beside_inputs: int | None = None
    """Bytes of it that copies of all inputs, which are made there too, leave free; None where none
    are made (asked of libtpu 0.0.51, to the 16 KiB)."""
    smem_bytes: int = 1 * MIB
    hbm_bytes: int = 16 * GIB
    semaphores: int = 512
    """Of both kinds together, those that the compiler keeps among them."""
    reserved_semaphores: int = 71
    """What the compiler keeps of them, from every kernel (asked of libtpu 0.0.51)."""

    mxu_contracting: int = 128
    """Rows of the stationary operand that one MXU pass contracts."""
    mxu_columns: int = 128
    """Columns of the stationary operand of one MXU pass."""
    mxus: int = 4
    """Matrix units of a core, by index where a kernel feeds them by hand."""
    staging_registers: int = 2
    """Stationary operands that a matrix unit may hold besides the one in use."""
    staged: frozenset[str] = frozenset({"f32", "bf16"})
    """Element types of operands that are fed by hand."""
    accumulators: int = 0
    """Registers in which a matrix unit keeps sums; 0 if results leave it through a queue."""
    matmul_pairs: frozenset[tuple[str, str]] = frozenset()
    """Operand element types (left, right) that the MXU takes as they are."""

    bf16_ops: frozenset[str] = frozenset()
    """Operations that run on packed bf16 as it is; all others go through f32. Each was tried."""
    i16_ops: frozenset[str] = frozenset()
    """Arithmetic that runs on packed 16-bit integers as it is; all other goes through i32."""
    ordered_bits: frozenset[int] = frozenset({16, 32})
    """Widths of integers that registers order as they are, for masks of that width."""
    equated_bits: frozenset[int] = frozenset({16, 32})
    """So for being equal or not."""
    shifted_bits: frozenset[int] = frozenset({16, 32})
    """Widths of integers that registers shift by one number as they are."""
    unsigned_unpack: bool = False
    """Integers narrower than 16 bits unpack without their sign, for shifts by vectors too."""
    byte_division: bool = False
    """Vectors of unsigned bytes divide; those of half words do on every generation."""
    widens_matmuls: bool = False
    """Products of pairs that the matrix unit lacks: two integers of one type of 8 bits or less, or
    narrow floats. Wider floats are widened by every chip."""
    widens_mixed_bytes: bool = False
    """So for two different integer types of 8 bits or less."""
    unmultiplied: frozenset[str] = frozenset()
    """Element types that are factors of no product with a float, nor widened to be."""
    cut_sublanes: frozenset[int] = frozenset()
    """Sublanes into which a reshape cuts registers of one column without moving anything."""
    bf16_trunc: bool = False
    """`math.trunc` of bf16."""
    spreads_packed_lanes: bool = False
    """Lanes of several registers of a packed type become sublanes."""
    splits_wide_rows: bool = False
    """Rows of more than 128 lanes become rows of their parts."""
    narrowest_select_bits: int = 32
    """Narrowest element that a select takes without widening."""
    max_mask_subelements: int = 1
    """Mask bits per 32-bit word that the mask registers hold."""
    sublane_gather: bool = False
    """`dynamic_gather` along sublanes."""
    lane_gather_bits: frozenset[int] = frozenset({8, 32})
    """Element widths that the compiler gathers along lanes."""
    sublane_gather_bits: frozenset[int] = frozenset({32})
    """Element widths that the compiler gathers along sublanes."""
    rotate_bits: frozenset[int] = frozenset({16, 32})
    """Element widths of registers that the cross-lane unit rotates along lanes as they are."""
    strided_rotate_bits: frozenset[int] = frozenset()
    """Element widths of which the cross-lane unit rotates each row by another amount."""
    stochastic_round: bool = False
    """Floats are rounded up or down at random (`tpu.stochastic_convert`)."""
    dma_signals_regular: bool = False
    """A transfer may signal a regular semaphore, by one, instead of counting its bytes."""
    interleaved_pack_bits: int = 16
    """Narrowest packed element for interleaved pack and unpack; 32 means none."""
    transpose_bits: frozenset[int] = frozenset({32})
    """Element widths that the cross-lane unit transposes."""
    direct_casts: frozenset[tuple[str, str]] = frozenset()
    """(from, to) conversions that need no detour through 32 bits."""
    unconverted: frozenset[str] = frozenset()
    """Element types that registers hold and no conversion reads or writes."""

    large_half_tiles: frozenset[str] = frozenset()
    """Buffers of a kernel, `scratch` and `scoped` (`run_scoped`), whose 16-bit rows the compiler
    tiles by whole registers where these divide them."""
    large_buffer_halves: bool = False
    """16-bit rows of buffers without a layout are tiled by whole registers where these divide
    them."""

    chip_devices: int = 1
    """Devices that one chip is for a program."""
    routes_any_offset: bool = True
    """Transfers reach every other device of a pod; otherwise those a power of two away (JAX,
    "Distributed Computing in Pallas for TPUs", Routing)."""
    sparse: SparseCores | None = None
    """The SparseCores of a device, if it has any."""

    clock_hz: float = 940e6
    hbm_bytes_per_second: float = 820e9
    vmem_bytes_per_second: float = 16e12
    """Of copies within VMEM: about twenty times HBM."""
    ici_bytes_per_second: float = 45e9
    """Of one link in one direction."""
    dma_latency_seconds: float = 1e-6
    """From the start of a transfer to its first byte."""
    bf16_ops_per_second: float = 197e12
    """Of all MXUs of a core together."""
    int8_ops_per_second: float = 0.0
    """The same of 8-bit operands; 0: as fast as bf16."""
    vpu_slots: int = 4
    """VPU operations on registers that one cycle issues."""
    load_slots: int = 3
    """Registers that one cycle loads."""
    memory_banks: int = 32
    """Consecutive rows of 128 words that VMEM accesses at once, if they are eight. Rows at a
    distance that leaves them fewer banks take several accesses: so grows the compiler's code."""

    @property
    def spatial(self) -> bool:
        """Chips are neighbours in three dimensions, not in two."""
        return self.topology.partition(":")[2].count("x") == 2
