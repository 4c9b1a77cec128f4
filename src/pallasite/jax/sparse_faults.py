"""Kinds of errors about the vectors of subcores: sorts, gathers, scatters, masks."""

from __future__ import annotations

from pallasite.jax.fault import Fault

_WITHIN = "sc_primitives.py"
_ONE_REGISTER = (
    "take a register at a time, ref[pl.ds(start, lanes)], of as many lanes as the target has: "
    "lanes = plsc.get_sparse_core_info().num_lanes",
)

FAULTS_OF_SUBCORES = (
    Fault(
        ValueError,
        r"(keys|values|mask) shape .* must be",
        "a sort is of one register",
        _ONE_REGISTER,
        _WITHIN,
    ),
    Fault(
        NotImplementedError,
        r"only supports \w+ arrays of shapes",
        "a gather or scatter is of one register",
        _ONE_REGISTER,
        "sc_lowering.py",
    ),
    Fault(
        (NotImplementedError, TypeError),
        r"(must|should) be (uint32, )?int32 or float32|should be (uint32|32 bits)",
        "registers are sorted, counted and gathered as words",
        ("take int32 or float32: convert values, x.astype(jnp.int32), or hold words in the ref",),
        _WITHIN,
    ),
    Fault(
        TypeError,
        r"(mask|Mask).*boolean",
        "a mask is of booleans",
        ("compare: x != 0",),
        _WITHIN,
    ),
    Fault(
        ValueError,
        r"(Mask|Value) must have shape|does not match (the )?expected shape|!= mask\.shape",
        "values and masks have one element for each that is loaded or stored",
        (
            "give them the shape of the indices of a gather or scatter, or of the part of the ref: "
            "ref.at[pl.ds(start, lanes)]",
        ),
        _WITHIN,
    ),
    Fault(
        TypeError,
        r"Ref and value must have the same dtype|val\.dtype=.* != ref\.dtype",
        "values are stored as they are",
        ("convert them first: x.astype(ref.dtype)",),
        _WITHIN,
    ),
    Fault(
        ValueError,
        "number of indices does not match|Indices must (be|have|not be)",
        "elements are gathered and scattered by one vector of indices per dimension of the ref",
        (
            "write plsc.load_gather(ref, [rows, columns]) for two dimensions, with vectors of one "
            "size: jnp.full((lanes,), row, jnp.int32) for one row",
        ),
        _WITHIN,
    ),
)
"""What JAX says of them while the kernel is traced."""
