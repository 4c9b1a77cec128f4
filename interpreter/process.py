"""Settings of this process under which NumPy runs kernels fast.

Without them, or where they do not apply, results are the same.

* The C library gives large freed blocks back to the system and gets them again, page by page, for
  the next intermediate result. Keeping them takes a third off element-wise ops on values of a
  megabyte, and far more where page faults are slow. It concerns the whole process, so its owner
  decides.
* Matrix products are cut into small groups (`pallasite.interpreter.ops.matmul`). On a busy machine
  two BLAS threads that wait for each other take up to 20 times as long as one.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module

from threadpoolctl import ThreadpoolController

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


@cache
def tune() -> None:
    """Keeps freed memory; does nothing the second time, or where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)


@cache
def _libraries() -> ThreadpoolController:
    # Libraries are found once they are loaded, and NumPy loads its own.
    import_module("numpy")
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """NumPy's matrix products run on one thread within, and on as many as before afterwards.

    Of several Python threads at once the first one decides, which is threadpoolctl's rule.
    """
    return _libraries().limit(limits=1, user_api="blas")
