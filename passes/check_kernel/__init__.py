"""`check-kernel`: refuses kernels before they are lowered, and warns about suspicious ones.

It refuses what no pass can make legal for the target, and, unless `--allow-beyond-reference` is
given, what Pallasite could lower but the TPU compiler refuses. `driver` puts the rules together;
each other file has the rules of one subject, or warnings ("advice") about it. Some rules depend on
the layouts that the TPU compiler infers. These are modelled in `replication`, `lane_offsets` and
`row_layouts`; docs/internals/reference_compiler.md lists all analyses and who asks them.
"""

from pallasite.passes.check_kernel.driver import CheckKernelPass, check_kernel

__all__ = ["CheckKernelPass", "check_kernel"]
