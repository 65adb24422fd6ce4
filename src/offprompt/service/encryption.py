"""What is sealed of a store: its mark, sealing what was there before, looking for what nobody can open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from offprompt.errors import ConflictError, UsageError
from offprompt.protocols import Notes, Scourable
from offprompt.protocols.sealing import ENCRYPTION, Owner, ResealWork, Sealable, Sealer
from offprompt.records import Finding, Scope
from offprompt.records.tables import SLOT_TABLES, TABLES

if TYPE_CHECKING:
    from offprompt.service.parts import Parts

PAGE: Final = 500


class SealMark(msgspec.Struct, frozen=True):
    """A store's mark. keyring: its id. state: `mixed` while rows from before may not be sealed."""

    keyring: str
    state: Literal["on", "mixed"] = "on"


@dataclass(slots=True)
class Sealed:
    """What was looked at and done. lost: rows that nobody can open, by the owner of the key that was destroyed."""

    rows: int = 0
    plain: int = 0
    sealed: int = 0
    removed: int = 0
    lost: Counter[Owner] = field(default_factory=Counter[Owner])


def mark_of(notes: Notes) -> SealMark | None:
    """The store's mark; None: nothing in it is sealed."""
    text = notes.note(ENCRYPTION)
    return None if text is None else msgspec.json.decode(text, type=SealMark)


def set_mark(notes: Notes, mark: SealMark) -> None:
    """Mark the store.

    Raises   ConflictError if it carries another keyring's mark.
    """
    was = notes.note(ENCRYPTION)
    if was is not None and msgspec.json.decode(was, type=SealMark).keyring != mark.keyring:
        raise ConflictError(f"the store is sealed by the keyring {was} already; nothing was changed")
    if not notes.set_note(ENCRYPTION, msgspec.json.encode(mark).decode(), was=was):
        raise ConflictError("another process just marks the store as sealed; try again")


def check_plain(notes: Notes, place: str) -> None:
    """Nothing, if nothing in the store is sealed.

    Raises   UsageError.
    """
    if (mark := mark_of(notes)) is not None:
        raise UsageError(
            f"the store {place} is sealed by the keyring {mark.keyring}; set encryption_keyring, and one of "
            "encryption_key_file, encryption_key_env, encryption_key_command"
        )


def sealer_in(store: object) -> Sealer | None:
    """What seals a store's records."""
    return store.sealer if isinstance(store, Sealable) else None


def seal_all(parts: Parts, *, anew: bool = False, progress: Callable[[str, int], object] | None = None) -> Sealed:
    """Seal what is not sealed, page by page, while the store is used by whoever has its keyring.

    anew     also what is not under its owner's current key: after `keyring rotate --user`.
    progress called with a table's name and how many of its rows were looked at.
    Killed   at any point: the same call does the rest; until it is done the store is `mixed`.
    Raises   UsageError if nothing seals here; BackendError for a row that was altered.
    """
    sealer = sealer_in(parts.main)
    if sealer is None:
        raise UsageError("nothing seals this store: set encryption_keyring and where the app's key comes from")
    # Also what was written past the keyring is opened, in part plain, and sealed whole.
    was, sealer.is_mixed = sealer.is_mixed, True
    try:
        done = _worked(parts, "anew" if anew else "seal", progress)
        set_mark(parts.main, SealMark(sealer.id))
        was = False
    finally:
        sealer.is_mixed = was
    return done


def scoured(parts: Parts) -> list[str]:
    """Overwrite what rows leave behind that were sealed just now, as far as the engines can; what is not reached."""
    left = ["backups, exports and copies made before: what is in them is not sealed"]
    for engine in (parts.main, parts.slots):
        if isinstance(engine, Scourable) and (engine is parts.main or parts.slots is not parts.main):
            left += engine.scour().not_reached
    return left


def purge(parts: Parts) -> Sealed:
    """Remove rows that nobody can open: of who was erased, and came back with an older copy of the store."""
    return _worked(parts, "purge", None)


