"""Replay: what the requests of conversations that exist already would have cost, under each history policy."""
