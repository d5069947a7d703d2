"""An agent: an allocation that offers its GPUs, and runs on them what placers tell it."""
