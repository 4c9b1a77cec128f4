"""The versions of JAX that are taken, and what is asked of each."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

jax = pytest.importorskip("jax")

from packaging.specifiers import SpecifierSet  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.jaxprs.internals import kind, primitives  # noqa: E402
from pallasite.jax.spellings import with_names  # noqa: E402
from pallasite.jax.versions import VERSIONS, check_version  # noqa: E402

pytestmark = pytest.mark.jax

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]


def test_other_versions_are_refused() -> None:
    for version in ("0.4.1", "0.10.3", "0.10.2.dev1"):
        with pytest.raises(Unsupported, match=rf"expected JAX .* or {VERSIONS[0]}, got {version} "):
            check_version(version)
    for version in (*VERSIONS, None):
        check_version(version)


def test_the_extra_allows_these_versions() -> None:
    (requirement,) = EXTRAS["jax"]
    allowed = SpecifierSet(requirement.removeprefix("jax"))
    assert all(version in allowed for version in VERSIONS)
    assert "0.10.3" not in allowed and "0.9.2" not in allowed
    assert f"jax=={VERSIONS[0]}" in EXTRAS["aot"]  # what the other tests run with


def test_a_version_is_refused_before_its_internals_are_imported() -> None:
    program = """if True:
        import sys, jax
        jax.__version__ = "0.4.1"
        sys.modules["pallasite.frontend.jaxprs"] = None
        from pallasite.diagnostics import Unsupported
        try:
            from pallasite.jax import simulate
        except Unsupported as refused:
            print(refused)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "got 0.4.1" in done.stdout, done.stderr


def test_what_a_version_does_not_have() -> None:
    module = SimpleNamespace(a_p=1, Class=int)
    assert primitives(module, "a_p", "b_p") == (1,)
    assert kind(module, "Class") is int
    assert not isinstance(1, kind(module, "Other"))


def test_parameters_that_still_have_their_old_names() -> None:
    def kernel(body: object, out_shape: object = (), scratch_shapes: object = ()) -> object:
        return out_shape

    assert with_names(kernel, lambda: True)(None, out_shape=3) == 3
