"""The keyring of a store, as the settings say."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from offprompt.bootstrap import config_file, located
from offprompt.bootstrap.engines import Engines, open_engines, open_store
from offprompt.bootstrap.remote import is_server
from offprompt.bootstrap.urls import IN_PROCESS, Urls, engine_of, parse_urls, sqlite_path
from offprompt.config import Settings, load_settings, read_file
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.models.clocks import SystemClock
from offprompt.privacy.app_key import read_key
from offprompt.privacy.cipher import Cipher
from offprompt.privacy.keyring import Keyring
from offprompt.privacy.rewrapping import rewrap
from offprompt.protocols import Clock, Portable, Store
from offprompt.protocols.sealing import Sealable
from offprompt.records.places import masked
from offprompt.records.tables import SLOT_TABLES, TABLES
from offprompt.service.encryption import SealMark, mark_of, set_mark
from offprompt.service.subject_rows import scanned
from offprompt.stores._sealed_rows import SEALED_TABLES, looks_sealed


def app_key(settings: Settings) -> bytes:
    """The app's key.

    Raises   UsageError.
    """
    return read_key(
        file=settings.encryption_key_file, env=settings.encryption_key_env, command=settings.encryption_key_command
    )


def keyring_urls(settings: Settings) -> Urls:
    """Where the keyring is.

    Raises   UsageError if it is not said, or is no place for one.
    """
    if not settings.encryption_keyring:
        raise UsageError(
            "a key is set, and no keyring: set encryption_keyring to a file, or a PostgreSQL, that is in no backup of "
            "the store"
        )
    urls = parse_urls(settings.encryption_keyring)
    if urls.slots is not None or urls.vectors is not None or urls.memories == IN_PROCESS:
        raise UsageError("encryption_keyring is one file or one PostgreSQL URL; give one that stays")
    return urls


def open_keyring(settings: Settings, clock: Clock, key: bytes, *, create: bool) -> Keyring:
    """The keyring that the settings name.

    Raises   NotFoundError if there is none and it is not to be made; UsageError if the key is not its; BackendError.
    """
    store = _keyring_store(settings, clock, create=create)
    try:
        return Keyring(store, key, clock, create=create)
    except BaseException:
        store.close()
        raise


def _keyring_store(settings: Settings, clock: Clock, *, create: bool) -> Store:
    url, where = keyring_urls(settings).memories, masked(settings.encryption_keyring)
    if engine_of(url) == "sqlite" and not create and not sqlite_path(url).exists():
        raise NotFoundError(f"there is no keyring at {where}; correct encryption_keyring, or restore its backup")
    return open_store(url, clock, settings)


def begin(url: str | None, config: str | None) -> None:
    """Mark a store that holds what is not sealed, so that `seal_all` can seal it; once more changes nothing.

    Raises   as `bootstrap.open`; NotFoundError if there is no store; UsageError for a server.
    """
    file, settings = settings_at(config)
    where = located(url, read_file(file) if file is not None else {})
    if isinstance(where, str) and is_server(where):
        raise UsageError(f"{masked(where)} is a server; seal the store that it serves, where that is, while it rests")
    urls, clock = parse_urls(where) if isinstance(where, str) else Urls(os.fspath(where)), SystemClock()
    encryption = Encryption(urls, settings, clock)
    try:
        engines = open_engines(urls, clock, settings, create=False)
        try:
            encryption.mark_mixed(engines)
        finally:
            engines.slots.close()
            engines.main.close()
    finally:
        encryption.close()


def rotate(config: str | None, key: bytes) -> int:
    """Wrap the keyring of the settings by a new key of the app; see `privacy.rewrapping.rewrap`."""
    _, settings = settings_at(config)
    store = _keyring_store(settings, SystemClock(), create=False)
    try:
        return rewrap(store, app_key(settings), key)
    finally:
        store.close()


@contextmanager
def keyring_at(config: str | None) -> Generator[tuple[Keyring, Store]]:
    """The keyring of the settings, and what keeps it, closed afterwards."""
    _, settings = settings_at(config)
    clock = SystemClock()
    store = _keyring_store(settings, clock, create=False)
    try:
        yield Keyring(store, app_key(settings), clock), store
    finally:
        store.close()


def settings_at(config: str | None) -> tuple[Path | None, Settings]:
    """The config file in force, and the settings."""
    file = Path(config) if config is not None else config_file(os.environ)
    return file, load_settings(environ=os.environ, file=file)


class Encryption:
    """What is known before a store is opened: the key, and the keyring if there is one.

    Raises   UsageError, UnsupportedError; then nothing was opened or made.
    """

    def __init__(self, urls: Urls, settings: Settings, clock: Clock) -> None:
        self._urls, self._settings, self._clock = urls, settings, clock
        self.key = app_key(settings)
        Cipher(self.key)  # without the library nothing is opened
        own = keyring_urls(settings)
        if own.place == Urls(urls.memories).place:
            raise UsageError("encryption_keyring is the store itself; give the keyring a place of its own")
        if urls.vectors is not None:
            raise UnsupportedError(
                f"vectors={masked(urls.vectors)} would hold vectors of sealed memories, which tell what they say; with "
                "a keyring leave vectors out: memories are searched in this process"
            )
        try:
            self._keyring = open_keyring(settings, clock, self.key, create=False)
        except NotFoundError:
            self._keyring = None

    def seal(self, engines: Engines) -> None:
        """Let engines that were just opened seal what they keep. An empty store is marked; its keyring made if need be.

        Raises   UsageError if the store is of another keyring, or holds what is not sealed; NotFoundError if its
                 keyring is not there. Then nothing was changed.
        """
        mark = mark_of(engines.main)
        if mark is None:
            _check_empty(engines)
        keyring = self._keyring
        if keyring is None and mark is not None:
            raise NotFoundError(
                f"the store {self._urls} is sealed by the keyring {mark.keyring}, and there is none at "
                f"{masked(self._settings.encryption_keyring)}; correct encryption_keyring, or restore its backup"
            )
        if keyring is None:
            keyring = self._keyring = open_keyring(self._settings, self._clock, self.key, create=True)
        if mark is None:
            mark = SealMark(keyring.id)
            set_mark(engines.main, mark)
        if mark.keyring != keyring.id:
            raise UsageError(
                f"the store {self._urls} is sealed by the keyring {mark.keyring}, and encryption_keyring names "
                f"{keyring.id}; give its own"
            )
        keyring.is_mixed = mark.state == "mixed"
        for engine in (engines.main, engines.slots):
            if isinstance(engine, Sealable):
                engine.seal_with(keyring)

    def mark_mixed(self, engines: Engines) -> None:
        """Mark a store that holds what is not sealed; the keyring is made if need be.

        Raises   UsageError for a row that would be taken for a sealed one. Then nothing was changed.
        """
        mark = mark_of(engines.main)
        if mark is not None:
            return
        _check_looks(engines)
        if self._keyring is None:
            self._keyring = open_keyring(self._settings, self._clock, self.key, create=True)
        set_mark(engines.main, SealMark(self._keyring.id, "mixed"))

    def close(self) -> None:
        """Let go of the keyring, where no store was opened."""
        if self._keyring is not None:
            self._keyring.close()


def _check_looks(engines: Engines) -> None:
    for name in SEALED_TABLES:
        engine = engines.slots if name in SLOT_TABLES else engines.main
        found = scanned(engine, name) if isinstance(engine, Portable) else ()
        if (row := next((one for one in found if looks_sealed(name, one)), None)) is not None:
            key = TABLES[name].key_of(row)
            raise UsageError(
                f"the row {key} of table {name} begins as what is sealed does (U+001F, `sealed:`); "
                "change or erase it while no keyring is set, then run offprompt encrypt again; nothing was changed"
            )


def _check_empty(engines: Engines) -> None:
    held = [name for name in ("memories", "sessions", "digest_keys") if engines.main.scan(name, limit=1)]
    if isinstance(engines.slots, Portable) and engines.slots.scan("slots", limit=1):
        held.append("slots")
    if held:
        raise UsageError(
            f"the store holds what is not sealed ({', '.join(held)}), and a keyring is set; seal it: "
            "offprompt encrypt, or leave the encryption settings out"
        )
