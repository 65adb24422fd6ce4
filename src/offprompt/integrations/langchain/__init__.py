"""Memory for LangChain; see docs/langchain.md."""

from __future__ import annotations

from offprompt.errors import UnsupportedError

try:
    from offprompt.integrations.langchain.history import OffpromptChatMessageHistory
    from offprompt.integrations.langchain.middleware import OffpromptMiddleware
    from offprompt.integrations.langchain.retriever import OffpromptRetriever
except ModuleNotFoundError as exc:
    raise UnsupportedError("LangChain is not installed; run: pip install 'offprompt[langchain]'") from exc

__all__ = ["OffpromptChatMessageHistory", "OffpromptMiddleware", "OffpromptRetriever"]
