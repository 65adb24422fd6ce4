"""Which converter reads a document, by the end of its name."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from offprompt.recall.convert.converted import Converted, Media, checked_length, refused
from offprompt.recall.convert.plain import decoded

ENDINGS: Final[dict[str, Media]] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".rst": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
}

CONVERTER: Final = 1
"""The version of what converts and parts documents: under another one each is read anew."""


def media_of(name: str) -> Media:
    """What a document is, by its name.

    Raises   UsageError for what there is no converter of.
    """
    ending = PurePosixPath(name).suffix.lower()
    if ending not in ENDINGS:
        raise refused(f"there is no converter for {ending or 'a name without an ending'}", f"give {', '.join(ENDINGS)}")
    return ENDINGS[ending]


def converted(name: str, data: bytes) -> Converted:
    """The document as text.

    Raises   UsageError for what cannot be read, or says nothing; UnsupportedError where an extra is not installed.
    """
    media = media_of(name)
    found = _converted(media, data)
    if not found.text.strip():
        raise refused("it says nothing", "give a document with text")
    return found


def _converted(media: Media, data: bytes) -> Converted:
    if media == "html":
        from offprompt.recall.convert.html import html_converted  # noqa: PLC0415 - the extra, where it is asked for

        return html_converted(data)
    if media == "pdf":
        from offprompt.recall.convert.pdf import pdf_converted  # noqa: PLC0415

        return pdf_converted(data)
    if media == "docx":
        from offprompt.recall.convert.docx import docx_converted  # noqa: PLC0415

        return docx_converted(data)
    return Converted(checked_length(decoded(data)), media, markdown=media == "markdown")
