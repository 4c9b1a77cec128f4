"""What modules mean: the modelled machine, the meaning of each op, and the drivers.

* An op means one function of arrays, whatever executes it: those of `ops/` are pure, those of
  `effects/` touch the machine. `meanings` is their registry, `facts` what they know before a run,
  `values` how arrays carry elements.
* `machine/` is the modelled TPU.
* Two drivers execute functions, and share `driver`: `reference`, op by op on xDSL's `Interpreter`,
  and `compiled`, which writes a Python function of each (`compiled_*`). What belongs to one form is
  made a function first: a kernel's grid and blocks by `windows`, the `pallas` form by
  `pallas_program` and `pallas_steps`.
* `run` puts it together: `binding` and `arrays` between a call's arrays and the kernel's arguments,
  `limits` on what a run may cost, `costs` for the modelled time, `process` for the host's settings.
"""
