"""The one place that turns a URL and settings into objects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from offprompt.bootstrap.embedding import check_embedders, embedder_of
from offprompt.bootstrap.engines import Engines, open_engines
from offprompt.bootstrap.redaction import check_redaction, redactor_of, sealer_of
from offprompt.bootstrap.remote import is_server, open_server
from offprompt.bootstrap.routes import model_for, parse_routes
from offprompt.bootstrap.urls import IN_PROCESS, Urls, parse_urls
from offprompt.config import Settings, find_file, load_settings, read_file, seals
from offprompt.errors import UsageError
from offprompt.models.clocks import SystemClock
from offprompt.models.tokenizers import tokenizer_for
from offprompt.protocols import ChatModel, Clock
from offprompt.protocols.sealing import Sealer
from offprompt.records import Purpose
from offprompt.records.places import data_folder, masked, user_config_folder
from offprompt.records.retention import retentions
from offprompt.service.encryption import check_plain, sealer_in
from offprompt.service.granting import Grants
from offprompt.service.holding import Holds
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.model_calls import ModelCalls
from offprompt.service.offprompt import Offprompt
from offprompt.service.parts import Parts
from offprompt.service.quotas import Quotas
from offprompt.service.slot_writer import Kit
from offprompt.service.spooled_writes import SpooledWrites
from offprompt.service.spooling import Spool
from offprompt.service.tombstones import Tombstones
from offprompt.wire.prices import PriceSheet, builtin_sheets, parse_sheets


def open(  # noqa: A001 - the verb that users type
    url: str | os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    config: str | os.PathLike[str] | None = None,
    create: bool = True,
    models: Mapping[str, ChatModel | str] | None = None,
    key: str | None = None,
    **settings: object,
) -> Offprompt:
    """The memory at a URL.

    url       a file's path or `sqlite:///path`, `postgresql://…`; `":memory:"` for one that ends with the process; or
              an engine for each role, `"memories=postgresql://… slots=redis://… vectors=qdrant://…"`. None:
              OFFPROMPT_URL, then `url` of the config file, then `offprompt.db` in the user's data folder.
              `http://HOST:PORT`: what `offprompt serve` keeps there; then it is a Client, with the same face but for
              `parts`, and settings are the server's, but for `app` and `busy_timeout_s`, how long it is waited for.
    clock     where `now` comes from, for tests; the system's unless given.
    config    a TOML file; unless given OFFPROMPT_CONFIG, `./offprompt.toml`, then the user's config folder.
    create    make the file, with its folders, if it is not there.
    models    language models for memory by purpose, objects or names such as `{"extract": "gpt-4o-mini"}`; before what
              the tables `[models.PURPOSE]` of the config file name. None is asked unless an option says so.
    key       of a server; unless given OFFPROMPT_KEY, else the token that one on this machine left for its user.
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
    retentions(loaded.retention)  # a rule that is none is told before anything is opened
    stored = read_file(file) if file is not None else {}
    where = located(url, stored)
    user = environ.get("OFFPROMPT_USER") or str(stored.get("user") or "") or None
    if isinstance(where, str) and is_server(where):
        names_app = settings.get("app") is not None or "app" in stored or "OFFPROMPT_APP" in environ
        app = loaded.app if names_app else None
        return open_server(where, {**settings, "clock": clock, "models": models}, loaded, app=app, key=key, user=user)
    if key is not None:
        raise UsageError(f"key=… is for a server, and {masked(os.fspath(where))!r} is a store; leave it out")
    urls = parse_urls(where) if isinstance(where, str) else Urls(os.fspath(where))
    clock = clock or SystemClock()
    sheets = price_sheets(loaded)
    check_embedders(loaded)
    check_redaction(loaded)
    make = model_for(parse_routes(stored.get("models"), where=str(file)), models)
    # Nothing is opened, or made, before all that was given is known to be right.
    engines = _opened(urls, clock, loaded, create=create)
    spool = _spool(urls, clock, loaded, sealer_in(engines.main))
    return Offprompt(_assembled(engines, urls, clock, loaded, sheets, make, spool), user=user)


