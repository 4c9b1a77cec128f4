"""The planner's strategies: each file but `flat_rows` and `flat_moves` is one way of moving.

Those two know rows that are numbered on through an array of few lanes.
"""
