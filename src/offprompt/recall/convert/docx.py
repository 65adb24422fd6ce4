"""Word documents (DOCX) as Markdown, by mammoth, which makes HTML of them."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any, Final
from zipfile import ZipFile

from offprompt.errors import UnsupportedError, UsageError
from offprompt.recall.convert.converted import MALFORMED, Converted, refused
from offprompt.recall.convert.html import markdown_of

MAX_UNPACKED: Final = 200_000_000
"""Bytes of all that is in the file, unpacked; what its directory says is what is read of each part."""

MAX_PARTS: Final = 10_000
MAX_XML: Final = 50_000_000
"""Bytes of one part of XML, which becomes many times as much in memory."""

STYLES: Final = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh\ncomment-reference => "


def docx_converted(data: bytes) -> Converted:
    """The document as Markdown, without its pictures.

    Raises   UsageError for what is encrypted, unpacks to too much, or cannot be read; UnsupportedError without the
             extra.
    """
    try:
        import mammoth  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - only who ingests such files needs it
    except ImportError as exc:
        raise UnsupportedError("DOCX needs an extra: pip install 'offprompt[documents]'") from exc
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise refused("it is encrypted, or of Word before 2007", "save it as .docx without a password")
    words: Any = mammoth
    try:
        with ZipFile(io.BytesIO(data)) as packed:
            _check(packed)
        html = words.convert_to_html(
            io.BytesIO(data),
            style_map=STYLES,
            include_embedded_style_map=False,
            external_file_access=False,
            convert_image=_no_picture,
        ).value
    except UsageError:
        raise
    except RecursionError:
        raise refused("its parts are nested too deep", "save it anew") from None
    except (zipfile.BadZipFile, *MALFORMED) as exc:
        raise refused(f"it cannot be read as DOCX ({type(exc).__name__})", "open and save it anew") from exc
    return replace(markdown_of(f"<body>{html}</body>"), media="docx")


def _no_picture(_: object) -> list[object]:
    return []


def _check(packed: ZipFile) -> None:
    """Nothing, if what is packed is no more than a document needs, and its XML declares nothing of its own.

    Raises   UsageError.
    """
    parts = packed.infolist()
    if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED:
        raise refused("it unpacks to more than is safe", "save it anew without its pictures")
    for part in parts:
        if part.flag_bits & 1:
            raise refused("it is encrypted", "save it without a password")
        if not part.filename.lower().endswith((".xml", ".rels")):
            continue
        if part.file_size > MAX_XML:
            raise refused(f"{part.file_size:,} bytes of text are more than is safe", "split it")
        content = packed.read(part).replace(b"\0", b"")  # in UTF-16 too
        if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
            raise refused("its XML declares entities, which no document of Word does", "open and save it anew")
