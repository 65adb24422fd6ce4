"""A framework that is not installed: the error says what to install."""

from __future__ import annotations

import importlib
import sys

import pytest

import offprompt

EXTRAS = {
    "anthropic_memory": ("anthropic", "anthropic.lib.tools"),
    "openai_agents": ("openai-agents", "agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic_ai"),
    "llama_index": ("llama-index", "llama_index.core.base.llms.types"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_without_its_framework_an_adapter_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, module = EXTRAS[name]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"offprompt.integrations.{name}", raising=False)
    with pytest.raises(offprompt.UnsupportedError) as raised:
        importlib.import_module(f"offprompt.integrations.{name}")
    assert f"pip install 'offprompt[{extra}]'" in str(raised.value)
