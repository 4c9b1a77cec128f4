"""The modelled machine: memories, refs, semaphores, DMA, cores and their scheduler.

* `machine` puts it together; each `core` has what its program touches, `scheduler` resumes them,
  `clock` tells their modelled time.
* `memory` has buffers of bytes, `codec` turns bytes into elements, and `views` has the refs, whose
  accesses are `elements` in `boxes` or registers (`rows`, `register_access`); `recast` gives refs
  of another shape or type, `undefined` what lies outside, `faults` the diagnostics.
* `dma` moves between refs (`copies`, `rounding`) by `dma_rules`, and signals `semaphores`.
* `prng` and `mxu` are the state of those units.
* Sanitizers watch through `observers`: `checks` and `race` (which remembers `uses`) are told of
  `accesses`, which touch `regions`, found again through `region_index` and `spans`.
"""
