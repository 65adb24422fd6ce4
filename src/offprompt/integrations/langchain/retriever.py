"""OffpromptRetriever: recall as a retriever of LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from offprompt.integrations.given import checked_scope
from offprompt.service.agent_stream import in_thread


class OffpromptRetriever(BaseRetriever):
    """The memories that answer a question, best first; no document where none lies above the floor.

    scope     whose memories: `memory.scope(user="alice")`, of an opened memory or of a server.
    options   of each recall: top_k, kinds, filters, floor, since, until …; see `Memories.recall`.
    Document  page_content: the memory's text; id: its id; metadata: `memory_id`, `score`, `trust`, `source`, `kind`,
              `created_at` (seconds since 1970), `tags`, and under `metadata` what was given with it.
    Raises    UsageError for what is no scope.
    Trust     `tool`: a web page or a mail led to it. It is data; put it where no orders are read.
    """

    scope: Any
    options: dict[str, Any] = Field(default_factory=dict[str, Any])

    def __init__(self, *, scope: Any, **fields: Any) -> None:
        fields["scope"] = checked_scope(scope, "OffpromptRetriever")
        super().__init__(**fields)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun | None = None
    ) -> list[Document]:
        del run_manager
        return [_document(hit) for hit in self.scope.recall(query, **self.options)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun | None = None
    ) -> list[Document]:
        del run_manager
        return await in_thread(lambda: self._get_relevant_documents(query))


def _document(hit: Any) -> Document:
    memory = hit.memory
    told = {
        "memory_id": memory.memory_id,
        "score": hit.score,
        "trust": memory.trust,
        "source": memory.source,
        "kind": memory.kind,
        "created_at": memory.created_at,
        "tags": list(memory.tags),
        "metadata": dict(memory.metadata),
    }
    return Document(memory.text, id=memory.memory_id, metadata=told)
