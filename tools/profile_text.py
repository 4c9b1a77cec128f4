"""What `tpu-run --profile` says of a run, of `Clock.summary` or `SubcoreTally.summary`."""

from __future__ import annotations

from typing import Any


def profile_text(profile: dict[str, Any]) -> str:
    """The modelled time of a run in words; of SparseCores, what was counted."""
    if "subcores" in profile:
        return _counted(profile)
    first = profile["cores"][0]
    busy = ", ".join(f"{unit} {cycles:.0f}" for unit, cycles in first["busy_cycles"].items())
    intensity = profile["intensity"]
    ratio = "no HBM traffic" if intensity is None else f"{intensity:.1f} operations per byte"
    return (
        f"modelled: {profile['seconds'] * 1e6:.2f} us ({profile['cycles']} cycles), bound by "
        f"{profile['bound']} ({ratio}, the chip balances at {profile['balance']:.0f}); "
        f"MXU {profile['mxu_utilisation']:.1%}, HBM {profile['hbm_utilisation']:.1%}; "
        f"{first['core']} waited {first['stalled_seconds'] * 1e6:.2f} us, busy cycles: {busy}"
    )


def _counted(profile: dict[str, Any]) -> str:
    def work(subcore: dict[str, Any]) -> int:
        return sum(subcore["instructions"].values())

    most = max(profile["subcores"], key=work)
    instructions = ", ".join(f"{unit} {n}" for unit, n in most["instructions"].items() if n)
    return (
        f"counted: {profile['hbm_bytes']} bytes of HBM in granules of {profile['granule_bytes']}, "
        f"at least {profile['hbm_seconds'] * 1e6:.2f} us; most instructions on {most['core']}: "
        f"{instructions}, with {most['transfers']} transfers of {most['bytes']} bytes, "
        f"{most['rows']} indirect rows, {most['waits']} waits"
    )
