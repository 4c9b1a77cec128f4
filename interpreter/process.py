"""Settings of this process and its threads under which NumPy runs kernels fast, and right.

* The C library gives large freed blocks back to the system and gets them again, page by page, for
  the next intermediate result. Keeping them takes a third off element-wise ops on values of a
  megabyte, and far more where page faults are slow. It concerns the whole process, so its owner
  decides. A run only sees to what glibc does by itself as soon as a program has freed a block of
  32 MiB: from then on it takes smaller ones from its heap, and keeps up to 64 MiB there.
* Matrix products are cut into small groups (`pallasite.interpreter.ops.matmul`). On a busy machine
  two BLAS threads that wait for each other take up to 20 times as long as one, and they may add up
  in another order.
* XLA has its threads, on which it calls kernels, take denormal numbers for zero. A kernel must not
  give other numbers there, nor in the forms in which fewer of its operations are left.

Without the first, or where it does not apply, results are the same.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from threading import Lock, get_ident, local
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


_Environment = ctypes.c_char * 64
"""More bytes than the `fenv_t` of any C library has."""


@cache
def tune() -> None:
    """Keeps freed memory; does nothing the second time, or where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)


_LARGEST_HEAP_BLOCK = (32 << 20) - (1 << 14)
"""Bytes of the largest block that glibc may learn to take from its heap, with its own ones."""


@cache
def keep_freed() -> None:
    """Has glibc keep up to 64 MiB that are freed, unless thresholds of its `malloc` were set."""
    # Nobody touches the block, so it takes no memory.
    np.empty(_LARGEST_HEAP_BLOCK, np.uint8)


@cache
def _libraries() -> ThreadpoolController:
    # Libraries are found once they are loaded, and NumPy loads its own.
    import_module("numpy")
    return ThreadpoolController()


@cache
def _blas() -> tuple[Any, ...]:
    """Those of NumPy's libraries whose matrix products run on threads."""
    return tuple(_libraries().select(user_api="blas").lib_controllers)


class _OneThread:
    """BLAS on one thread from when the first Python thread enters until the last one leaves.

    Each by itself would take the limit of the one before it for what the process had. Whatever the
    user interrupts here is made up for when the thread comes again: it is inside once, and what the
    process had is known as long as it is not restored.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: set[int] = set()
        """Threads, by number."""
        self._before: list[tuple[Any, int]] = []
        """The libraries, and how many threads each had."""
        self._limited = False
        """Whether any of them had several."""

    def __enter__(self) -> None:
        with self._lock:
            self._inside.add(get_ident())
            if not self._before:
                self._before = [(library, library.num_threads) for library in _blas()]
            if any(library.num_threads != 1 for library, _ in self._before):
                self._limited = True
                self._set([(library, 1) for library, _ in self._before])

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside.discard(get_ident())
            if not self._inside:
                if self._limited:
                    self._set(self._before)
                self._before, self._limited = [], False

    @staticmethod
    def _set(numbers: list[tuple[Any, int]]) -> None:
        for library, number in numbers:
            library.set_num_threads(number)
            if library.num_threads != number and hasattr(library, "clear_controlling_thread"):
                # Another thread has limited OpenBLAS, to which threadpoolctl 3.8 then listens only.
                library.clear_controlling_thread(force=True)
                library.set_num_threads(number)
        _disown()


def _disown() -> None:
    # To threadpoolctl 3.8 the thread that sets a limit owns it, until a context of its own ends.
    with _libraries().limit():
        pass


_ONE_THREAD = _OneThread()


def one_blas_thread() -> AbstractContextManager[object]:
    """NumPy's matrix products run on one thread within, and on as many as before once no Python
    thread is within any more: on several they add up in another order."""
    return _ONE_THREAD


_PRODUCTS = local()
"""Has the innermost `products_on_one_thread` of each Python thread."""


class products_on_one_thread:
    """Within, `about_to_multiply` begins `one_blas_thread`, which lasts to the end: most kernels
    multiply no matrices, and small ones run in the time that a limit takes to set and lift."""

    __slots__ = ("_around", "_limited")

    def __enter__(self) -> None:
        self._limited = False
        self._around = getattr(_PRODUCTS, "scope", None)
        _PRODUCTS.scope = self

    def __exit__(self, *error: object) -> None:
        _PRODUCTS.scope = self._around
        if self._limited:
            _ONE_THREAD.__exit__()

    def limit(self) -> None:
        """Begins `one_blas_thread`, if that has not begun."""
        if not self._limited:
            # Before it is: who is interrupted leaves what he may have entered.
            self._limited = True
            _ONE_THREAD.__enter__()


def about_to_multiply() -> None:
    """Whoever calls BLAS says so before."""
    scope: products_on_one_thread | None = getattr(_PRODUCTS, "scope", None)
    if scope is not None:
        scope.limit()


@cache
def _environments() -> tuple[Callable[..., int], Callable[..., int], ctypes.c_void_p] | None:
    """`fegetenv`, `fesetenv` and `FE_DFL_ENV` of C; None where there is no C library to ask."""
    try:
        library = ctypes.CDLL("libm.so.6" if sys.platform.startswith("linux") else None)
        get, put = library.fegetenv, library.fesetenv
    except (AttributeError, OSError, TypeError):
        return None
    if sys.platform == "darwin":
        default = ctypes.c_char.in_dll(library, "_FE_DFL_ENV")
        return get, put, ctypes.c_void_p(ctypes.addressof(default))
    return get, put, ctypes.c_void_p(-1)


class default_floats:
    """Floating-point arithmetic of this thread is that of IEEE 754 within, denormal numbers
    included, and what it was before afterwards."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _Environment()
        found = _environments()
        if found is not None:
            get, put, default = found
            get(self._before)
            put(default)

    def __exit__(self, *error: object) -> None:
        found = _environments()
        if found is not None:
            found[1](self._before)
