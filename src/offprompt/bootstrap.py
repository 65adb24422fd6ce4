"""The one place that turns a URL and settings into objects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs

from offprompt.config import Settings, find_file, load_settings, read_file
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.models.clocks import SystemClock
from offprompt.models.tokenizers import tokenizer_for
from offprompt.privacy.redact import CheckedRedactor
from offprompt.protocols import Clock, Embedder
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.offprompt import Offprompt, Parts
from offprompt.service.slot_writer import Kit
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.wire.prices import PriceSheet, builtin_sheets, parse_sheets

APP_NAME = "offprompt"
LATER_SCHEMES = ("postgresql", "postgres", "redis", "rediss", "http", "https")


def open(  # noqa: A001 - the verb that users type
    url: str | os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    config: str | os.PathLike[str] | None = None,
    create: bool = True,
    **settings: object,
) -> Offprompt:
    """The memory at a URL.

    url       a file's path or `sqlite:///path`; `":memory:"` for one that ends with the process. None: OFFPROMPT_URL,
              then `url` of the config file, then `offprompt.db` in the user's data folder.
    clock     where `now` comes from, for tests; the system's unless given.
    config    a TOML file; unless given OFFPROMPT_CONFIG, `./offprompt.toml`, then the user's config folder.
    create    make the file, with its folders, if it is not there.
    settings  any setting by name; see docs/settings.md.
    Raises    UsageError for unknown or ill-typed settings, UnsupportedError for a URL that no engine serves,
              BackendError if the file cannot be used, NotFoundError if it is not there and not to be made.
    """
    for name, value in (("url", url), ("config", config)):
        if value is not None and not isinstance(value, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{name}={value!r}: give a path or URL as text, such as {name}={'agent.db'!r}")
    environ = os.environ
    file = Path(config) if config is not None else config_file(environ)
    loaded = load_settings(settings, environ=environ, file=file)
    stored = read_file(file) if file is not None else {}
    where = os.fspath(url) if url is not None else environ.get("OFFPROMPT_URL") or str(stored.get("url") or "")
    user = environ.get("OFFPROMPT_USER") or str(stored.get("user") or "") or None
    clock = clock or SystemClock()
    where = where or str(default_file())
    store = _store(where, clock, loaded, create=create)
    tokenizer = tokenizer_for("")
    memories = MemoryAccess(
        store,
        Kit(store, clock, tokenizer, loaded),
        embedder_for=lambda: _embedder(loaded),
        redactors=lambda: (CheckedRedactor(),) if loaded.redact != "off" else (),
    )
    parts = Parts(store, store, clock, tokenizer, loaded, price_sheets(loaded), tokenizer_for, memories, where)
    return Offprompt(parts, user=user)


def _embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings name."""
    from offprompt.models.embedders import embedder_for  # noqa: PLC0415 - loads NumPy

    return embedder_for(settings.embedder)


def default_file() -> Path:
    """Where memory is kept unless a URL says otherwise: `offprompt.db` in the user's data folder."""
    return Path(platformdirs.user_data_dir(APP_NAME, appauthor=False)) / "offprompt.db"


def config_file(environ: Mapping[str, str]) -> Path | None:
    """The config file in force, or None. `offprompt.toml` of a folder that is gone or may not be entered is none."""
    user_folder = Path(platformdirs.user_config_dir(APP_NAME, appauthor=False))
    return find_file(environ, folder=Path(), user_folder=user_folder)


def price_sheets(settings: Settings) -> tuple[PriceSheet, ...]:
    """The built-in price sheets, with the user's own before them.

    Raises   UsageError if the settings name a file that is not there or not a price sheet.
    """
    if not settings.prices:
        return builtin_sheets()
    try:
        text = Path(settings.prices).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "its name or content is no text"
        raise UsageError(f"the price file {settings.prices!r} cannot be read: {why}; correct `prices`") from exc
    own = parse_sheets(text, where=settings.prices)
    names = {sheet.name for sheet in own}
    return (*own, *(sheet for sheet in builtin_sheets() if sheet.name not in names))


def _store(where: str, clock: Clock, settings: Settings, *, create: bool) -> InProcessStore | SqliteStore:
    if where == ":memory:":
        return InProcessStore(clock)
    try:
        path = sqlite_path(where).absolute()
    except OSError as exc:
        raise UsageError(f"{where!r} is relative to a folder that is gone; give the whole path") from exc
    if not create and not _may_be_there(path):
        raise NotFoundError(
            f"there is no store at {path}; the first write makes it (offprompt write NAME VALUE): "
            "write something, or correct --url or OFFPROMPT_URL"
        )
    return SqliteStore(path, clock=clock, durability=settings.durability, busy_timeout_s=settings.busy_timeout_s)


def _may_be_there(path: Path) -> bool:
    """Whether there is something under the path, or no telling: the store says then why it cannot be opened."""
    try:
        return path.exists()
    except OSError:
        return True


def sqlite_path(where: str) -> Path:
    """The file that a URL or path names.

    Raises   UnsupportedError for another scheme; UsageError for a URL without a path, or with what a path has not.
    """
    if "://" not in where:
        if where.lower().startswith(("sqlite:", "file:")):
            rest = where.partition(":")[2].lstrip("/") or "agent.db"
            raise UsageError(f"{where!r} is no URL of a store; write sqlite:///{rest}, or the path alone")
        return _path(where, where)
    try:
        parts = urlsplit(where)
    except ValueError as exc:
        raise UsageError(f"{where!r} is no URL: {exc}; write sqlite:///relative.db, or the path alone") from exc
    if parts.scheme != "sqlite":
        known = "is not served by this version" if parts.scheme in LATER_SCHEMES else "is not known"
        raise UnsupportedError(
            f"the engine {parts.scheme!r} {known}; give a file's path, sqlite:///path, or ':memory:'"
        )
    path = unquote(parts.path)
    if path == "/:memory:":
        raise UsageError(f"{where!r} would be a file of that name; write ':memory:' for a store in memory")
    if parts.netloc or len(path) < 2:
        raise UsageError(f"{where!r} names no file; write sqlite:///relative.db or sqlite:////absolute/path.db")
    if extra := where.partition("?")[2] or where.partition("#")[2]:
        raise UsageError(
            f"{where!r} has {extra!r} behind the path, and stores have no options in the URL; leave it out, or write "
            "%3F for '?' and %23 for '#' in a file's name"
        )
    return _path(path[1:], where)


def _path(text: str, where: str) -> Path:
    if not text.strip() or "\0" in text:
        what = "has a NUL in it" if text.strip() else "is blank"
        raise UsageError(f"the path {where!r} {what}; give the path of a file, such as 'agent.db'")
    try:
        return Path(text).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"{where!r}: {exc}; write the whole path") from exc
