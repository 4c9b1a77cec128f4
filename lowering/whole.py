"""What `pallasite.lower` does with a module: runs the missing passes, and checks the kernel.

`check-kernel` refuses what the target cannot do or the TPU compiler refuses, which shows in form
`mosaic`. So it runs on the module as it comes in, or, if that is in form `pallas`, as soon as it
has left this form. `fold-kernel` runs before it, as the TPU compiler judges folded kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from pallasite.borders import diagnosed
from pallasite.diagnostics import Diagnostic
from pallasite.dialects.kernel import form_of
from pallasite.targets import Target

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp
    from xdsl.passes import ModulePass

AfterPass = Callable[["ModulePass", str, ModuleOp], None]
"""Called after each pass with the pass, the form that the module is in now, and the module."""
Tell = Callable[[Diagnostic], None]
"""Called with each warning about a kernel that is accepted."""


@dataclass(frozen=True)
class Lowering:
    """How modules are lowered: the arguments of `pallasite.lower`, already validated."""

    target: Target
    passes: tuple[ModulePass, ...]
    """Passes of the user, which run first."""
    after_pass: AfterPass | None
    allow_beyond_reference: bool
    """Whether to accept kernels that Pallasite can lower but the TPU compiler refuses."""
    tell: Tell

    def run(self, module: ModuleOp, form: str) -> ModuleOp:
        """A copy of `module` in `form`; the module itself if nothing is left to do."""
        from pallasite.dialects import make_context
        from pallasite.dialects.kernel import set_form
        from pallasite.dialects.subcores import subcore_functions
        from pallasite.dialects.verification import verify_after
        from pallasite.lowering.pipelines import planned
        from pallasite.passes.fold_kernel import FoldKernelPass
        from pallasite.passes.plugins import blamed

        present = form_of(module)
        checked = present in ("mosaic", "dma")
        changes = bool(self.passes) or present != form
        lowered = module.clone() if checked or changes else module
        if present != "pallas":
            self._admit(lowered)
            if checked and changes and self.after_pass is not None:
                # The next pass is given the folded module, so `fold-kernel` is shown as a pass.
                self.after_pass(FoldKernelPass(self.target.name), present, lowered)
        context = make_context()
        for leaves, step in planned(lowered, self.passes, form, self.target.name):
            before = form_of(lowered)
            with diagnosed(step.name), blamed(step):
                step.apply(context, lowered)
            if leaves is None:
                verify_after(lowered, step.name)
            else:
                set_form(lowered, leaves)
            after = form_of(lowered)
            if before == "pallas" != after:
                # If this module is the result, a copy is folded: the result keeps what is unused.
                self._admit(lowered.clone() if form == after else lowered)
            if self.after_pass is not None:
                self.after_pass(step, after, lowered)
        if subcore_functions(lowered):
            set_form(lowered, form)
        if form == "pallas":
            replace(self, passes=(), after_pass=None).run(lowered, "mosaic")
        return lowered if changes else module

    def _admit(self, module: ModuleOp) -> None:
        """Folds `module` in place, raises if its kernel is refused, and passes on warnings."""
        from pallasite.dialects.kernel import kernel_function
        from pallasite.passes.check_kernel import check_kernel
        from pallasite.passes.fold_kernel import fold_kernel

        func = kernel_function(module)
        with diagnosed("check-kernel"):
            if func is not None and form_of(module) in ("mosaic", "dma"):
                fold_kernel(module)
            check_kernel(module, self.target, allow_beyond_reference=self.allow_beyond_reference)
            told = _output_advice(module)
            told += [] if func is None else _advice(module, func)
        for advice in told:
            self.tell(advice)


def _output_advice(module: ModuleOp) -> list[Diagnostic]:
    """Warnings about outputs that the kernels of `module` do not write as a whole."""
    from pallasite.dialects.kernel import describe_kernel
    from pallasite.dialects.kernel_call import call_of
    from pallasite.dialects.subcores import first_function, subcore_kernels
    from pallasite.passes.check_kernel.outputs import output_advice

    call, func = call_of(module), first_function(module)
    if call is None or func is None or form_of(module) != "mosaic":
        return []
    kernels = list(subcore_kernels(module).values()) or [describe_kernel(func)]
    return [*output_advice(kernels, call)]


def _advice(module: ModuleOp, func: FuncOp) -> list[Diagnostic]:
    """Warnings about the kernel `func` of `module`: its grid, aliases, first reads and bounds."""
    from pallasite.dialects.kernel import describe_kernel
    from pallasite.dialects.kernel_call import call_of
    from pallasite.passes.check_kernel.aliases import alias_advice
    from pallasite.passes.check_kernel.bounds import bounds_advice
    from pallasite.passes.check_kernel.first_reads import first_read_advice
    from pallasite.passes.check_kernel.grid import grid_advice
    from pallasite.passes.check_kernel.tables import table_advice

    form, call, kernel = form_of(module), call_of(module), describe_kernel(func)
    results = 0 if call is None else len(call.results)
    told = [*grid_advice(kernel, results)]
    if call is not None and form == "mosaic":
        told += alias_advice(kernel, call)
    if form == "mosaic":
        told += first_read_advice(kernel, call)
        told += table_advice(kernel, results)
    if form in ("mosaic", "dma") and (call is None or not call.unchecked):
        told += bounds_advice(func)
    return told
