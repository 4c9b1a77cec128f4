"""Inside a simulation, what programs ask about their device is answered for the target.

`jax.devices()` stays what it is, with the kind and number of cores of the target; so programs that
choose block sizes by `device_kind`, `pltpu.get_tpu_info()` or a mesh of all cores, and test suites
built on `jax._src.test_util`, find the TPU that they expect.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from jax._src import mesh_utils, xla_bridge
from jax._src.lib import _jax
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import tpu_info
from jax.experimental.pallas import tpu as pltpu

from pallasite.jax.settings import Settings
from pallasite.targets import TARGETS, Target

Current = Callable[[], Settings | None]


def answer_for_target(current: Current) -> None:
    """From now on, `current` decides for which target the questions are answered, if any."""
    _answer_of_devices(current)
    _answer_for_backend(current)
    loaded = sys.modules.get(TESTS)
    if loaded is not None:
        _answer_tests(current, loaded)
    else:
        sys.meta_path.insert(0, _AfterImport(TESTS, functools.partial(_answer_tests, current)))
    kind, cores = tpu_info.get_device_kind, tpu_info.get_num_device_cores
    create_mesh = tpu_core.create_tensorcore_mesh

    def get_device_kind() -> str:
        settings = current()
        return kind() if settings is None else TARGETS[settings.target].device_kind

    def get_num_device_cores() -> int:
        settings = current()
        return cores() if settings is None else TARGETS[settings.target].cores

    @functools.wraps(create_mesh)
    def create_tensorcore_mesh(
        axis_name: str, devices: Any = None, num_cores: int | None = None
    ) -> Any:
        settings = current()
        if settings is not None and devices is None and num_cores is None:
            num_cores = TARGETS[settings.target].cores
        return create_mesh(axis_name, devices=devices, num_cores=num_cores)

    tpu_info.get_device_kind = get_device_kind
    tpu_info.get_num_device_cores = get_num_device_cores
    tpu_core.create_tensorcore_mesh = create_tensorcore_mesh
    pltpu.create_tensorcore_mesh = create_tensorcore_mesh


def _answer_for_backend(current: Current) -> None:
    """`jax.devices("tpu")` are the devices that the simulation has."""
    get_backend: Any = xla_bridge.get_backend

    @functools.wraps(get_backend)
    def backend(platform: Any = None) -> Any:
        return get_backend("cpu" if platform == "tpu" and current() is not None else platform)

    xla_bridge.get_backend = backend


def _answer_of_devices(current: Current) -> None:
    device: Any = _jax.Device
    kind: Any = device.device_kind

    def device_kind(self: Any) -> str:
        settings = current()
        if settings is None or self.platform != "cpu":
            return kind.__get__(self)
        return TARGETS[settings.target].device_kind

    def num_cores(self: Any) -> int:
        settings = current()
        if settings is None or self.platform != "cpu":
            return self.__getattr__("num_cores")
        return TARGETS[settings.target].cores

    def coords(self: Any) -> tuple[int, int, int]:
        settings = current()
        if settings is None or self.platform != "cpu":
            return self.__getattr__("coords")
        target = TARGETS[settings.target]
        return coordinates(self.id // target.chip_devices, target)

    def core_on_chip(self: Any) -> int:
        settings = current()
        if settings is None or self.platform != "cpu":
            return self.__getattr__("core_on_chip")
        return self.id % TARGETS[settings.target].chip_devices

    device.device_kind = property(device_kind, doc=kind.__doc__)
    device.num_cores = property(num_cores)
    device.coords = property(coords)
    device.core_on_chip = property(core_on_chip)
    # The number of CPUs need not be that of a slice, so JAX arranges them as any CPUs.
    handlers = mesh_utils.device_kind_handler_dict
    for name in {target.device_kind for target in TARGETS.values()} & handlers.keys():
        handlers[name] = _unless_cpu(handlers[name])


def coordinates(chip: int, target: Target) -> tuple[int, int, int]:
    """Where chip number `chip` is in a slice of `target`, x first; two chips in x.

    Flat slices grow in y; spatial ones (`Target.spatial`) are two chips in y as well, and grow
    in z.
    """
    x, rest = chip % 2, chip // 2
    return (x, rest % 2, rest // 2) if target.spatial else (x, rest, 0)


def _unless_cpu(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def arranged(mesh_shape: Any, devices: Any, **options: Any) -> Any:
        on_cpu = any(device.platform == "cpu" for device in devices)
        return None if on_cpu else handler(mesh_shape, devices, **options)

    return arranged


TESTS = "jax._src.test_util"


def _answer_tests(current: Current, tests: Any) -> None:
    """The device under test of JAX's test utilities is the simulated TPU."""
    original = tests.device_under_test

    @functools.wraps(original)
    def device_under_test() -> str:
        return original() if current() is None else "tpu"

    tests.device_under_test = device_under_test


class _AfterImport(MetaPathFinder):
    """Calls `action` with module `name` once that has been imported; it needs packages that are
    there for tests only, so that it cannot be imported in advance."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self.action)
        return spec


class _Then(Loader):
    """Loads as `loader`, one object that may load many modules, and then calls `action`."""

    def __init__(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        self.loader = loader
        self.action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action(module)
