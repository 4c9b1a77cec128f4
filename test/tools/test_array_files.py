"""Archives of arrays that `tpu-run` is given: what each lacks is told."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from pallasite.interpreter.run import Outcome
from pallasite.tools import tpu_run
from pallasite.tools.array_files import save_arrays

ALIAS = str(Path(__file__).parent.parent / "data" / "io_alias.stablehlo.mlir")
X = np.arange(4096, dtype=np.float32)


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `tpu-run` says of an archive that it refuses."""
    assert tpu_run.main([ALIAS, "--inputs", str(path)]) == 2
    error = capsys.readouterr().err
    assert "internal" not in error and "Traceback" not in error
    return error


@pytest.mark.parametrize("damage", ["empty", "one array", "cut", "bit", "no arrays"])
def test_broken_archives(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, X, X)
    data = bytearray(path.read_bytes())
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "one array":
        with open(path, "wb") as file:
            np.save(file, X)
    elif damage == "cut":
        path.write_bytes(data[:3000])
    elif damage == "bit":
        data[3000] ^= 1
        path.write_bytes(data)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("arr_0.npy", b"none")
    assert f"expected arrays arr_0, arr_1, ... in {path}: " in told(path, capsys)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": X}, "it holds x, y, and no arr_0; numpy.savez(file, x, y) gives"),
        ({"arr_0": X, "arr_2": X}, "it holds arr_0, arr_2, and no arr_1"),
        ({"arr_0": np.array([1, None], object)}, "arr_0 holds Python objects; save arrays of num"),
        ({}, "got 0"),
        ({f"arr_{n}": X for n in range(9)}, "got 9"),
    ],
)
def test_names_and_numbers_of_arrays(
    tmp_path: Path,
    arrays: dict[str, np.ndarray],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)  # pyright: ignore[reportArgumentType]
    assert message in told(tmp_path / "in.npz", capsys)


@pytest.mark.parametrize(
    ("first", "got", "advice"),
    [
        (np.zeros((16, 128)), "got float64[16, 128]", "note: convert it: array.astype(numpy.f"),
        (np.zeros((16, 128), [("a", "f4")]), "got records[16, 128]", ""),
        (np.zeros((16, 128), "V2"), "got raw elements of 16 bits[16, 128]", ""),
        (np.zeros((16, 128), "U3"), "got strings[16, 128]", ""),
        (np.zeros((16, 128), "M8[s]"), "got dates[16, 128]", ""),
        (np.zeros((4, 128), np.float32), "got float32[4, 128]", ""),
    ],
)
def test_types_and_shapes_of_arrays(
    tmp_path: Path, first: np.ndarray, got: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", first, np.zeros((16, 128), np.float32))
    error = told(tmp_path / "in.npz", capsys)
    assert got in error and (advice in error if advice else "note" not in error)


def test_files_are_those_of_numpy(tmp_path: Path) -> None:
    arrays = [np.zeros((2, 3), np.float32), np.array(1), np.zeros(4, "V2")]
    outcome = Outcome([arrays], {}, 0.0)
    save_arrays(str(tmp_path / "ours.npz"), outcome)
    np.savez(tmp_path / "numpys.npz", *arrays)
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "numpys.npz").read_bytes()


@pytest.mark.parametrize("place", ["no/such/o.npz", ".", "-"])
def test_where_nothing_can_be_written_is_told_before_the_run(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpu_run, "read_kernel", pytest.fail)
    assert tpu_run.main([ALIAS, "--outputs", place]) == 2
