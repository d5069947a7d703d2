"""The sessions of the mesh, as routers, placers and tools see them."""
