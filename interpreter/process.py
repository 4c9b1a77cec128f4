"""Settings of this process under which NumPy runs kernels fast.

Both are optional: without them, or where they do not apply, results are the same.

* The C library gives large freed blocks back to the system and gets them again, page by page, for
  the next intermediate result. Keeping them makes element-wise ops on values of a megabyte 2 to 20
  times faster.
* Matrix products are cut into small groups (`pallasite.interpreter.ops.matmul`). On a busy machine
  two BLAS threads that wait for each other take up to 20 times as long as one.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import numpy as np

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


@cache
def tune() -> None:
    """Keeps freed memory and runs BLAS on one thread; does nothing the second time."""
    _keep_freed_memory()
    _use_one_blas_thread()


def _keep_freed_memory() -> None:
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)


def _use_one_blas_thread() -> None:
    """NumPy's wheels bring OpenBLAS beside the package and name its functions with a prefix."""
    for path in Path(np.__file__).parents[1].glob("numpy.libs/*openblas*"):
        library = ctypes.CDLL(str(path))
        for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_"):
            function = getattr(library, name, None)
            if function is not None:
                function(1)
                return
