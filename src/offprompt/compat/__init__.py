"""What lets code that was written for other memories run on this one."""

from offprompt.compat.manager import MemoryManager

__all__ = ["MemoryManager"]
