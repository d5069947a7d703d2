"""Whole-system simulation: the real machines of every service in one seeded world.

`python -m opentela.testing.sim --seeds 200` runs named scenarios and a random swarm; a failure
prints its seed and the one line that replays it. This is the only package that imports the
services: they never import each other and meet here on encoded bytes, as on the wire.
"""
