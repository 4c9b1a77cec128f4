"""All kernels with one planted bug each."""

from __future__ import annotations

from .luck import LUCK
from .memory import BOUNDS, CAPACITY, PROMISES, UNWRITTEN
from .races import DEVICES, RACES
from .synchronisation import SYNC
from .two_cores import CORES

BUGS = (*RACES, *DEVICES, *LUCK, *CORES, *UNWRITTEN, *BOUNDS, *SYNC, *CAPACITY, *PROMISES)
