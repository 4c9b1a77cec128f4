"""What a rule of `check-kernel` is, and tables of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from pallasite.targets import Target

Rule = Callable[[Any, Target], None]
"""Raises `Unsupported`, at the line of an operation, if the target cannot do it."""
RuleTable = dict[type[Operation], tuple[Rule, ...]]
"""The rules of each kind of operation, in the order in which they are asked."""
