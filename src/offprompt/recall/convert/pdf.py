"""PDF as text with its pages, by pypdf."""

from __future__ import annotations

import io
import logging
import time
from typing import Any, Final

from offprompt.errors import UnsupportedError, UsageError
from offprompt.recall.convert.converted import MALFORMED, MAX_CHARS, Converted, refused
from offprompt.records.document import label_of

MAX_PAGES: Final = 5000
MAX_SECONDS: Final = 120.0
"""Looked at between pages: a file can be made so that it takes for ever."""

BETWEEN: Final = "\n\n"


def pdf_converted(data: bytes) -> Converted:
    """The text of its pages.

    Hidden   text behind pictures, or white on white, cannot be told from other text.
    Raises   UsageError for what is encrypted, too long, or holds no text; UnsupportedError without the extra.
    """
    try:
        import pypdf  # noqa: PLC0415 - only who ingests such files needs it
        from pypdf.errors import DependencyError, LimitReachedError, PyPdfError  # noqa: PLC0415
    except ImportError as exc:
        raise UnsupportedError("PDF needs an extra: pip install 'offprompt[documents]'") from exc
    logging.getLogger("pypdf").addHandler(logging.NullHandler())  # what it finds odd is not for standard error
    try:
        reader: Any = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise refused("it is encrypted", "save it without a password")
        if (pages := len(reader.pages)) > MAX_PAGES:
            raise refused(f"it has {pages:,} pages, the limit is {MAX_PAGES:,}", "split it")
        text, starts = _read(reader)
        title = label_of(reader.metadata.title or "") if reader.metadata is not None else ""
    except UsageError:
        raise
    except LimitReachedError as exc:
        raise refused("it unpacks to more than is safe", "save it anew without what it carries along") from exc
    except DependencyError as exc:
        raise refused("it is encrypted in a way that cannot be opened here", "save it without a password") from exc
    except (PyPdfError, *MALFORMED) as exc:
        raise refused(f"it cannot be read as PDF ({type(exc).__name__})", "open and save it anew") from exc
    if not text.strip():
        raise refused("it holds no text, as scans do", "put it through text recognition first")
    return Converted(text, "pdf", title, starts, markdown=False)


def _read(reader: Any) -> tuple[str, tuple[int, ...]]:
    """The text of all pages, and where each begins."""
    parts: list[str] = []
    starts: list[int] = []
    length, until = 0, time.monotonic() + MAX_SECONDS
    for page in reader.pages:
        text = str(page.extract_text()).replace("\0", "").replace("\r", "").encode("utf-8", "replace").decode()
        starts.append(length)
        parts.append(text + BETWEEN)
        length += len(parts[-1])
        if length > MAX_CHARS:
            raise refused(f"its text has more than {MAX_CHARS:,} characters", "split it")
        if time.monotonic() > until:
            raise refused(f"it takes more than {MAX_SECONDS:.0f} seconds to read", "split it, or save it anew")
    return "".join(parts), tuple(starts)
