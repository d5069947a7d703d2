"""One HTTP exchange as a stream of frames: a pure machine for each end."""
