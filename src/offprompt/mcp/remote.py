"""Where ServerDoor was."""

from offprompt.bootstrap.server_door import ServerDoor

__all__ = ["ServerDoor"]
