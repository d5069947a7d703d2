"""A whole mesh on one machine, and looking into any mesh from a terminal."""
