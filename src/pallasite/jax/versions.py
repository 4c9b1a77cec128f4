"""Which versions of JAX `pallasite.jax` works with.

The hooks use JAX's private interface, which every version changes, patch versions as well: names
appear, move and lose parameters. So a version is taken when the tests were run with it and refused
otherwise, a newer patch version too: what it changed would be a traceback of Python's, or worse, a
kernel that runs outside of the simulation. What a version has is asked of JAX where it is used
(`pallasite.frontend.jaxprs.internals`); the numbers here are for who installs it.
"""

from __future__ import annotations

from pallasite.diagnostics import Note, Unsupported

VERSIONS = ("0.10.2", "0.10.1")
"""Those with which the tests were run, the newest first; the extra `jax` allows the same."""


def check_version(version: str | None = None) -> None:
    """Raises `Unsupported` for a JAX whose internals we have not seen, or if there is none;
    `version` is that of the JAX that is installed."""
    newest, *older = VERSIONS
    known = f"{', '.join(reversed(older))} or {newest}"
    if version is None:
        try:
            import jax
        except ImportError as missing:
            raise Unsupported(
                "jax-version",
                f"pallasite.jax needs JAX {known}, which is not installed",
                notes=[Note("pip install 'pallasite[jax]'")],
            ) from missing
        version = jax.__version__
    if version not in VERSIONS:
        raise Unsupported(
            "jax-version",
            f"expected JAX {known}, got {version}",
            notes=[
                Note(f"pip install jax=={newest} jaxlib=={newest}"),
                Note(
                    "programs of other versions, from 0.4.31 on, run as text: write "
                    "jax.jit(f).trace(x).lower(lowering_platforms=('tpu',)).as_text() to a file, "
                    "which tpu-run and tpu-opt read"
                ),
            ],
        )
