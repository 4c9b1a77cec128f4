"""Kernels in `pallas` form: traced by us at the place where JAX would lower them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from jax._src import config as jax_config
from jax._src.pallas.mosaic.error_handling import MLIR_ERR_PREFIX, VerificationError
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from pallasite.api import lower
from pallasite.diagnostics import Diagnostic, SourceLocation
from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.locations import position_of, refusal, source_location
from pallasite.dialects.pallas.dot import DotOp, is_one_matmul
from pallasite.dialects.types import bit_width, element_type, is_float
from pallasite.dialects.verification import verify
from pallasite.frontend.jaxprs.advice import ADVICE
from pallasite.frontend.jaxprs.locations import location_of_kernel
from pallasite.jax import tracing
from pallasite.jax.kernel_lowering import Kernel, replace_lowering
from pallasite.jax.settings import Settings
from pallasite.jax.unnamed_subcores import warn_of_unnamed_subcores


def trace_kernels(current: Callable[[], Settings | None]) -> None:
    """Kernels in `pallas` form are traced by us where JAX would lower them (`tracing`).

    What JAX's own lowering raises in a simulation gets a note with our diagnostic of the kernel;
    `current` gives the settings of the thread.
    """

    def instead(kernel: Kernel) -> str | None:
        traced = _traced.get()
        if kernel.on_subcores and (traced is not None or current() is not None):
            warn_of_unnamed_subcores(kernel.jaxpr, kernel.mesh)
        return None if traced is None else kernel.take(traced)

    def around(kernel: Kernel) -> AbstractContextManager[None]:
        if kernel.on_subcores:
            begins = position_of(location_of_kernel(kernel.jaxpr))
            return _explaining_subcores(current, kernel.take, begins)
        return _explaining(current, kernel.take)

    replace_lowering(instead, around)


def _fault(error: Exception) -> str:
    """What JAX's lowering, which has raised `error`, lacks where our tracing takes the kernel."""
    if isinstance(error, VerificationError):
        return "what JAX lowers the kernel to breaks a rule"
    return "JAX does not lower the kernel"


def _tell(error: Exception, explanation: Diagnostic) -> None:
    """Adds `explanation` to an `error` of JAX's lowering. It comes first where JAX takes what it
    says for a fault of its own, and asks to file a bug."""
    said = str(error)
    if said.startswith(MLIR_ERR_PREFIX):
        details = said.removeprefix(MLIR_ERR_PREFIX)
        error.args = (f"{explanation}\nJAX lowers it to what its verifier refuses: {details}",)
    elif _FILE_AN_ISSUE.search(said):
        error.args = (f"{explanation}\nJAX: {_FILE_AN_ISSUE.sub('', said)}",)
    else:
        error.add_note(str(explanation))


_FILE_AN_ISSUE = re.compile(r"\.? Please file an issue (at|on) \S+")


_LOWERED_WIDE = (
    "use numbers of 32 bits, or call the program, not only the kernel, inside 'with "
    "jax.enable_x64(False):', because JAX lowers what jax.jit compiles with the setting around it"
)


@contextmanager
def _explaining(
    current: Callable[[], Settings | None], take: Callable[[tracing.Traced], str]
) -> Generator[None]:
    """Notes on errors of JAX's lowering what `take`, our tracing of the same kernel, or the checks
    of what it traced, say of it: the line and what to write instead. The error stays the one that
    programs may catch."""
    try:
        yield
    except Exception as error:
        # JAX's lowering may raise anything; a note is added and the error is raised again.
        if (settings := current()) is not None:
            traced = tracing.Traced()
            try:
                take(traced)
                assert traced.module is not None
                _check_products(traced.module, settings.target)
                lower(traced.module, "mosaic", settings.target)
                where = source_location(next(iter(traced.module.body.block.ops)))
                prefix = f"{where}: " if where is not None else ""
                error.add_note(
                    f"{prefix}note: {_fault(error)}; traced from its jaxpr "
                    "it is taken, by simulate(form='pallas') and pallasite.jax.trace"
                )
                for advice in _advice(str(error)):
                    error.add_note(f"note: {advice}")
                if jax_config.enable_x64.value:
                    error.add_note(f"note: {_LOWERED_WIDE}")
                if fault := _lowered_wrong(error, traced):
                    _tell(error, fault)
            except Diagnostic as explanation:
                # What else is refused is told of once JAX's own error is mended.
                _tell(error, _lowered_wrong(error, traced) or explanation)
            except Exception:
                # Whatever our tracing makes of a kernel that JAX refuses, JAX's error comes out.
                pass
        raise


_ON_SUBCORES = (
    (r"(Get|Swap) (only supports loading scalars|does not support)", ""),
    (r"(Get|Swap) only supports \S+ arrays", "without layout passes a value is one register, as "
     "ref[pl.ds(start, lanes)]; pltpu.CompilerParams(needs_layout_passes=True) takes larger ones"),
    (r"Integer indexing of refs that follows", "index the leading dimensions, ref[i, pl.ds(0, n)], "
     "or gather: plsc.load_gather"),
    (r"reductions require axes|'tpu\.scan'", "scans and reductions are along the lanes of one "
     "register of words; add rows to each other in a loop"),
    (r"masked (load|store) with non-32-bit", "compressed and expanded accesses are of words: "
     "plsc.unpack before, plsc.pack after"),
    (r"'vector\.shape_cast'|'tpu\.dynamic_gather'", "lanes are reversed and gathered in one "
     "register of words; of others, load them in the order that is wanted"),
    (r"Unsupported cast", "go by way of float32 or int32"),
    (r"debug_print\(\) does not support", "print one value at a time, without placeholders: "
     "pl.debug_print('x', x)"),
    (r"debug_callback", "the host takes no part in a kernel: print by pl.debug_print('x', x)"),
    (r"", "other arithmetic than sums, products, quotients, exponentials and bits is for a "
     "pallas_call on a TensorCore"),
)  # fmt: skip
"""What to write instead of what JAX does not lower for subcores, by a pattern of its message; ours
adds nothing to a message that says it."""


