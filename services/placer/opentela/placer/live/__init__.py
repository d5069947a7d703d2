"""The placer at work on a mesh: what is asked, what there is, what is moved."""
