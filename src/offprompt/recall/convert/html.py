"""HTML as Markdown, by markdownify over Beautiful Soup: what is seen, without scripts, styles and what is hidden."""

from __future__ import annotations

import re
from typing import Any, Final

from offprompt.errors import UnsupportedError
from offprompt.recall.convert.converted import MALFORMED, Converted, checked_length, refused
from offprompt.recall.convert.plain import decoded
from offprompt.records.document import label_of

UNSEEN: Final = (
    *(
        "title",
        "script",
        "style",
        "noscript",
        "template",
        "head",
        "iframe",
        "object",
        "embed",
        "svg",
        "canvas",
        "audio",
    ),
    *("video", "select", "textarea", "button", "input", "datalist", "dialog", "map"),
)
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CHARSETS: Final = re.compile(r"iso-8859-\d\d?|windows-125\d|koi8-[ru]|gb2312|gbk|gb18030|big5|shift_jis|euc-(?:jp|kr)")
_ALSO: Final = {"iso-8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
"""As browsers read them, by the Encoding Standard (WHATWG)."""

_HIDING: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$)"
    r"|font-size\s*:\s*0(?:\.0+)?[a-z%]*\s*(?:;|$)|(?:text-indent|left|top)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
_PROLOG: Final = re.compile(r"\s*<\?xml[^>]{0,200}\?>")
_BLANKS: Final = re.compile(r"\n{3,}")


def html_converted(data: bytes) -> Converted:
    """The page as Markdown.

    Raises   UsageError for what cannot be read; UnsupportedError if the extra is not installed.
    """
    return markdown_of(_text(data))


def markdown_of(html: str) -> Converted:
    """HTML text as Markdown; see `html_converted`."""
    try:
        import markdownify  # noqa: PLC0415 - only who ingests such files needs it
        from bs4 import BeautifulSoup  # noqa: PLC0415
        from bs4.element import Comment, PreformattedString  # noqa: PLC0415
    except ImportError as exc:
        raise UnsupportedError("HTML and DOCX need an extra: pip install 'offprompt[documents]'") from exc
    try:
        soup: Any = BeautifulSoup(f"<body>{_PROLOG.sub('', html, count=1)}", "html.parser")
        title = label_of(soup.title.get_text()) if soup.title is not None else ""
        for unseen in soup.find_all(UNSEEN):
            unseen.decompose()
        for unseen in [text for text in soup.find_all(string=True) if isinstance(text, (Comment, PreformattedString))]:
            unseen.extract()
        for unseen in soup.find_all(_is_hidden):
            unseen.decompose()
        converter: Any = markdownify.MarkdownConverter(
            heading_style="atx",
            bullets="-",
            strip=["a", "img"],
            escape_asterisks=False,
            escape_underscores=False,
            table_infer_header=True,
        )
        text = _BLANKS.sub("\n\n", str(converter.convert_soup(soup)).replace("\r", "")).strip()
    except RecursionError:
        raise refused("its elements are nested too deep", "give a plainer page") from None
    except MALFORMED as exc:
        raise refused(f"it cannot be read as HTML ({type(exc).__name__})", "open and save it anew") from exc
    return Converted(checked_length(text), "html", title)


def _is_hidden(tag: Any) -> bool:
    given: dict[str, Any] = tag.attrs or {}
    hidden = "hidden" in given or str(given.get("aria-hidden", "")).lower() == "true"
    return hidden or _HIDING.search(str(given.get("style", ""))[:2000]) is not None


def _text(data: bytes) -> str:
    found = _CHARSET.search(data[:4096])
    named = found[1].decode("ascii").lower() if found is not None else ""
    if _CHARSETS.fullmatch(named) is not None:
        try:
            return data.decode(_ALSO.get(named, named)).replace("\0", "")
        except (LookupError, UnicodeError):
            pass
    return decoded(data)
