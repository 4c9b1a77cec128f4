"""Refuses uses of the core that it does not have: program ids of other grids, logs, traces,
switches, barriers.

Asked of libtpu 0.0.51 for v5e and v6e.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, Float32Type, IntegerType, VectorType, i1
from xdsl.ir import Attribute, Operation

from pallasite.dialects import func, scf, tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.kernel import Kernel, check_structured_region
from pallasite.dialects.locations import refusal
from pallasite.passes.check_kernel.rules import Rule, RuleTable
from pallasite.targets import Target


def _subcores(op: Operation, target: Target) -> None:
    """Refuses operations of SparseCores in a TensorCore kernel."""
    raise refusal(
        op, "subcore", f"{in_words(op)} is not supported on a TensorCore",
        "it is for the subcores of a SparseCore", "use semaphores: pl.semaphore_signal and _wait",
    )  # fmt: skip


def _logged_vector(op: tpu.LogOp, target: Target) -> None:
    """Refuses to log vectors."""
    if any(isinstance(type, VectorType) for type in op.inputs.types):
        raise refusal(
            op, "logged-type", "a vector cannot be logged", "a log takes scalars",
            "store it to a ref and print that, or print some of its elements",
        )  # fmt: skip


def _logged(op: tpu.LogOp, target: Target) -> None:
    """Refuses to log scalars of over 32 bits and floats other than float32, and to format
    booleans."""
    for type in op.inputs.types:
        if not _is_logged(type) or (type == i1 and op.formatted.value.data):
            raise refusal(
                op, "logged-type", f"a scalar of {type} cannot be logged"
                + (" by a format" if type == i1 else ""),
                "the scalar unit logs 32-bit words",
                "cast it to float32" if isinstance(type, AnyFloat) else "cast it to int32",
            )  # fmt: skip


def _is_logged(type: Attribute) -> bool:
    if isinstance(type, IntegerType):
        return type.width.data <= 32
    return not isinstance(type, AnyFloat) or isinstance(type, Float32Type)


def _traced(op: tpu.TraceOp, target: Target) -> None:
    """Refuses traces with results."""
    if op.outputs:
        raise refusal(
            op, "trace-results", "a trace with results is not supported",
            "the TPU compiler takes no values out of it",
            "compute them before it, or use tpu.trace_start and tpu.trace_stop",
            "the TPU compiler says: results unsupported",
        )  # fmt: skip


def _switched(op: scf.IndexSwitchOp, target: Target) -> None:
    """Refuses `scf.index_switch`; JAX lowers `jax.lax.switch` to nested `scf.if`."""
    raise refusal(
        op, "switch", "scf.index_switch is not supported",
        "the TPU compiler knows branches of two sides only",
        "branch by comparisons, one inside the other: nested scf.if",
        "the TPU compiler says: Unsupported operation: scf.index_switch",
    )  # fmt: skip


def _called(op: func.CallOp, target: Target) -> None:
    """Refuses calls; JAX inlines functions."""
    raise refusal(
        op, "function-call", f"a call of @{op.callee.string_value()} in a kernel is not supported",
        "functions of a kernel's module are index maps",
        "put the operations of the function in the place of the call",
        "the TPU compiler says: failed to legalize operation 'func.call'",
    )  # fmt: skip


def _structured(op: scf.ExecuteRegionOp, target: Target) -> None:
    """Refuses regions of several blocks."""
    check_structured_region(op, 0)


def grid_dimensions(kernel: Kernel) -> Rule:
    """The rule that `tpu.iteration_bound` names a dimension of the grid of `kernel`.

    A function without `dimension_semantics` does not say what its grid is, so nothing is refused
    there.
    """
    grid, known = kernel.grid or (), "dimension_semantics" in kernel.func.attributes

    def bound(op: tpu.IterationBoundOp, target: Target) -> None:
        dim = op.dim.value.data
        if known and not 0 <= dim < len(grid):
            raise refusal(
                op, "iteration-bound", f"grid dimension {dim} of a kernel with {len(grid)} grid "
                "dimensions", f"pl.num_programs takes 0 to {len(grid) - 1}" if grid
                else "the kernel has no grid",
            )  # fmt: skip

    return bound


CONTROL_RULES: RuleTable = {
    tpu.BarrierOp: (_subcores,),
    tpu.LogOp: (_logged_vector,),
    scf.ExecuteRegionOp: (_structured,),
}
CONTROL_REFERENCE_RULES: RuleTable = {
    tpu.LogOp: (_logged,),
    tpu.TraceOp: (_traced,),
    scf.IndexSwitchOp: (_switched,),
    func.CallOp: (_called,),
}
"""What the TPU compiler refuses and we could do: `--allow-beyond-reference` lifts these."""
