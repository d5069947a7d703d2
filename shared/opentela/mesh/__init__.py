"""The NATS mesh: servers, credentials, permissions and clients."""
