"""Caches of results that are limited by size in bytes instead of the number of entries.

`functools.lru_cache` counts entries, which is right if all have about the same size. The size of
plans of layout changes, and of the addresses of an access, grows with the block: a thousand of them
may take a megabyte or a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import update_wrapper
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
P = ParamSpec("P")

KEPT_BYTES = 1 << 25
"""The bytes that the results of one function with the decorator `kept` may take."""


class Kept(Generic[Key, Value]):
    """A cache of values by key, which drops the least recently used ones. The newest value stays,
    whatever its size. Safe to share between threads."""

    def __init__(self, size: Callable[[Key, Value], int], most: int) -> None:
        """The sizes of all entries, by `size(key, value)`, may add up to `most`."""
        self._size = size
        self._most = most
        self._kept: dict[Key, tuple[Value, int]] = {}
        self._lock = Lock()
        self.total = 0
        """The size of all entries."""

    def known(
        self, key: Key, make: Callable[P, Value], *args: P.args, **options: P.kwargs
    ) -> Value:
        """The value of `key`, made by `make(*args, **options)` if it is not in the cache."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
                return found[0]
        # Without the lock: others are made meanwhile, also by `make` itself. Of two threads that
        # make the same value, both get that of the one that is first.
        value = make(*args, **options)
        entry = value, self._size(key, value)
        with self._lock:
            found = self._kept.setdefault(key, entry)
            if found is entry:
                self.total += entry[1]
                while self.total > self._most and len(self._kept) > 1:
                    self.total -= self._kept.pop(next(iter(self._kept)))[1]
        return found[0]

    def clear(self) -> None:
        """Empties the cache."""
        with self._lock:
            self._kept.clear()
            self.total = 0

    def __len__(self) -> int:
        return len(self._kept)


class _Keeping(Generic[P, Value]):
    """A function with a cache of its results by arguments."""

    def __init__(self, function: Callable[P, Value]) -> None:
        self._function = function
        self.kept = Kept[object, Value](
            lambda key, value: bytes_held(key) + bytes_held(value), KEPT_BYTES
        )
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **options: P.kwargs) -> Value:
        key = (args, *options.items()) if options else args
        return self.kept.known(key, self._function, *args, **options)

    def cache_clear(self) -> None:
        """Empties the cache."""
        self.kept.clear()


def kept(function: Callable[P, Value]) -> _Keeping[P, Value]:
    """A decorator that caches up to `KEPT_BYTES` of results of a pure function of hashable
    arguments."""
    return _Keeping(function)


def bytes_held(value: Any) -> int:
    """About how many bytes `value` takes with all of its parts; a part that occurs twice counts
    twice. A class may define a method of this name for its own objects."""
    held, left = 0, [value]
    while left:
        part = left.pop()
        kind = type(part)
        if kind is tuple or kind is list:
            held += 56 + 8 * len(part)
            if part and type(part[0]) is int and type(part[-1]) is int:
                held += 32 * len(part)  # a shape, or the like
            else:
                left.extend(part)
        elif kind is bytes or kind is str:
            held += 48 + len(part)
        elif kind is np.ndarray:
            held += 128 + part.nbytes
        elif kind is int or not hasattr(part, "__dict__"):
            held += 32
        elif (mine := getattr(kind, "bytes_held", None)) is not None:
            held += mine(part)
        else:
            held += 160
            left.extend(vars(part).values())
    return held
