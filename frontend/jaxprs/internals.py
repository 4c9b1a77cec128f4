"""What the tracer uses of JAX's private interface; every such name is imported here and only here.

The names are those of JAX 0.10.2, which `pallasite.jax` checks before it imports this package.
"""

from jax._src import (
    ad_checkpoint,
    ad_util,
    checkify,
    custom_derivatives,
    debugging,
    dtypes,
    pjit,
    source_info_util,
)
from jax._src import core as jax_core
from jax._src.interpreters import partial_eval
from jax._src.lax import lax as lax_internal
from jax._src.lax.control_flow import conditionals
from jax._src.pallas import core as pallas_core
from jax._src.pallas import einshape as pallas_einshape
from jax._src.pallas import primitives as pallas_primitives
from jax._src.pallas import utils as pallas_utils
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import lowering as tpu_lowering
from jax._src.pallas.mosaic import pallas_call_registration as tpu_calls
from jax._src.pallas.mosaic import pipeline as tpu_pipeline
from jax._src.pallas.mosaic import primitives as tpu_primitives
from jax._src.pallas.mosaic import random as tpu_random
from jax._src.pallas.mosaic import sc_core as subcore_core
from jax._src.pallas.mosaic import sc_primitives as subcore_primitives
from jax._src.random import prng, threefry2x32
from jax._src.state import indexing as state_indexing
from jax._src.state import primitives as state_primitives
from jax._src.state import types as state_types

__all__ = [
    "ad_checkpoint",
    "ad_util",
    "checkify",
    "conditionals",
    "custom_derivatives",
    "debugging",
    "dtypes",
    "jax_core",
    "lax_internal",
    "pallas_core",
    "pallas_einshape",
    "pallas_primitives",
    "pallas_utils",
    "partial_eval",
    "pjit",
    "prng",
    "source_info_util",
    "state_indexing",
    "state_primitives",
    "state_types",
    "subcore_core",
    "subcore_primitives",
    "threefry2x32",
    "tpu_calls",
    "tpu_core",
    "tpu_lowering",
    "tpu_pipeline",
    "tpu_primitives",
    "tpu_random",
]
