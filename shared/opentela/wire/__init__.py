"""The contract between services: subjects and the messages that travel on them."""
