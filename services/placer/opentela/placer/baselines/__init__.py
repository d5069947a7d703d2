"""Simpler ways to place, to be measured against: what the solver must beat."""
