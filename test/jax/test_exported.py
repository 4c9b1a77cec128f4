"""Programs exported for the TPU run inside a simulation, their shapes known or symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.serialize_executable import (  # noqa: E402
    deserialize_and_load,
    serialize,
)
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite import lower  # noqa: E402
from pallasite.diagnostics import Unsupported, VerifyError  # noqa: E402
from pallasite.dialects.kernel_call import call_of  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402

pytestmark = pytest.mark.jax
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


def doubled(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[ROWS],
        out_specs=ROWS,
    )(x)


def thrice(x: Any) -> Any:
    return jax.lax.scan(lambda x, _: (doubled(x) + 1, None), x, None, length=3)[0]


def ramp(rows: int) -> Any:
    return jnp.arange(rows * 128.0).reshape(rows, 128)


def symbolic() -> Any:
    (rows,) = export.symbolic_shape("8*n")
    return jax.ShapeDtypeStruct((rows, 128), jnp.float32)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_known_shapes(form: str) -> None:
    program = export.export(jax.jit(doubled), platforms=["tpu"])(ramp(16))
    with simulate(form=form):
        np.testing.assert_array_equal(program.call(ramp(16)), 2 * ramp(16))


def test_symbolic_shapes_become_dynamic_grids() -> None:
    program = export.export(jax.jit(thrice), platforms=["tpu"])(symbolic())
    with simulate(form="dma"):
        for rows in (8, 24):
            np.testing.assert_array_equal(program.call(ramp(rows)), 8 * ramp(rows) + 7)
        both = jax.jit(lambda x: program.call(x) + thrice(x))
        np.testing.assert_array_equal(both(ramp(8)), 16 * ramp(8) + 14)
        with pytest.raises(ValueError, match="Division had remainder 1"):
            program.call(ramp(9))


def test_text_of_symbolic_shapes_has_arrays_of_unknown_size() -> None:
    """The operand that says the size of the result, which the kernel does not have, is left out."""
    program = export.export(jax.jit(doubled), platforms=["tpu"])(symbolic())
    with simulate():
        text = jax.jit(program.call).trace(ramp(16)).lower(lowering_platforms=("tpu",)).as_text()
    module = read(text, "symbolic")
    call = call_of(module)
    assert call is not None
    assert [str(kind) for kind in call.operands] == ["tensor<i32>", "tensor<?x128xf32>"]
    with pytest.raises(VerifyError) as refused:
        lower(module, form="tiles", target="v5e")
    assert refused.value.code == "unknown-size"


def test_outside_of_simulations_nothing_changes() -> None:
    program = export.export(jax.jit(doubled), platforms=["tpu"])(ramp(16))
    with simulate():
        pass
    with pytest.raises(ValueError, match="exported for platforms"):
        program.call(ramp(16))


def test_simulated_programs_are_not_exported() -> None:
    with simulate(), pytest.raises(Unsupported) as refused:
        export.export(jax.jit(doubled))(ramp(16))
    assert refused.value.code == "export-for-cpu"


def test_kernels_are_traced_for_known_shapes() -> None:
    with pytest.raises(Unsupported) as refused:
        trace(doubled, symbolic())
    assert refused.value.code == "symbolic-shape"


def mesh() -> Any:
    return Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))


def to_the_right(x: Any) -> Any:
    """Every device's block goes to the next device along "y"."""

    def body(x: Any, o: Any, sent: Any, arrived: Any) -> None:
        here = {name: jax.lax.axis_index(name) for name in ("x", "y")}
        copy = pltpu.make_async_remote_copy(
            x, o, sent, arrived, device_id={**here, "y": (here["y"] + 1) % 2}
        )
        copy.start()
        copy.wait()

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
    )(x)


def on_every_device(f: Any) -> Any:
    return jax.jit(
        jax.shard_map(f, mesh=mesh(), in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
    )


def spread(rows: int = 32) -> Any:
    x = jnp.arange(rows * 256.0).reshape(rows, 256)
    return jax.device_put(x, NamedSharding(mesh(), P("x", "y")))


def several_kernels(x: Any) -> Any:
    """Kernels of one device and of several, collectives of XLA and a loop."""
    x = jax.lax.scan(lambda x, _: (to_the_right(x) + 1, None), doubled(x), None, length=3)[0]
    return x + jax.lax.psum(x, "x") * jax.lax.axis_index("y")


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("f", [to_the_right, several_kernels])
def test_several_devices(f: Any, form: str) -> None:
    f = on_every_device(f)
    program = export.export(f, platforms=["tpu"])(spread())
    with simulate(form=form, checks=("race",)):
        expected = f(spread())
        for call in (program.call, jax.jit(program.call)):
            np.testing.assert_array_equal(call(spread()), expected)


def test_devices_beside_a_symbolic_shape_are_refused() -> None:
    (rows,) = export.symbolic_shape("16*n")
    struct = jax.ShapeDtypeStruct((rows, 256), jnp.float32, sharding=spread().sharding)
    program = export.export(on_every_device(doubled), platforms=["tpu"])(struct)
    with simulate(), pytest.raises(Unsupported, match="symbolic shapes") as error:
        program.call(spread())
    assert error.value.code == "exported-devices"


def test_a_simulated_program_is_not_serialized() -> None:
    program = jax.jit(doubled)
    with simulate():
        compiled = program.lower(ramp(16)).compile()
        with pytest.raises(Unsupported, match="cannot be serialized") as caught:
            serialize(compiled)
    assert isinstance(caught.value, jax.errors.JaxRuntimeError)
    # What the note says instead.
    exported = export.export(program, platforms=["tpu"])(ramp(16))
    with simulate():
        np.testing.assert_array_equal(exported.call(ramp(16)), 2 * ramp(16))


def test_programs_without_kernels_are_serialized() -> None:
    program = jax.jit(jnp.sin).lower(ramp(8)).compile()
    again = deserialize_and_load(*serialize(program), execution_devices=jax.devices()[:1])
    np.testing.assert_array_equal(again(ramp(8)), np.asarray(program(ramp(8))))
