"""Offprompt."""
