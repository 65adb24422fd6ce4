"""Options of the gateway: the table `[gateway]` of the config file, before which the command line goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_type_hints

from offprompt.config import setting, typed, unknown
from offprompt.errors import UsageError
from offprompt.records import as_dict, as_list
from offprompt.wire.options import HistoryPolicy


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How the gateway works; `docs/settings.md` is made from the one-line descriptions here."""

    upstreams: tuple[str, ...] = setting(
        (), "Where the models are: `https://…`, or `claude-*=https://…` for some of them; a list."
    )
    head: Literal["as_needed", "always"] = setting(
        "as_needed",
        "Our tools and instructions come once the user has memory or something leaves the prompt, or `always`.",
    )
    policy: HistoryPolicy = setting(  # noqa: RUF009 - frozen
        "auto",
        "What leaves the prompt of the history; `context_editing`: on Anthropic's wire, `auto` on the others.",
    )
    trust_users: bool = setting(
        default=False, doc="On this machine, without a key: whom a request names as its user is believed."
    )
    without_scope: Literal["refuse", "pass"] = setting(
        "refuse", "A request that names no memory is refused, or goes through as it is (`pass`)."
    )
    on_trouble: Literal["pass", "refuse"] = setting(
        "pass", "Where the memory fails or is too slow, a request goes through as it is, or is refused."
    )
    deadline_s: float = setting(
        10.0, "Seconds that the memory may take each time that a request or its reply waits for it."
    )


def options_in(stored: Mapping[str, Any], given: Mapping[str, Any], *, where: str) -> GatewayOptions:
    """The options in force.

    stored   a config file's content; where: its name. given: arguments by name, None for what is not given.
    Raises   UsageError for an unknown name or a value that does not fit.
    """
    table = as_dict(stored.get("gateway", {}))
    if table is None:
        raise UsageError(f"gateway in {where} is no table; write [gateway], and its settings under that")
    hints, known = get_type_hints(GatewayOptions), {item.name for item in fields(GatewayOptions)}
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise unknown(name, f"[gateway] in {where}", known)
        is_list = name == "upstreams"
        found[name] = _texts(value, where) if is_list else typed(name, value, hints[name], f"[gateway] in {where}")
    return GatewayOptions(**{**found, **{name: value for name, value in given.items() if value is not None}})


def _texts(value: object, where: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else as_list(value)
    if given is None or not all(isinstance(one, str) for one in given):
        raise UsageError(
            f"setting upstreams = {value!r} in [gateway] in {where}: it must be a list of texts, such as "
            '["https://api.openai.com", "claude-*=https://api.anthropic.com"]'
        )
    return tuple(map(str, given))
