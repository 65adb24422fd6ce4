"""The gateway: an agent that exists points its base URL here, and its memory leaves the prompt. No code changes."""
