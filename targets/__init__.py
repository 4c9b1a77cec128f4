"""One record per TPU generation: the facts that passes and the modelled machine ask for.

Nothing here decides anything; a pass asks for a capability by name and never for a generation.
Sources: spec/pallas_semantics.md section 9 and spec/vreg_lowering.md sections 1.8 and 10.6.
"""

from pallasite.targets.generations import DEFAULT_TARGET, TARGETS, get_target, targets_with
from pallasite.targets.target import SparseCores, Target

__all__ = ["DEFAULT_TARGET", "TARGETS", "SparseCores", "Target", "get_target", "targets_with"]
