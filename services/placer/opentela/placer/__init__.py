"""Decides which models run where: a simulator that says what a placement does, and a solver."""
