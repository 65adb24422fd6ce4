"""The documents at a path: one file, or a folder with all below it."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from offprompt.errors import NotFoundError, UsageError
from offprompt.recall.convert.choosing import media_of
from offprompt.records.document import label_of

MAX_NAME_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is a document by its name; why: what speaks against taking it, empty: nothing so far."""

    name: str
    path: Path
    why: str = ""

    def read(self, limit: int) -> bytes:
        """Its bytes.

        Raises   UsageError for more than the limit, for what is no file, and for what cannot be read.
        """
        if self.why:
            raise UsageError(self.why)
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise UsageError("it is no file but a device, pipe or socket; give a file")
                checked_size(about.st_size, limit)
                data = file.read(limit + 1)
        except OSError as exc:
            raise UsageError(f"it cannot be read: {exc.strerror or exc}; let its owner allow it") from exc
        checked_size(len(data), limit)
        return data


def checked_size(size: int, limit: int) -> None:
    """Nothing, if so many bytes are taken.

    Raises   UsageError.
    """
    if size > limit:
        raise UsageError(f"it has {size:,} bytes, the limit is {limit:,}; split it, or raise document_bytes")


def checked_document(name: object) -> str:
    """A document's name in NFC: 1 to MAX_NAME_BYTES bytes of printable text, with / between folders.

    Raises   UsageError.
    """
    way_out = "rename it, or give another name"
    if not isinstance(name, str):
        raise UsageError(f"the name of the document is a {type(name).__name__}; give a text, such as name='lease.pdf'")
    text = unicodedata.normalize("NFC", name)
    shown = label_of(text.encode("utf-8", "replace").decode())
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise UsageError(f"the name of the document {shown!r} is not UTF-8; {way_out}")
    if not 0 < len(text.encode()) <= MAX_NAME_BYTES or not text.isprintable() or text != text.strip():
        raise UsageError(f"the name of the document {shown!r} is not 1 to {MAX_NAME_BYTES} printable bytes; {way_out}")
    return text


@dataclass(frozen=True, slots=True)
class Walked:
    """The documents at a path, by name. folder: what all their names begin with; empty: it is one file."""

    documents: tuple[Found, ...]
    folder: str = ""


def walked(path: str | os.PathLike[str], name: str | None = None) -> Walked:
    """The documents at a path; of a folder with its own name in front.

    name     what the one document, or the folder, is called instead.
    Links    inside of a folder are not followed; hidden files and folders are told of and not looked into.
    Raises   NotFoundError if there is nothing at the path; UsageError if it may not be looked at.
    """
    given = Path(path)
    try:
        real = given.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError, ValueError) as exc:
        if isinstance(exc, OSError) and exc.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise UsageError(f"{label_of(given)} cannot be looked at: {exc.strerror}") from exc
        raise NotFoundError(f"there is no file or folder {label_of(given)!r}; correct the path") from exc
    called = name if name is not None else (given.name if given.name not in ("", "..") else real.name)
    if not stat.S_ISDIR(mode):
        return Walked((Found(called, real),))
    called = called or "documents"
    return Walked(tuple(sorted(_below(real, called), key=lambda one: one.name)), f"{called}/")


def _below(folder: Path, prefix: str) -> Iterator[Found]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as exc:
        yield Found(prefix, folder, f"the folder cannot be read: {exc.strerror or exc}; let its owner allow it")
        return
    for entry in entries:
        name, path = f"{prefix}/{entry.name}", Path(entry.path)
        if entry.is_symlink():
            yield Found(name, path, "it is a link, and what it leads to may lie elsewhere; give that itself")
        elif entry.name.startswith("."):
            yield Found(name, path, "it is hidden; give it by its own path if it is meant")
        elif entry.is_dir():
            yield from _below(path, name)
        else:
            yield Found(name, path, _no_converter(name))


def _no_converter(name: str) -> str:
    try:
        media_of(name)
    except UsageError as exc:
        return str(exc)
    return ""
