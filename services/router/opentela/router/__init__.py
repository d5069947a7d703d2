"""The OpenAI-compatible front of the mesh: picks a session for each request, and tries again."""
