"""The registry: knows every session, finds the dead, and tells."""
