"""The keyring of a store, as the settings say."""

from __future__ import annotations

from pathlib import Path

from offprompt.bootstrap.engines import Engines, open_store
from offprompt.bootstrap.urls import IN_PROCESS, Urls, engine_of, parse_urls, sqlite_path
from offprompt.config import Settings
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.privacy.app_key import read_key
from offprompt.privacy.keyring import Keyring
from offprompt.protocols import Clock, Portable
from offprompt.protocols.sealing import Sealable
from offprompt.records.places import masked
from offprompt.service.encryption import SealMark, mark_of, set_mark

OFF = {
    "encryption_keyring": "",
    "encryption_key_file": "",
    "encryption_key_env": "",
    "encryption_key_command": "",
}
"""The settings of a store of which nothing is sealed."""


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
    urls = keyring_urls(settings)
    where = masked(settings.encryption_keyring)
    if engine_of(urls.memories) == "sqlite" and not create and not sqlite_path(urls.memories).exists():
        raise NotFoundError(f"there is no keyring at {where}; correct encryption_keyring, or restore its backup")
    store = open_store(urls.memories, clock, settings)
    try:
        return Keyring(store, key, clock, create=create)
    except BaseException:
        store.close()
        raise


class Encryption:
    """What is known before a store is opened: the key, and the keyring if there is one.

    Raises   UsageError, UnsupportedError; then nothing was opened or made.
    """

    def __init__(self, urls: Urls, settings: Settings, clock: Clock) -> None:
        self._urls, self._settings, self._clock = urls, settings, clock
        self.key = app_key(settings)
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

    def close(self) -> None:
        """Let go of the keyring, where no store was opened."""
        if self._keyring is not None:
            self._keyring.close()


def beside(settings: Settings, urls: Urls) -> bool:
    """Whether keyring and store are files of one folder, which one backup would take."""
    if engine_of(urls.memories) != "sqlite" or not settings.encryption_keyring:
        return False
    own = keyring_urls(settings)
    return engine_of(own.memories) == "sqlite" and _folder(own.memories) == _folder(urls.memories)


def _folder(url: str) -> Path:
    return sqlite_path(url).absolute().parent


def _check_empty(engines: Engines) -> None:
    held = [name for name in ("memories", "sessions", "digest_keys") if engines.main.scan(name, limit=1)]
    if isinstance(engines.slots, Portable) and engines.slots.scan("slots", limit=1):
        held.append("slots")
    if held:
        raise UsageError(
            f"the store holds what is not sealed ({', '.join(held)}), and a keyring is set; seal it: "
            "offprompt encrypt, or leave the encryption settings out"
        )
