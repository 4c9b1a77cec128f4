"""Plans assembled from plans that were checked, and the error where no plan is found."""

from __future__ import annotations

import logging
from dataclasses import replace

from pallasite.diagnostics import Note, Unsupported
from pallasite.layouts.move import Move
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner.check import corner_elements, performs_at
from pallasite.layouts.planner.costs import Costs

NO_PLAN = "movement"
"""The code of the diagnostic for a movement without a plan."""

_LOG = logging.getLogger(__name__)


def composed(move: Move, made: Plan | None, costs: Costs) -> Plan | None:
    """`made`, a plan assembled from checked plans, marked as not yet checked as a whole.

    If `costs.wary`, it is checked here, and None is returned if it is wrong.
    """
    if made is None or (costs.wary and not moves_corners(move, made)):
        return None
    return replace(made, checked=costs.wary)


def moves_corners(move: Move, made: Plan) -> bool:
    """Whether the plan moves the elements at the corners of every dimension correctly."""
    if performs_at(made, move, corner_elements(move)):
        return True
    _LOG.debug("strategy '%s' planned wrongly: %s", made.how, move)
    return False


def no_plan(move: Move) -> Unsupported:
    """The error to raise where no strategy finds a plan."""
    hint = Note("write the movement in two steps, or through a buffer in VMEM")
    return Unsupported(NO_PLAN, f"no instruction sequence known for {move}", None, [hint])
