"""The contracts between the layers, each said once; the conformance suites in `offprompt.testing` hold them."""

from __future__ import annotations

from offprompt.protocols.coordination import Coordinator
from offprompt.protocols.indexes import VectorIndex, VectorSearch, WordIndex
from offprompt.protocols.models import ChatModel, Clock, Embedder, EmbedKind, Redactor, ReplyStream, Reranker, Tokenizer
from offprompt.protocols.stores import (
    Checkable,
    Maintainable,
    MemoryStore,
    Notes,
    Portable,
    Scourable,
    SessionStore,
    SlotStore,
    Store,
    Traceable,
    apply,
    run,
)

__all__ = [
    "ChatModel",
    "Checkable",
    "Clock",
    "Coordinator",
    "EmbedKind",
    "Embedder",
    "Maintainable",
    "MemoryStore",
    "Notes",
    "Portable",
    "Redactor",
    "ReplyStream",
    "Reranker",
    "Scourable",
    "SessionStore",
    "SlotStore",
    "Store",
    "Tokenizer",
    "Traceable",
    "VectorIndex",
    "VectorSearch",
    "WordIndex",
    "apply",
    "run",
]
