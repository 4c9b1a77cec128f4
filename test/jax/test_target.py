"""What programs and test suites ask about their device is answered for the simulated target."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402
from pallasite.jax.devices import _AfterImport  # noqa: E402

pytestmark = pytest.mark.jax


@pytest.mark.parametrize(
    ("target", "kind", "cores"), [("v4", "TPU v4", 2), ("v5e", "TPU v5 lite", 1)]
)
def test_device_kind(target: str, kind: str, cores: int) -> None:
    device = jax.devices()[0]
    with simulate(target):
        assert device.device_kind == kind
        assert device.num_cores == cores
        assert device.platform == "cpu"
        assert pltpu.get_tpu_info().num_cores == cores
        assert jax.make_mesh((8,), ("x",)).devices.shape == (8,)
    assert device.device_kind == "cpu"
    assert not hasattr(device, "num_cores") and not hasattr(device, "coords")


@pytest.mark.parametrize(
    ("target", "last"),
    [("v6e", ((1, 3, 0), 0)), ("v5p", ((1, 1, 1), 0)), ("v7x", ((1, 1, 0), 1))],
)
def test_where_chips_are(target: str, last: tuple[tuple[int, int, int], int]) -> None:
    """Programs that lay rings through a slice sort its devices by their coordinates."""
    devices = jax.devices()
    with simulate(target):
        places = [(device.coords, device.core_on_chip) for device in devices]
    assert places[0] == ((0, 0, 0), 0)
    assert places[-1] == last
    assert len(set(places)) == 8


def test_modules_are_changed_once_they_are_imported(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def action(module: ModuleType) -> None:
        module.answer += 1

    monkeypatch.setattr(sys, "meta_path", [_AfterImport("imported_later", action), *sys.meta_path])
    import imported_later

    assert imported_later.answer == 2
    assert "imported_later" not in [getattr(finder, "name", "") for finder in sys.meta_path]


class _Shared(Loader, MetaPathFinder):
    """One loader of several modules, as pytest's that rewrites assertions is."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return spec_from_loader(fullname, self) if fullname in ("late_one", "late_two") else None

    def exec_module(self, module: ModuleType) -> None:
        module.answer = 1


def test_other_modules_of_the_same_loader_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[str] = []
    late = _AfterImport("late_one", lambda module: changed.append(module.__name__))
    monkeypatch.setattr(sys, "meta_path", [late, _Shared(), *sys.meta_path])
    for name in ("late_one", "late_two"):
        assert import_module(name).answer == 1
        monkeypatch.delitem(sys.modules, name)
    assert changed == ["late_one"]


def test_devices_of_the_platform() -> None:
    """Programs that name the TPU find the devices of the simulation; outside there is none."""
    x = jnp.zeros((8, 128))
    with simulate(target="v6e"):
        assert jax.devices("tpu") == jax.devices()
        assert jax.local_devices(backend="tpu") == jax.local_devices()
        assert jax.device_count("tpu") == len(jax.devices())
        assert "v6" in jax.devices("tpu")[0].device_kind
        placed = jax.device_put(x, jax.devices("tpu")[-1])
        assert jax.jit(lambda x: x + 1)(placed).devices() == {jax.devices()[-1]}
    with pytest.raises(RuntimeError, match="tpu"):
        jax.devices("tpu")
