"""Anthropic's context editing: of long requests the provider itself clears old tool results, before the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offprompt.records import as_dict, as_list

BETA: Final = "context-management-2025-06-27"
EDIT: Final = "clear_tool_uses_20250919"
KEPT_USES: Final = 3
"""The newest calls whose results stay; the provider's own default."""


def clearing(at_tokens: int) -> dict[str, Any]:
    """The parameters of a request whose old tool results the provider clears over so many input tokens.

    Keeps    the results of the newest 3 calls. Nothing is cleared where that would free less than half of `at_tokens`,
             since each clearing breaks the cached prefix.
    Source   Anthropic's page on context editing.
    """
    edit = {
        "type": EDIT,
        "trigger": {"type": "input_tokens", "value": at_tokens},
        "keep": {"type": "tool_uses", "value": KEPT_USES},
        "clear_at_least": {"type": "input_tokens", "value": at_tokens // 2},
    }
    return {"context_management": {"edits": [edit]}, "betas": [BETA]}


def cleared(reply: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Tokens and tool results that the provider says it cleared of the request; None, None if it says nothing."""
    report = as_dict(reply.get("context_management"))
    if report is None:
        return None, None
    edits = [as_dict(each) or {} for each in as_list(report.get("applied_edits")) or []]
    of_results = [each for each in edits if each.get("type") == EDIT]
    return _sum(edits, "cleared_input_tokens"), _sum(of_results, "cleared_tool_uses")


def _sum(edits: list[dict[str, Any]], key: str) -> int:
    return sum(value for each in edits if isinstance(value := each.get(key), int) and not isinstance(value, bool))
