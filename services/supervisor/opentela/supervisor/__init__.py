"""The supervisor: runs an engine and offers its models to the mesh for as long as it serves."""
