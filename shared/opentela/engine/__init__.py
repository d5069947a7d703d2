"""HTTP to an engine on this host, for whoever of the services asks it."""
