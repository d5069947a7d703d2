"""What a replica does under load: an analytic model for the solver, a discrete one for replay."""
