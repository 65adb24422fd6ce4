"""Which model does what: the tables `[models.PURPOSE]` of a config file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from offprompt.errors import UsageError
from offprompt.protocols import ChatModel
from offprompt.records import PURPOSES, Purpose, as_dict


@dataclass(frozen=True, slots=True)
class Route:
    """One table: what `chat_model` is given. key_env: the variable of the key, which may not stand here itself."""

    model: str
    base_url: str | None = None
    key_env: str | None = None
    wire: str | None = None
    context_tokens: int | None = None
    timeout_s: float | None = None
    retries: int | None = None

    def made(self) -> ChatModel:
        """The model.

        Raises   UsageError for what does not fit, and where the variable of the key is not set.
        """
        from offprompt.bootstrap.models import chat_model  # noqa: PLC0415 - models are optional

        key = None
        if self.key_env is not None:
            key = os.environ.get(self.key_env)
            if not key:
                raise UsageError(f"the key of {self.model!r} is to be in {self.key_env}, which is not set; set it")
        wire: Any = self.wire
        return chat_model(
            self.model,
            base_url=self.base_url,
            key=key,
            wire=wire,
            context_tokens=self.context_tokens,
            timeout_s=self.timeout_s,
            retries=self.retries,
        )


def parse_routes(tables: object, *, where: str) -> dict[Purpose, Route]:
    """The routes of a file's table `models`.

    Raises   UsageError for an unknown purpose or key, a value of another type, or a table without its model.
    """
    if tables is None:
        return {}
    found = as_dict(tables)
    if found is None:
        raise UsageError(f'models in {where} is no table; write [models.extract] with model = "…" under it')
    if "embed" in found:
        raise UsageError(
            f"{where}: [models.embed] is no table; the embedder has settings of its own: embedder, embedder_url, "
            "embedder_key_env"
        )
    return {_purpose(name, where): _route(name, table, where) for name, table in found.items()}


def model_for(
    routes: Mapping[Purpose, Route], given: Mapping[str, ChatModel | str] | None
) -> Callable[[Purpose], ChatModel | None]:
    """What makes the model of a purpose: what was given before what the file says; None: none is set.

    Raises   UsageError for an unknown purpose.
    """
    named = {_purpose(name, "models"): model for name, model in (given or {}).items()}

    def make(purpose: Purpose) -> ChatModel | None:
        model = named.get(purpose)
        if model is None:
            return routes[purpose].made() if purpose in routes else None
        return Route(model).made() if isinstance(model, str) else model

    return make


def _purpose(name: str, where: str) -> Purpose:
    if name not in PURPOSES:
        raise UsageError(f"{where}: there is no purpose {name!r}; the purposes are {', '.join(PURPOSES)}")
    return name


def _route(purpose: str, table: object, where: str) -> Route:
    values = as_dict(table)
    known = {each.name for each in fields(Route)}
    if values is None or not isinstance(values.get("model"), str):
        raise UsageError(f'{where}: [models.{purpose}] names no model; write model = "…" in it')
    hints = get_type_hints(Route)
    for name, value in values.items():
        if name in ("key", "api_key"):
            raise UsageError(
                f'{where}: {name} in [models.{purpose}] would be a secret in a file; write key_env = "VARIABLE"'
            )
        if name not in known:
            raise UsageError(
                f"{where}: unknown key {name!r} in [models.{purpose}]; the keys are {', '.join(sorted(known))}"
            )
        wanted = (int, float) if hints[name] == float | None else hints[name]
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise UsageError(f"{where}: {name} = {value!r} in [models.{purpose}] has the wrong type")
    return Route(**values)
