"""What stands for what left the prompt: stubs of long texts, the line that says that turns left."""

from __future__ import annotations

from typing import Any, Final

STUB_HEAD_TOKENS: Final = 100
STUB_TAIL_TOKENS: Final = 40
MAX_CHARS_PER_TOKEN: Final = 4

_HAN_TOKENS: Final = 0.63
_OTHER_TOKENS: Final = 0.25
_HAN_FROM: Final = "\u2e80"

_STUB: Final = {
    "en": "{handle} {kind}, {chars:,} characters, {lines:,} lines, kept outside; mem_read shows it.\n",
    "zh": "{handle} {kind}，{chars:,} 字符，{lines:,} 行，存于上下文之外；mem_read 可查看。\n",
}
_CUT: Final = {
    "en": "{kind}, {chars:,} characters, {lines:,} lines; the middle could not be kept and is not shown.\n",
    "zh": "{kind}，{chars:,} 字符，{lines:,} 行；中间部分未能保存，未显示。\n",
}
_LEFT_OUT: Final = {"en": "\n… {chars:,} characters left out …\n", "zh": "\n……省略 {chars:,} 字符……\n"}
_KINDS: Final = {
    "en": {"tool": "tool result", "observation": "tool result", "document": "document"},
    "zh": {"tool": "工具结果", "observation": "工具结果", "document": "文档"},
}
_GONE_NOW: Final = {
    "en": "(Earlier turns of this conversation are not shown.)",
    "zh": "（本对话较早的内容未显示。）",
}
_GONE: Final = {
    "en": "(Earlier turns of this conversation are not shown; mem_search finds them.)",
    "zh": "（本对话较早的内容未显示；可用 mem_search 查找。）",
}


def stub_text(
    body_text: str,
    *,
    handle: str,
    kind: str,
    language: str = "en",
    head_tokens: int = STUB_HEAD_TOKENS,
    tail_tokens: int = STUB_TAIL_TOKENS,
) -> str:
    """What stands for a long body: its handle, type and size, its head and tail, and how to see it.

    kind      `tool`, `observation`, `document`; any other word stands as it is.
    Units     head and tail by estimate, 0.63 tokens a Han character and 0.25 any other; chars and lines of the body.
    Stable    the same arguments give the same bytes.
    """
    words = "zh" if language == "zh" else "en"
    first = _STUB[words].format(handle=handle, **_named(body_text, kind, words))
    return first + _ends(body_text, head_tokens, tail_tokens, words)[0]


def cut_text(text: str, *, kind: str, language: str = "en", tokens: int) -> str:
    """What stands for a long text that nothing could keep: its head and tail, and that the middle is not there.

    tokens    of it, by the same estimate: two thirds of them head, one third tail. A text that has no more stays.
    """
    words = "zh" if language == "zh" else "en"
    ends, missing = _ends(text, tokens * 2 // 3, tokens // 3, words)
    first = _CUT[words].format(**_named(text, kind, words))
    return first[:1].upper() + first[1:] + ends if missing else text


def _named(text: str, kind: str, words: str) -> dict[str, Any]:
    """What a text is called, and how long it is."""
    return {"kind": _KINDS[words].get(kind, kind), "chars": len(text), "lines": text.count("\n") + 1}


def _ends(text: str, head_tokens: int, tail_tokens: int, words: str) -> tuple[str, int]:
    """Head and tail of a text with a line between them, and how many characters that leaves out."""
    head = _fitting(text, head_tokens)
    tail = _fitting(text[max(head, len(text) - MAX_CHARS_PER_TOKEN * tail_tokens) :][::-1], tail_tokens)
    missing = len(text) - head - tail
    middle = _LEFT_OUT[words].format(chars=missing) if missing else ""
    return text[:head] + middle + text[len(text) - tail :], missing


def gone_line(language: str = "en", *, found: bool = True) -> str:
    """The line that stands at the head of a history whose oldest turns left; found: mem_search finds them."""
    return (_GONE if found else _GONE_NOW)["zh" if language == "zh" else "en"]


def _fitting(text: str, tokens: int) -> int:
    """How many leading characters fit into that many estimated tokens."""
    left = float(tokens)
    for at, char in enumerate(text):
        left -= _HAN_TOKENS if char >= _HAN_FROM else _OTHER_TOKENS
        if left < 0:
            return at
    return len(text)
