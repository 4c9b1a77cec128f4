"""`check-kernel`: what no step makes legal is refused before any step, and what is odd is told.

`driver` puts the `rules` together; each other file has those of one subject, or advice about it.
What the rules ask of the TPU compiler's own choices is in `viewed_array`, `reference_parts`,
`kept_once`, `lane_offsets`, `flat_places`, `ways`, `words` and, as windows need it too,
`passes.reference_tiles`.
"""

from pallasite.passes.check_kernel.driver import CheckKernelPass, check_kernel

__all__ = ["CheckKernelPass", "check_kernel"]
