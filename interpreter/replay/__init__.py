"""Records what one run of a kernel does with arrays, and replays it in later runs.

Possible where every run does the same: `repeats` decides when to record, `recorder` lists the
operations of one run as `lines`, `script` optimises these (`once`, `forward`, `known`, `choices`,
`direct`, `chains`, `stacks`, `narrow`) and compiles them to one Python function
(docs/internals/running.md).
"""
