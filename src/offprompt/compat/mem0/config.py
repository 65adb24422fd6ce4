"""What a configuration of mem0's library means here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from offprompt.bootstrap import default_file
from offprompt.bootstrap.models import chat_model
from offprompt.errors import UsageError
from offprompt.protocols import ChatModel
from offprompt.records import as_dict

KNOWN: Final = ("vector_store", "llm", "embedder", "history_db_path", "reranker", "version", "custom_instructions")
LEGACY: Final = ("graph_store", "custom_fact_extraction_prompt", "custom_update_memory_prompt")
FILE: Final = "offprompt.db"
_CHAT: Final[Mapping[str, str]] = {
    "openai": "openai",
    "openai_structured": "openai",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "deepseek": "deepseek",
    "lmstudio": "lmstudio",
    "vllm": "vllm",
}
_ADDRESSES: Final = tuple(f"{name}_base_url" for name in sorted(set(_CHAT.values())))
_EMBEDDERS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "ollama": "ollama",
    "huggingface": "sentence-transformers",
    "fastembed": "fastembed",
}


@dataclass(slots=True)
class Meaning:
    """A configuration as `offprompt.open` takes it. url: None: as it says by itself. unused: what is left, in words."""

    url: str | None = None
    models: dict[str, ChatModel | str] = field(default_factory=dict[str, "ChatModel | str"])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    unused: list[str] = field(default_factory=list[str])


def meaning_of(config: object) -> Meaning:
    """What a configuration means: a dict, or one of mem0's own objects.

    Raises   UsageError for a part that mem0 does not have either, or of another shape.
    """
    dump = getattr(config, "model_dump", None)
    given = checked_config(dump(exclude_unset=True) if callable(dump) else config)
    for name in given:
        if name not in (*KNOWN, *LEGACY):
            raise UsageError(f"the configuration has a part {name!r}; its parts are {', '.join(KNOWN)}")
    found = Meaning()
    parts: dict[str, Callable[[Meaning, str, dict[str, Any]], None]] = {
        "vector_store": _store,
        "llm": _model,
        "embedder": _embedder,
    }
    for name, read in parts.items():
        if given.get(name) is None:
            continue
        part = as_dict(given[name])
        if part is None or not isinstance(part.get("provider"), str):
            raise UsageError(f"the configuration's {name} is no object with a provider; see mem0's reference")
        read(found, part["provider"], as_dict(part.get("config")) or {})
    if instructions := given.get("custom_instructions"):
        found.settings["extract_instructions"] = str(instructions)
    found.unused += [f"{name}: there is no such thing here" for name in LEGACY if given.get(name)]
    if given.get("history_db_path"):
        found.unused.append("history_db_path: the history is kept with the memories")
    if given.get("reranker"):
        found.unused.append("reranker: name a model under [models.rerank] of offprompt.toml")
    if given.get("version") not in (None, "v1.1"):
        found.unused.append(f"version {given['version']!r}: answers are those of v1.1")
    return found


def checked_config(config: object) -> dict[str, Any]:
    """A configuration as a dict. Raises UsageError for what is none."""
    given = as_dict(config)
    if given is None:
        raise UsageError(f"the configuration is a {type(config).__name__}; give a dict such as {{'llm': {{…}}}}")
    return given


def warn_of(found: Meaning) -> None:
    """Say what of a configuration is not used."""
    for why in found.unused:
        warnings.warn(f"offprompt.compat.mem0: not used of the configuration: {why}", UserWarning, stacklevel=4)


def _store(found: Meaning, provider: str, config: dict[str, Any]) -> None:
    """Where memories are kept: a PostgreSQL, or a file; with a Qdrant or Chroma that serves, vectors are there."""
    used: set[str] = set()
    if provider == "pgvector":
        used = {"connection_string", "user", "password", "host", "port", "dbname"}
        found.url = config.get("connection_string") or _address("postgresql", config, config.get("dbname", "postgres"))
    elif provider in ("qdrant", "chroma") and (config.get("host") or config.get("url")):
        used = {"host", "port", "url"}
        where = str(config.get("url") or "").removeprefix("http://").rstrip("/")
        vectors = f"{provider}://{where}" if where else _address(provider, config, "")
        found.url = f"memories={default_file()} vectors={vectors}"
    elif provider in ("qdrant", "chroma", "faiss") and config.get("path"):
        used = {"path"}
        found.url = str(Path(str(config["path"])) / FILE)
    else:
        found.unused.append(
            f"vector_store {provider!r}: memories are kept where OFFPROMPT_URL says, else in {default_file()}"
        )
        return
    found.unused += [f"vector_store.{name}" for name in config if name not in used and config[name] is not None]


def _address(scheme: str, config: Mapping[str, Any], path: str) -> str:
    who = quote(str(config["user"]), safe="") if config.get("user") else ""
    if who and config.get("password"):
        who += ":" + quote(str(config["password"]), safe="")
    port = f":{config['port']}" if config.get("port") else ""
    return f"{scheme}://{who}{'@' if who else ''}{config.get('host', 'localhost')}{port}/{path}".rstrip("/")


def _model(found: Meaning, provider: str, config: dict[str, Any]) -> None:
    """The model that reads what users say, besides the rules."""
    own, name = _CHAT.get(provider), config.get("model")
    if own is None or not isinstance(name, str):
        found.unused.append(f"llm {provider!r}: rules read what users say; see [models.extract] in the settings")
        return
    address = next((config[each] for each in _ADDRESSES if config.get(each)), None)
    found.models["extract"] = chat_model(f"{own}:{name}", base_url=address, key=config.get("api_key"))
    used = {"model", "api_key", *_ADDRESSES}
    found.unused += [f"llm.{name}" for name in config if name not in used and config[name] is not None]


def _embedder(found: Meaning, provider: str, config: dict[str, Any]) -> None:
    """What makes vectors."""
    own, name = _EMBEDDERS.get(provider), config.get("model")
    if own is None or not isinstance(name, str):
        found.unused.append(f"embedder {provider!r}: the one that is installed with offprompt is used")
        return
    size = f"/{config['embedding_dims']}" if config.get("embedding_dims") and own == "openai" else ""
    found.settings["embedder"] = f"{own}:{name}{size}"
    address = config.get("openai_base_url") or config.get("ollama_base_url")
    if address:
        found.settings["embedder_url"] = address
    if config.get("api_key"):
        found.unused.append("embedder.api_key: put it into the variable that embedder_key_env names")
    used = {"model", "embedding_dims", "openai_base_url", "ollama_base_url", "api_key"}
    found.unused += [f"embedder.{name}" for name in config if name not in used and config[name] is not None]
