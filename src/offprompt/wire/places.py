"""Places: in which strings of which tool's arguments a `never` slot's handle may resolve. Pure functions.

A place is one string: tool name equal, JSON pointer equal, nothing below it. With a host, the call's URLs must agree:
see `hosts_of`. What is not clear (two readings of a URL, userinfo, odd characters) is another host.
"""

from __future__ import annotations

import ipaddress
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from offprompt.errors import UsageError
from offprompt.records import Place
from offprompt.wire.handles import find_handles
from offprompt.wire.pointers import step_of

MAX_CHARS: Final = 256
DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}

# Names of arguments that hold a URL or a host also without a scheme; matched against the last word of the name.
URL_NAMES: Final = frozenset(
    [
        *("url", "urls", "uri", "uris", "href", "link", "endpoint", "origin", "webhook", "callback", "proxy"),
        *("host", "hosts", "hostname", "domain", "server"),
    ]
)
URL_ENDINGS: Final = ("网址", "链接", "域名", "主机", "URL", "URLs")
_URL_LIKE = re.compile(r"(?:https?|wss?|ftps?):|[a-z][a-z0-9+.\-]+:[/\\]|[/\\]{2}", re.IGNORECASE)
_WHOLE_URL = re.compile(r"(?:([a-z][a-z0-9+.\-]*):)?//[^/?#\\@\s]+(?:[/?#][^\\\s]*)?", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_\-]*[a-z0-9_])?", re.ASCII)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_EDGES: Final = "".join(map(chr, range(0x21))) + "\x7f\u00a0\u3000\ufeff\u200b"

# Letters that the two standards for names in other scripts write as different hosts.
_DEVIATIONS: Final = frozenset("ßẞς\u200c\u200d")


def clean_place(tool: object, argument: object, host: object = "") -> Place:
    """The place, checked, its argument as a pointer and its host as `host_of` writes it.

    tool      the tool's name, at most 256 characters. argument: a top-level name, or a JSON pointer if it begins with
              `/`. host: a name or address, with a port if it is not the scheme's own; empty: any.
    Raises    UsageError saying which part is wrong, and what would fit.
    """
    for what, value in (("tool", tool), ("argument", argument), ("host", host)):
        if not isinstance(value, str) or len(value) > MAX_CHARS or not (value or what == "host"):
            raise UsageError(f"{what}={value!r} of a place: give text of 1 to {MAX_CHARS} characters")
        if not value.isprintable() or value != value.strip():
            raise UsageError(f"{what}={value!r} of a place has control characters or spaces at its ends")
    own, at, named = str(tool), str(argument), str(host)
    pointer = at if at.startswith("/") else "/" + step_of(at)
    found = _host(named, None) if named else ""
    if named and not found:
        raise UsageError(
            f"host={named!r} of a place is no host; give a name or address such as api.example.com, with a port "
            "such as :8443 if it is not the scheme's own, without scheme and path"
        )
    return Place(own, pointer, found)


def is_allowed(name: str, places: Iterable[Place], *, tool: str, arguments: str, settled: Callable[[], str]) -> bool:
    """Whether all handles of a slot in a call stand in its places; False if there is none, or the call is no JSON.

    name       folded. arguments: JSON text as the model wrote it.
    settled    makes the same with all other handles resolved, and something for this one's: what its URLs will be.
    """
    mine = [place for place in places if place.tool == tool]
    try:
        return _stands_in(name, mine, arguments, settled)
    except UsageError:
        return False


def _stands_in(name: str, mine: Sequence[Place], arguments: str, settled: Callable[[], str]) -> bool:
    at = {pointer for pointer, text in _strings(arguments) if any(found.name == name for found in find_handles(text))}
    hosts = hosts_of(settled()) if any(place.host for place in mine) else set[str]()
    allowed = {place.argument for place in mine if not place.host or hosts == {place.host}}
    return bool(at) and at <= allowed


