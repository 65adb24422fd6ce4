"""The embedder that the settings name, or one for each kind of memory."""

from __future__ import annotations

import os

from offprompt.config import Settings
from offprompt.errors import UsageError
from offprompt.models.embedder_names import BASE_URLS, parse_embedder
from offprompt.protocols import Embedder
from offprompt.records import MemoryKind, Scope
from offprompt.service.model_calls import ModelCalls


def names_of(settings: Settings) -> dict[MemoryKind, str]:
    """By kind of memory, what its embedder is called in the settings."""
    plain = settings.embedder
    return {
        "fact": plain,
        "episode": settings.embedder_episodes or plain,
        "passage": settings.embedder_passages or plain,
    }


def check_embedders(settings: Settings) -> None:
    """Nothing, if the names are those of embedders.

    Raises   UsageError for another name, and for `none` beside one that is not.
    """
    names = names_of(settings).values()
    for name in names:
        parse_embedder(name)
    if "none" in names and len(set(names)) > 1:
        raise UsageError(
            f"embedder={settings.embedder!r}, embedder_episodes={settings.embedder_episodes!r}, "
            f"embedder_passages={settings.embedder_passages!r}: vectors are made for all kinds of memory or for none; "
            "name an embedder for each, or set embedder='none' alone"
        )


def embedder_of(settings: Settings, calls: ModelCalls) -> Embedder | None:
    """The embedder of the settings; where kinds of memory have different ones, one of them all.

    Raises   UsageError where the variable of a key is not set.
    """
    # These load NumPy.
    from offprompt.models.by_kind import ByKindEmbedder  # noqa: PLC0415
    from offprompt.models.embedders import embedder_for  # noqa: PLC0415

    meter = calls.meter(Scope(settings.app, shared=True), "embed")
    names = names_of(settings)
    made = {
        name: embedder_for(name, base_url=settings.embedder_url, key=_key(settings, name), meter=meter)
        for name in dict.fromkeys(names.values())
    }
    parts: dict[MemoryKind, Embedder] = {kind: part for kind, name in names.items() if (part := made[name]) is not None}
    return ByKindEmbedder(parts) if len(made) > 1 else made[settings.embedder]


def _key(settings: Settings, name: str) -> str:
    """The key of an embedder's endpoint; empty: it needs none. OpenAI's goes to its own host only."""
    kind = parse_embedder(name).kind
    if kind not in BASE_URLS:
        return ""
    if settings.embedder_key_env:
        key = os.environ.get(settings.embedder_key_env)
        if not key:
            raise UsageError(
                f"the key of the embedder {name!r} is to be in {settings.embedder_key_env}, which is not set; set it, "
                "or leave out embedder_key_env"
            )
        return key
    own = kind == "openai" and settings.embedder_url in ("", BASE_URLS["openai"])
    return os.environ.get("OPENAI_API_KEY", "") if own else ""
