"""Memory for LLM agents that stays off the prompt.

`offprompt.open(url)` is the one door. Importing this package touches no disk beyond its own files, no environment,
logging or network, and loads the heavy parts when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from offprompt.errors import (
    AccessError,
    BackendError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    HandleError,
    HeldError,
    LeakError,
    LimitError,
    ModelError,
    NameInvalidError,
    NotFoundError,
    OffpromptError,
    RateError,
    SchemaError,
    ScopeError,
    UnauthenticatedError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from offprompt.bootstrap import open  # noqa: A004 - the verb that users type
    from offprompt.bootstrap.models import chat_model
    from offprompt.client.clients import AsyncClient, Client
    from offprompt.protocols import ChatModel
    from offprompt.records import (
        DEFAULT,
        Action,
        AgentReply,
        Cancel,
        Completion,
        ErasureReceipt,
        Hit,
        Known,
        Memory,
        MemoryPage,
        MemoryVersion,
        Parsed,
        Place,
        Recalled,
        Receipt,
        Refusal,
        Remembered,
        Reply,
        Scope,
        Slot,
        SlotVersion,
        ToolCall,
        ToolRun,
    )
    from offprompt.service.agent import Agent, AgentLimits
    from offprompt.service.async_session import AsyncSession
    from offprompt.service.bound import BoundScope
    from offprompt.service.offprompt import Offprompt
    from offprompt.service.session import Session
    from offprompt.service.without_tools import WithoutTools
    from offprompt.wire.actions import parse_actions

__version__ = "0.1.0"

__all__ = [
    "DEFAULT",
    "AccessError",
    "Action",
    "Agent",
    "AgentLimits",
    "AgentReply",
    "AsyncClient",
    "AsyncSession",
    "BackendError",
    "BoundScope",
    "BudgetError",
    "Cancel",
    "ChatModel",
    "Client",
    "Completion",
    "ConflictError",
    "ErasureReceipt",
    "ForbiddenError",
    "HandleError",
    "HeldError",
    "Hit",
    "Known",
    "LeakError",
    "LimitError",
    "Memory",
    "MemoryPage",
    "MemoryVersion",
    "ModelError",
    "NameInvalidError",
    "NotFoundError",
    "Offprompt",
    "OffpromptError",
    "Parsed",
    "Place",
    "RateError",
    "Recalled",
    "Receipt",
    "Refusal",
    "Remembered",
    "Reply",
    "SchemaError",
    "Scope",
    "ScopeError",
    "Session",
    "Slot",
    "SlotVersion",
    "ToolCall",
    "ToolRun",
    "UnauthenticatedError",
    "UnsupportedError",
    "UsageError",
    "WithoutTools",
    "__version__",
    "chat_model",
    "open",
    "parse_actions",
]

_LAZY = {
    "open": "offprompt.bootstrap",
    "chat_model": "offprompt.bootstrap.models",
    "AsyncClient": "offprompt.client.clients",
    "ChatModel": "offprompt.protocols",
    "Client": "offprompt.client.clients",
    "Agent": "offprompt.service.agent",
    "AgentLimits": "offprompt.service.agent",
    "AsyncSession": "offprompt.service.async_session",
    "BoundScope": "offprompt.service.bound",
    "Offprompt": "offprompt.service.offprompt",
    "Session": "offprompt.service.session",
    "WithoutTools": "offprompt.service.without_tools",
    "parse_actions": "offprompt.wire.actions",
} | dict.fromkeys(
    (
        "DEFAULT",
        "Action",
        "AgentReply",
        "Cancel",
        "Completion",
        "ErasureReceipt",
        "Hit",
        "Known",
        "Memory",
        "MemoryPage",
        "MemoryVersion",
        "Parsed",
        "Place",
        "Recalled",
        "Receipt",
        "Refusal",
        "Remembered",
        "Reply",
        "Scope",
        "Slot",
        "SlotVersion",
        "ToolCall",
        "ToolRun",
    ),
    "offprompt.records",
)


def __getattr__(name: str) -> Any:
    """A name of `__all__` at its first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'offprompt' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
