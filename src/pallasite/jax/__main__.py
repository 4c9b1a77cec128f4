"""`python -m pallasite.jax PROGRAM [ARGUMENTS]` runs a Python program on the modelled TPU.

`-m MODULE` in place of PROGRAM runs a module. `PALLASITE_SIMULATE` names the target, and maybe the
form (`v6e` or `v6e:vreg`), the products of XLA (`v6e:tiles:cpu`) and checks (`v6e:::race,init`);
the default is v5e.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

from pallasite.diagnostics import Diagnostic
from pallasite.targets import DEFAULT_TARGET

USAGE = "usage: python -m pallasite.jax (PROGRAM | -m MODULE) [ARGUMENTS]"
HELP = f"""{USAGE}

Runs a JAX program whose Pallas kernels are executed on the modelled TPU.
PALLASITE_SIMULATE=TARGET[:FORM[:PRODUCTS[:CHECKS]]] in the environment says how: v6e, v6e:vreg,
v6e:tiles:cpu, v6e:::race,init (default: v5e)."""


def _no_program(path: str) -> str | None:
    """What is wrong with the file of a program, None if nothing is."""
    if not os.path.exists(path):
        return f"cannot read {path or repr(path)}: No such file or directory"
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        return f"cannot run {path}: it has no __main__.py"
    return None


def _no_module(name: str) -> str | None:
    """What is wrong with the name of a module, None if nothing is; imports what it lies in."""
    try:
        found = None if name.startswith(".") else importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            found = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        # A module on the way to this one; what they import is missed when they run.
        missing = str(error.name)
        if name != missing and not name.startswith(f"{missing}."):
            raise
        found = None
    except ValueError:
        found = None
    return None if found is not None else f"there is no module {name!r} to run"


def main(arguments: list[str]) -> int:
    """Runs the program that `arguments` name; the exit status."""
    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or rest[0] in ("-h", "--help"):
        print(USAGE if not rest else HELP, file=sys.stderr if not rest else sys.stdout)
        return 0 if rest else 2
    if not module and rest[0].startswith("-"):
        print(f"error: there is no option {rest[0]}\n\n{HELP}", file=sys.stderr)
        return 2
    if not module and (wrong := _no_program(rest[0])) is not None:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(rest[0])))
    try:
        from pallasite.jax.environment import simulate_from_environment

        simulate_from_environment(default=DEFAULT_TARGET)
        sys.argv = rest
        if module and (wrong := _no_module(rest[0])) is not None:
            print(f"error: {wrong}", file=sys.stderr)
            return 2
        if module:
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(rest[0], run_name="__main__")
    except Diagnostic as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
