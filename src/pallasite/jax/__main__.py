"""`python -m pallasite.jax PROGRAM [ARGUMENTS]` runs a Python program on the modelled TPU.

`-m MODULE` in place of PROGRAM runs a module. `PALLASITE_SIMULATE` names the target, and maybe the
form (`v6e` or `v6e:vreg`), the products of XLA (`v6e:tiles:cpu`) and checks (`v6e:::race,init`);
the default is v5e.
"""

from __future__ import annotations

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
    if not module and not os.path.exists(rest[0]):
        print(f"error: cannot read {rest[0]}: No such file or directory", file=sys.stderr)
        return 2
    try:
        from pallasite.jax.environment import simulate_from_environment

        simulate_from_environment(default=DEFAULT_TARGET)
        sys.argv = rest
        if module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
            runpy.run_path(rest[0], run_name="__main__")
    except Diagnostic as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
