"""Engines: where slots and sessions are kept."""
