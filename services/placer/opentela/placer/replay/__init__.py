"""Replay of a trace through a fleet that changes: how long each request would have taken."""