def hosts_of(arguments: str) -> set[str]:
    r"""The hosts that the URLs in a call's arguments name; an empty text among them for a URL that is none.

    A URL   a string, or a key, that begins like one (`scheme://`, `//`, also after spaces, or with `\\` for `/`); and
            any string at or below a key whose last word says URL or host (`url`, `callbackUrl`, `api_host`, 网址),
            unless it is a path (`/x`), a query or empty. A URL inside a longer text is not looked at.
    Raises  UsageError if the arguments are no JSON.
    """
    found: set[str] = set()
    for each in _texts(_loaded(arguments), url_named=False):
        text = each.text.strip(_EDGES)
        if _URL_LIKE.match(text):
            found.add(host_of(each.text))
        elif each.url_named and text and text[0] not in "/?#":
            found.add(host_of("//" + each.text))
    return found


def host_of(url: str) -> str:
    """The host of a whole URL, lower case, `host:port` if the port is not the scheme's own; empty if it is not clear.

    Not clear   spaces, backslashes, userinfo, escapes or empty labels in the host, an end dot, a port that is no
                number, a name in another script that is not in its one composed form.
    Names       in other scripts come in their ASCII form (`xn--…`), addresses in their shortest.
    """
    whole = _WHOLE_URL.fullmatch(url)
    if whole is None or not url.isprintable():
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return _host(parts.netloc, (whole[1] or "").lower())


def _host(netloc: str, scheme: str | None) -> str:
    """The host of an authority without userinfo; scheme None: a place's own, whose port stays as it is."""
    named = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\\s%]+)(?::([0-9]{1,5}))?", netloc)
    if named is None:
        return ""
    port = int(named[2]) if named[2] else None
    if port is not None and (not 0 < port < 65536 or named[2] != str(port)):
        return ""
    host = _address(named[1][1:-1]) if named[1].startswith("[") else _name(named[1])
    own = DEFAULT_PORTS.get(scheme or "")
    return f"{host}:{port}" if host and port is not None and port != own else host


def _address(text: str) -> str:
    try:
        return f"[{ipaddress.IPv6Address(text).compressed}]"
    except ValueError:
        return ""


def _name(text: str) -> str:
    """A host's name in ASCII, or nothing if two readers could take it for two."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        plain = all(char in "-." or unicodedata.category(char)[0] in "LM" or char.isdecimal() for char in text)
        if not plain or folded != text.lower() or not _DEVIATIONS.isdisjoint(text):
            return ""
        try:
            text = folded.encode("idna").decode()
        except UnicodeError:
            return ""
    labels = text.lower().split(".")
    return ".".join(labels) if all(len(label) < 64 and _LABEL.fullmatch(label) for label in labels) else ""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """An object as it was written: a key that stands twice is there twice."""

    items: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    url_named: bool


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments, object_pairs_hook=lambda pairs: _Pairs(tuple(pairs)))
    except (ValueError, RecursionError) as exc:
        raise UsageError("the arguments are no JSON; a call's arguments are a JSON object") from exc


def _strings(arguments: str) -> Iterator[tuple[str, str]]:
    """The strings of the arguments with their pointers; keys are none."""
    open_ones: list[tuple[str, Any]] = [("", _loaded(arguments))]
    while open_ones:
        pointer, value = open_ones.pop()
        if isinstance(value, str):
            yield pointer, value
        elif isinstance(value, _Pairs):
            open_ones += [(f"{pointer}/{step_of(key)}", item) for key, item in value.items]
        elif isinstance(value, list):
            open_ones += [(f"{pointer}/{at}", item) for at, item in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _texts(value: Any, *, url_named: bool) -> Iterator[_Text]:
    """Strings and keys, each string with whether its key says that it is a URL."""
    open_ones: list[tuple[Any, bool]] = [(value, url_named)]
    while open_ones:
        one, named = open_ones.pop()
        if isinstance(one, str):
            yield _Text(one, named)
        elif isinstance(one, _Pairs):
            for key, item in one.items:
                yield _Text(key, url_named=False)
                open_ones.append((item, named or _says_url(key)))
        elif isinstance(one, list):
            open_ones += [(item, named) for item in one]  # pyright: ignore[reportUnknownVariableType]


def _says_url(key: str) -> bool:
    words = _WORD.findall(key)
    return key.endswith(URL_ENDINGS) or any(word.casefold() in URL_NAMES for word in (key, *words[-1:]))
