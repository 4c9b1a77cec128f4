"""JAX's front door: unchanged JAX programs run their TPU kernels on the modelled TPU.

```python
with pallasite.jax.simulate(target="v5e"):
    y = f(x)                        # every pl.pallas_call, pl.kernel, pl.core_map inside
module = pallasite.jax.trace(f, x)  # the kernel in form `pallas`, traced from its jaxpr
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallasite.jax.simulation import kernels, simulate, trace

__all__ = ["kernels", "simulate", "trace"]


def __getattr__(name: str) -> Any:
    # Imported on first use: the pytest plugin must cost nothing where nobody simulates.
    if name in __all__:
        from pallasite.jax import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module 'pallasite.jax' has no attribute {name!r}")
