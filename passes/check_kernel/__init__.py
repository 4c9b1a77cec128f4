"""`check-kernel`: refuses kernels before they are lowered, and warns about suspicious ones.

It refuses what no pass can make legal for the target, and, unless `--allow-beyond-reference` is
given, what Pallasite could lower but the TPU compiler refuses. `driver` puts the rules together;
each other file has the rules of one subject, or warnings ("advice") about it. Some rules depend on
choices of the TPU compiler, such as the layouts that it picks. These are modelled in
`viewed_array`, `reference_parts`, `kept_once`, `lane_offsets`, `flat_places`, `ways`, `words` and,
as windows need it too, `passes.reference_tiles`.
"""

from pallasite.passes.check_kernel.driver import CheckKernelPass, check_kernel

__all__ = ["CheckKernelPass", "check_kernel"]
