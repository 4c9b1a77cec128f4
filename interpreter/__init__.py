"""What modules mean: the modelled machine, the meaning of each op, and the drivers."""
