"""Definitions of tools between LangChain and a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from offprompt.records import as_dict, as_list


def as_tool(tool: Any) -> dict[str, Any]:
    """A tool's definition as the session counts it; one of the provider's own as it is."""
    given = as_dict(tool)
    if given is not None and {"function", "name", "title"}.isdisjoint(given):
        return given
    return convert_to_openai_tool(tool)


def strict_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """One of our tools as OpenAI wants it beside a strict answer: what is optional may be null, and nothing else comes.

    Source   OpenAI, *Structured outputs*: supported schemas.
    """
    function = as_dict(tool["function"]) or {}
    schema = as_dict(function["parameters"]) or {}
    required = as_list(schema.get("required")) or []
    given = as_dict(schema["properties"]) or {}
    properties = {name: kind if name in required else _or_null(as_dict(kind) or {}) for name, kind in given.items()}
    strict = {**schema, "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {**function, "parameters": strict, "strict": True}}


def _or_null(kind: Mapping[str, Any]) -> dict[str, Any]:
    if "enum" in kind:
        return {**kind, "type": ["string", "null"], "enum": [*kind["enum"], None]}
    return {**kind, "type": [kind["type"], "null"]}
