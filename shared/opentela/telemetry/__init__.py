"""Logs, metrics and health pages, the same in every service."""