def _opened(urls: Urls, clock: Clock, settings: Settings, *, create: bool) -> Engines:
    """The engines, sealing what they keep if the settings name a keyring: a store that ends with the process has none.

    Raises   as `open`; then what was opened is closed, and a store that was there is as it was.
    """
    keyring = None
    if urls.memories != IN_PROCESS and seals(settings):
        from offprompt.bootstrap.encryption import Encryption  # noqa: PLC0415 - loaded by who needs it

        keyring = Encryption(urls, settings, clock)
    try:
        engines = open_engines(urls, clock, _hurried(settings), create=create)
        try:
            if keyring is not None:
                keyring.seal(engines)
            else:
                check_plain(engines.main, str(urls))
        except BaseException:
            engines.slots.close()
            engines.main.close()
            raise
    except BaseException:
        if keyring is not None:
            keyring.close()
        raise
    return engines


def _assembled(
    engines: Engines,
    urls: Urls,
    clock: Clock,
    loaded: Settings,
    sheets: Sequence[PriceSheet],
    make: Callable[[Purpose], ChatModel | None],
    spool: Spool | None,
) -> Parts:
    """What an opened memory is made of, over its engines."""
    main, slots, tokenizer = engines.main, engines.slots, tokenizer_for("")
    counted = ModelCalls(main, clock, tokenizer, loaded, sheets, make)
    quotas = Quotas(slots, main, engines.coordinator, clock, loaded)
    grants = Grants(main, clock, loaded.app)
    kit = Kit(slots, clock, tokenizer, loaded, spool, quotas, Holds(main, clock), Tombstones(main), grants)
    redactor = redactor_of(loaded)
    redactors = () if redactor is None else (redactor,)
    memories = MemoryAccess(
        main,
        kit,
        embedder_for=lambda: embedder_of(loaded, counted),
        redactors=lambda: redactors,
        models=counted,
        vectors_for=engines.vectors_for,
        sealer=sealer_of(loaded, kit, main.digest_key),
    )
    if spool is not None:
        spool.perform = SpooledWrites(kit, memories).perform
    return Parts(
        slots,
        main,
        clock,
        tokenizer,
        loaded,
        sheets,
        tokenizer_for,
        memories,
        str(urls),
        urls.place,
        engines.coordinator,
        grants,
        spool,
        quotas=quotas,
    )


def _hurried(settings: Settings) -> Settings:
    """The settings for engines: where writes have a deadline nothing is waited for any longer."""
    deadline = settings.write_deadline_s
    return replace(settings, busy_timeout_s=min(deadline, settings.busy_timeout_s)) if deadline else settings


def _spool(urls: Urls, clock: Clock, settings: Settings, sealer: Sealer | None) -> Spool | None:
    """The spool of a store, in the user's data folder; None for a store that ends with the process."""
    if urls.memories == IN_PROCESS:
        return None
    name = hashlib.sha256(urls.place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Spool(data_folder() / "spool" / f"{name}.jsonl", clock, is_on=settings.write_deadline_s > 0, sealer=sealer)


def located(url: str | os.PathLike[str] | None, stored: Mapping[str, object]) -> str | os.PathLike[str]:
    """Where the memory is: as given, else as the environment says, else a config file's content."""
    return url if url is not None else os.environ.get("OFFPROMPT_URL") or _stored_url(stored.get("url"))


def _stored_url(url: object) -> str | Path:
    """The URL of a config file, a text or a table with one for each role; the default file if it says none."""
    if isinstance(url, dict):
        return " ".join(f"{role}={one}" for role, one in cast("dict[str, object]", url).items())
    return str(url or "") or default_file()


def default_file() -> Path:
    """Where memory is kept unless a URL says otherwise: `offprompt.db` in the user's data folder."""
    return data_folder() / "offprompt.db"


def config_file(environ: Mapping[str, str]) -> Path | None:
    """The config file in force, or None. `offprompt.toml` of a folder that is gone or may not be entered is none."""
    return find_file(environ, folder=Path(), user_folder=user_config_folder())


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
