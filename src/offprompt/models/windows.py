"""How large a model's context is, asked of the server that runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from offprompt.models.clients import Client, NotJsonError, StatusError
from offprompt.records import as_dict, as_list

OLLAMA_DEFAULT: Final = 4096
"""What Ollama runs a model with that names nothing itself, on machines without a large graphics card."""

_NAMES: Final = ("max_model_len", "context_length", "max_context_length", "context_window")
_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def of_chat_endpoint(client: Client, base_url: str, name: str) -> int:
    """The window of a model behind chat completions, 0: the endpoint does not tell.

    Asked     llama.cpp's `/props` (what it runs with); `/models` (vLLM's `max_model_len`, others' `context_length`);
              LM Studio's and Ollama's own API. Behind https, where providers are, `/models` alone.
    Raises    as `Client`, where there is no connection.
    """
    root = re.sub(r"/v\d+$", "", base_url)
    is_remote = base_url.startswith("https://")
    props = {} if is_remote else await _asked(client, f"{root}/props")
    if found := number_in(as_dict(props.get("default_generation_settings")) or {}, "n_ctx"):
        return found
    listed = await _asked(client, "/models")
    entry = _entry(listed, name)
    if found := next((number for key in _NAMES if (number := number_in(entry, key))), 0):
        return found
    if is_remote:
        return 0
    studio = await _asked(client, f"{root}/api/v0/models/{quote(name, safe='')}")
    if found := number_in(studio, "loaded_context_length") or number_in(studio, "max_context_length"):
        return found
    return await of_ollama(client, root, name)


async def of_ollama(client: Client, root: str, name: str) -> int:
    """What Ollama runs the model with: as loaded now, as its Modelfile says, else the default; 0: it is not Ollama."""
    running = as_list((await _asked(client, f"{root}/api/ps")).get("models"))
    if running is None:
        return 0
    loaded = [as_dict(each) or {} for each in running]
    for each in loaded:
        if name in (each.get("name"), each.get("model")) and (found := number_in(each, "context_length")):
            return found
    try:
        shown = await client.post(f"{root}/api/show", {"model": name}, {})
    except (StatusError, NotJsonError):
        return OLLAMA_DEFAULT
    said = _NUM_CTX.search(str(shown.get("parameters") or ""))
    return int(said[1]) if said else OLLAMA_DEFAULT


def number_in(found: Mapping[str, Any], key: str) -> int:
    """The whole number above 0 under a key, else 0."""
    value = found.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


async def _asked(client: Client, path: str) -> dict[str, Any]:
    """What stands at a path, empty where the server does not know it."""
    try:
        return await client.get(path)
    except (StatusError, NotJsonError):
        return {}


def _entry(listed: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The model's entry in a list of models; the only one, whatever its name."""
    entries = [as_dict(each) or {} for each in as_list(listed.get("data")) or ()]
    named = [each for each in entries if each.get("id") == name]
    return (named or (entries if len(entries) == 1 else []) or [{}])[0]
