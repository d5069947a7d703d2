"""Slurm: what is asked of it, three ways to ask, and services that outlast their jobs."""
