"""How one of several sessions is picked; found by name through `opentela.policies`."""
