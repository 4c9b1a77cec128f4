"""Arrays of calls in `.npz` files, as `np.savez` makes them: `arr_0`, `arr_1`, ... in their order.

Of several devices, each has its part along axis 0. Element types that NumPy cannot name are raw
bytes (`V1`, `V2`) and take their meaning from the module.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from errno import EACCES, EISDIR, ENOENT
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from pallasite.diagnostics import UsageError
from pallasite.tools.reporting import unreadable, unwritable

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from pallasite.interpreter.run import Outcome

    Array = NDArray[Any]


def load_arrays(path: str) -> list[Array]:
    """The arrays `arr_0`, `arr_1`, ... of an `.npz` file."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            # NumPy takes anything else for objects, and would speak of allow_pickle.
            if not file.read(6).startswith((b"PK", b"\x93NUMPY")):
                raise ValueError("it is no archive of arrays; make one with numpy.savez")
            file.seek(0)
            archive = np.load(file)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds one array; save it with numpy.savez")
            return [_member(archive, name) for name in _names(archive.files)]
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:
        # What is no archive, or a broken one, raises what zipfile, zlib or the header's parser do.
        raise UsageError("npz", f"expected arrays arr_0, arr_1, ... in {path}: {error}") from error


def _names(found: Sequence[str]) -> list[str]:
    """`arr_0`, `arr_1`, ..., which `found` has to be in any order."""
    names = [f"arr_{n}" for n in range(len(found))]
    if missing := [name for name in names if name not in found]:
        raise ValueError(
            f"it holds {', '.join(found)}, and no {missing[0]}; numpy.savez(file, x, y) gives "
            "arrays these names, in the order of the operands"
        )
    return names


def _member(archive: NpzFile, name: str) -> Array:
    try:
        array = archive[name]
    except ValueError as error:
        # NumPy's advice, to unpickle, would run code of the file and give no numbers.
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"{name} holds Python objects; save arrays of numbers") from error
    if isinstance(array, bytes):
        raise ValueError(f"{name} is no array; make the archive with numpy.savez")
    return array


def device_inputs(
    module: ModuleOp,
    path: str | None,
    devices: int,
    seed: int = 0,
    max_memory: int | None = None,
) -> list[list[Array]]:
    """The operands of each device: of the `.npz` file at `path`, else random ones."""
    from pallasite import api

    if path is None:
        return [
            api.random_inputs(module, seed + device, devices=devices, max_memory=max_memory)
            for device in range(devices)
        ]
    parts = [split(array, devices) for array in load_arrays(path)]
    return [[part[device] for part in parts] for device in range(devices)]


def split(array: Array, devices: int) -> list[Array]:
    """The parts of `array` along axis 0, one per device; scalars go to every device."""
    if devices == 1:
        return [array]
    if array.ndim == 0:
        return [array] * devices
    if array.shape[0] % devices:
        raise UsageError(
            "uneven-split",
            f"axis 0 of shape {list(array.shape)} does not divide by {devices} devices",
        )
    size = array.shape[0] // devices
    return [array[d * size : (d + 1) * size] for d in range(devices)]


def check_output(path: str) -> None:
    """Refuses, before a run takes its time, a place where no file can be written.

    Standard output, as `-`, has the report of the tool.
    """
    folder = os.path.dirname(path) or os.curdir
    if path == "-" or not path:
        raise UsageError("unwritable-file", f"expected a file for --outputs, got {path!r}")
    if os.path.isdir(path):
        raise unwritable(path, IsADirectoryError(EISDIR, os.strerror(EISDIR)))
    if not os.path.isdir(folder):
        raise unwritable(path, FileNotFoundError(ENOENT, os.strerror(ENOENT)))
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise unwritable(path, PermissionError(EACCES, os.strerror(EACCES)))


def save_arrays(path: str, outcome: Outcome, booleans: Sequence[int] = ()) -> None:
    """Writes the results, devices joined along axis 0; types NumPy cannot name as raw bytes."""
    import numpy as np

    joined = [
        parts[0] if len(parts) == 1 else np.concatenate([np.atleast_1d(p) for p in parts])
        for parts in zip(*outcome.outputs, strict=True)
    ]
    for position in booleans:
        joined[position] = joined[position] != 0
    arrays = [a if a.dtype.isbuiltin == 1 else a.view(f"V{a.dtype.itemsize}") for a in joined]
    try:
        # Some versions of `np.savez` leave an archive that could not be written to the collector,
        # which complains on standard error.
        with open(path, "wb") as file, ZipFile(file, "w") as archive:
            for number, array in enumerate(arrays):
                with archive.open(f"arr_{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as error:
        raise unwritable(path, error) from error