def take_up(parts: Parts) -> list[Scope]:
    """What a backup that took the store's place asks for: rows that nobody can open go; whose they were."""
    sealer, mark = sealer_in(parts.main), mark_of(parts.main)
    if sealer is None or mark is None:
        return []
    sealer.is_mixed = mark.state == "mixed"
    lost = purge(parts).lost
    ids: dict[str, Callable[[str, str], Scope]] = {
        "user": lambda app, value: Scope(app, user=value),
        "agent": lambda app, value: Scope(app, agent=value),
        "session": lambda app, value: Scope(app, session=value),
        "space": lambda app, value: Scope(app, space=value),
    }
    return [ids[kind](app, value) for app, kind, value in lost if kind in ids]


def findings(parts: Parts, *, fix: bool = False) -> list[Finding]:
    """What `doctor` says of what is sealed. fix: remove rows that nobody can open. Cost: reads all rows."""
    sealer = sealer_in(parts.main)
    if sealer is None:
        return []
    done = _worked(parts, "purge" if fix else "look", None)
    found: list[Finding] = []
    if done.plain:
        what = f"{done.plain:,} of {done.rows:,} rows are not sealed"
        state: Literal["warn", "fail"] = "warn" if sealer.is_mixed else "fail"
        found.append(Finding("encryption", state, what, "seal them: offprompt encrypt"))
    else:
        found.append(Finding("encryption", "ok", f"what is stored is sealed, by the keyring {sealer.id}"))
    if _is_beside(parts.place, parts.settings.encryption_keyring):
        what = "the keyring lies in the store's folder: one backup of it takes both, and erasing reaches no backup then"
        found.append(Finding("keyring", "warn", what, "move it to another folder, and set encryption_keyring"))
    files = (parts.settings.encryption_keyring, parts.settings.encryption_key_file)
    for path, mode in [(path, mode) for path in files if (mode := _open_to_others(path))]:
        found.append(Finding("keyring rights", "warn", f"{path} is open to others ({mode:03o})", f"chmod 600 {path}"))
    if count := sum(done.lost.values()):
        what = f"{count:,} rows are of whom was erased: the keys that sealed them are destroyed"
        if fix:
            found.append(Finding("erased", "ok", f"{what}; they were removed"))
        else:
            found.append(Finding("erased", "warn", what, "let doctor remove them (--fix)"))
    return found


def _is_beside(place: str, keyring: str) -> bool:
    """Whether both are files of one folder."""
    return "://" not in place + keyring and Path(place).parent == Path(keyring).expanduser().absolute().parent


def _open_to_others(path: str) -> int:
    """The mode of a file that others than its owner may read or write; else 0."""
    try:
        mode = 0 if not path or "://" in path else Path(path).expanduser().stat().st_mode & 0o777
    except OSError:
        return 0
    return mode if mode & 0o077 else 0


def _worked(parts: Parts, work: ResealWork, progress: Callable[[str, int], object] | None) -> Sealed:
    done = Sealed()
    # Events of an engine that keeps slots alone are moved to the log when it is read.
    for name in TABLES:
        engine: object = parts.slots if name in SLOT_TABLES else parts.main
        if isinstance(engine, Sealable):
            for rows in _pages(engine, name, work, done):
                if progress is not None:
                    progress(name, rows)
    return done


def _pages(engine: Sealable, name: str, work: ResealWork, done: Sealed) -> Iterator[int]:
    """Work through a table; how many of its rows were looked at, page by page."""
    after, rows = None, 0
    while True:
        page = engine.reseal(name, work, after=after, limit=PAGE)
        rows += page.rows
        done.rows, done.plain = done.rows + page.rows, done.plain + page.plain
        done.sealed, done.removed = done.sealed + page.sealed, done.removed + page.removed
        done.lost.update(page.lost)
        yield rows
        if (after := page.after) is None:
            return
