"""The planner's strategies: each file except `flat_rows` and `flat_moves` is one method.

Those two are helpers of `flat` and `short_rows`: they handle arrays whose elements are numbered
consecutively across rows, in chunks of 128.
"""
