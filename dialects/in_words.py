"""Names of operations in messages: the word that a kernel's author uses, then the MLIR name."""

from __future__ import annotations

from xdsl.ir import Operation

WORDS = {
    "addition": ("arith.addi", "arith.addf", "arith.addui_extended"),
    "subtraction": ("arith.subi", "arith.subf"),
    "multiplication": ("arith.muli", "arith.mulf", "arith.mulsi_extended", "arith.mului_extended"),
    "division": (
        "arith.divsi", "arith.divui", "arith.divf", "arith.floordivsi", "arith.ceildivsi",
        "arith.ceildivui",
    ),
    "a remainder": ("arith.remsi", "arith.remui", "arith.remf"),
    "a maximum": ("arith.maxsi", "arith.maxui", "arith.maximumf", "arith.maxnumf"),
    "a minimum": ("arith.minsi", "arith.minui", "arith.minimumf", "arith.minnumf"),
    "a shift": ("arith.shli", "arith.shrsi", "arith.shrui"),
    "the operation &": ("arith.andi",),
    "the operation |": ("arith.ori",),
    "the operation ^ or ~": ("arith.xori",),
    "negation": ("arith.negf",),
    "a comparison": ("arith.cmpi", "arith.cmpf"),
    "a choice": ("arith.select",),
    "a cast": (
        "arith.extsi", "arith.extui", "arith.extf", "arith.trunci", "arith.truncf",
        "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui", "arith.index_cast",
        "tpu.fptosi", "tpu.fptoui", "tpu.sitofp", "tpu.uitofp", "tpu.extf", "tpu.truncf",
    ),
    "a bitcast": ("arith.bitcast", "tpu.bitcast", "tpu.bitcast_vreg"),
    "an absolute value": ("math.absi", "math.absf"),
    "a population count": ("math.ctpop",),
    "a count of leading zeros": ("math.ctlz",),
    "a count of trailing zeros": ("math.cttz",),
    "a power": ("math.powf", "math.fpowi", "math.ipowi"),
    "a loop": ("scf.for",),
    "a while loop": ("scf.while",),
    "a condition": ("scf.if", "scf.index_switch"),
    "a load": ("vector.load", "memref.load", "tpu.load", "tpu.strided_load"),
    "a store": ("vector.store", "memref.store", "tpu.store", "tpu.strided_store"),
    "a broadcast": ("vector.broadcast",),
    "a reshape": ("vector.shape_cast", "tpu.reshape"),
    "a slice": ("vector.extract_strided_slice",),
    "an element of a value": ("vector.extract",),
    "a reduction": ("vector.multi_reduction", "vector.reduction", "tpu.all_reduce"),
    "an argmax or argmin": ("tpu.reduce_index",),
    "a transpose": ("vector.transpose", "tpu.transpose"),
    "a product": ("tpu.matmul", "vector.contract"),
    "a concatenation": ("tpu.concatenate",),
    "a rotation": ("tpu.rotate", "tpu.dynamic_rotate"),
    "a gather": ("tpu.gather", "tpu.dynamic_gather"),
    "an iota": ("tpu.iota", "vector.step"),
    "an outer product": ("vector.outerproduct",),
    "a scan": ("vector.scan", "tpu.scan"),
    "an assumption of pl.multiple_of": ("tpu.assume_multiple",),
    "a signal": ("tpu.sem_signal",),
    "a wait": ("tpu.sem_wait",),
    "a barrier": ("tpu.sem_barrier", "tpu.barrier"),
    "the start of a copy": ("tpu.enqueue_dma", "tpu.enqueue_indirect_dma"),
    "the wait for a copy": ("tpu.wait_dma", "tpu.wait_dma2", "tpu.wait_indirect_dma"),
    "random bits": ("tpu.prng_random_bits",),
    "pl.run_scoped": ("tpu.region",),
}  # fmt: skip
_SAID = {name: words for words, names in WORDS.items() for name in names}


def in_words(op: Operation) -> str:
    """The name of `op` in messages, such as `a loop (scf.for)`."""
    said = _SAID.get(op.name)
    return op.name if said is None else f"{said} ({op.name})"
