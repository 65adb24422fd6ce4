"""mem0's API: what its own client asks, answered by this memory."""

from offprompt.rest.mem0 import entities, memories, projects

ENDPOINTS = (*projects.ENDPOINTS, *memories.ENDPOINTS, *entities.ENDPOINTS)
