"""Pictures and a page of what a replay came to."""
