"""The connections of LangChain's chat models, let go of for good."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

KEPT = {
    "langchain_openai.chat_models._client_utils": ("_cached_sync_httpx_client", "_cached_async_httpx_client"),
    "langchain_anthropic._client_utils": ("_get_default_httpx_client", "_get_default_async_httpx_client"),
}
"""Where LangChain keeps the clients under their models, by base URL: the next server may have the port of this one."""


def close_model(model: Any) -> None:
    """Close a chat model's clients, outside of a running loop, and let no later model of the same URL have them."""
    client = getattr(model, "root_client", None) or model._client
    other = getattr(model, "root_async_client", None) or model._async_client
    client.close()
    asyncio.run(other.close())
    forget_clients()


def forget_clients() -> None:
    """Let no later model have a client that was made before."""
    for name, makers in KEPT.items():
        for maker in makers if name in sys.modules else ():
            getattr(sys.modules[name], maker).cache_clear()
