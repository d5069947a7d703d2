"""The solver: a placement for an objective, with a bound that it cannot exceed."""