@contextmanager
def _explaining_subcores(
    current: Callable[[], Settings | None],
    take: Callable[[tracing.Traced], str],
    begins: SourceLocation | None,
) -> Generator[None]:
    """Notes on what JAX does not lower for subcores, at the line that `take`, our tracing of the
    kernel, refuses, else where the kernel `begins`. What JAX says of shapes and places has no
    pattern here: such a note is what our tracing says."""
    try:
        yield
    except (NotImplementedError, VerificationError, ValueError) as error:
        explanation = _refusal(take) if current() is not None else None
        if type(error) is ValueError:
            if explanation is not None:
                _tell(error, explanation)
            raise
        where = (explanation.location if explanation is not None else None) or begins
        prefix = f"{where}: " if where is not None else ""
        told = str(error)
        advice = next(advice for pattern, advice in _ON_SUBCORES if re.search(pattern, told))
        rest = f"; {advice}" if advice else ""
        error.add_note(f"{prefix}note: JAX does not lower the kernel for a SparseCore{rest}")
        raise


def _refusal(take: Callable[[tracing.Traced], str]) -> Diagnostic | None:
    """What form `pallas` refuses first of a kernel, None if it takes all."""
    traced = tracing.Traced()
    try:
        take(traced)
        assert traced.module is not None
        verify(traced.module)
    except Diagnostic as error:
        return error
    except Exception:
        # Whatever our tracing makes of a kernel that JAX refuses, JAX's error comes out.
        return None
    return None


def _advice(message: str) -> tuple[str, ...]:
    """What to write instead of a primitive that JAX's lowering has no rule for, or of an index."""
    if "leaves for PyTreeDef" in message:
        return ("write a number that is known now as one of Python's: pl.ds(0, n), not "
                "pl.ds(jnp.int32(0), n)",)  # fmt: skip
    if re.match(r"Var\(id=", message):
        return ("in a lax.scan or lax.while_loop that counts, JAX does not lower a turn that uses "
                "the next count, or the end that is carried: use lax.fori_loop",)  # fmt: skip
    found = re.search(r"Unimplemented primitive in Pallas TPU lowering for \w+: (\w+)", message)
    return ADVICE.get(found[1], ()) if found is not None else ()


def _check_products(module: ModuleOp, target: str) -> None:
    """Raises for a product that JAX does not lower, though form `pallas` has it; where `target`
    has no such product either, in the words of that."""
    for op in module.walk():
        if not isinstance(op, DotOp):
            continue
        if not is_one_matmul(op):
            message = (
                "JAX lowers products with one contracted dimension and at most one batch "
                f"dimension, got {len(op.contracting[0])} and {len(op.batch[0])}"
            )
            advice = (
                "reshape the operands so that these dimensions are one"
                if op.contracting[0]
                else "multiply all by all as vectors: x[:, None] * y[None, :]"
            )
        elif bit_width(element := element_type(op.result.type)) != 32:
            message = f"JAX lowers products to 32-bit results, got {element}"
            wide = "float32" if is_float(element) else "int32"
            advice = f"write preferred_element_type=jnp.{wide}, and cast the result"
        else:
            continue
        unlike = refusal(op, "product", message, advice)
        try:
            lower(module, "mosaic", target)
        except Diagnostic as refused:
            raise (refused if refused.location == unlike.location else unlike) from None
        raise unlike


def _lowered_wrong(error: Exception, traced: tracing.Traced) -> Diagnostic | None:
    """What it is in the kernel that JAX lowers to what its verifier, by `error`, refuses."""
    return _float_count(error, traced) or _uncarried_loop(error, traced)


def _uncarried_loop(error: Exception, traced: tracing.Traced) -> Diagnostic | None:
    """The first loop whose state is all in refs, if `error` is of one: JAX leaves out its end."""
    if "'scf.while' op expects the 'after' region" not in str(error) or traced.module is None:
        return None
    for op in traced.module.walk():
        if isinstance(op, scf.WhileOp) and not op.res:
            return refusal(
                op,
                "uncarried-loop",
                "JAX lowers a while loop only if its body changes something that it carries",
                "carry a number that the body counts: lax.while_loop(condition, lambda i: i + 1, "
                "0), whose functions may read and write refs as well",
            )
    return None


def _float_count(error: Exception, traced: tracing.Traced) -> Diagnostic | None:
    """The first vector that is counted in floats, if `error` is of the operation that JAX lowers it
    to, which counts in integers only."""
    if "'tpu.iota'" not in str(error) or traced.module is None:
        return None
    for op in traced.module.walk():
        if isinstance(op, arith.SIToFPOp) and _counts(op.input):
            return refusal(
                op,
                "float-count",
                f"JAX counts vectors in integers, got {element_type(op.result.type)}",
                "convert what is counted: jnp.arange(n).astype(jnp.float32)",
            )
    return None


def _counts(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, tpu.IotaOp) or (
        isinstance(op, vector.ShapeCastOp) and _counts(op.operands[0])
    )


_traced: ContextVar[tracing.Traced | None] = ContextVar("traced", default=None)


@contextmanager
def tracing_into(traced: tracing.Traced | None) -> Generator[None]:
    """Inside, `traced` receives the kernel that JAX lowers."""
    token = _traced.set(traced)
    try:
        yield
    finally:
        _traced.reset(token)
