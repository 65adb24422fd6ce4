"""What stands for what left the prompt: stubs of long texts, the line that says that turns left."""

from __future__ import annotations

from typing import Final

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
_LEFT_OUT: Final = {"en": "\n… {chars:,} characters left out …\n", "zh": "\n……省略 {chars:,} 字符……\n"}
_KINDS: Final = {
    "en": {"tool": "tool result", "observation": "tool result", "document": "document"},
    "zh": {"tool": "工具结果", "observation": "工具结果", "document": "文档"},
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
    head = _fitting(body_text, head_tokens)
    tail = _fitting(body_text[max(head, len(body_text) - MAX_CHARS_PER_TOKEN * tail_tokens) :][::-1], tail_tokens)
    first = _STUB[words].format(
        handle=handle,
        kind=_KINDS[words].get(kind, kind),
        chars=len(body_text),
        lines=body_text.count("\n") + 1,
    )
    missing = len(body_text) - head - tail
    middle = _LEFT_OUT[words].format(chars=missing) if missing else ""
    return first + body_text[:head] + middle + body_text[len(body_text) - tail :]


def gone_line(language: str = "en") -> str:
    """The line that stands at the head of a history whose oldest turns left."""
    return _GONE["zh" if language == "zh" else "en"]


def _fitting(text: str, tokens: int) -> int:
    """How many leading characters fit into that many estimated tokens."""
    left = float(tokens)
    for at, char in enumerate(text):
        left -= _HAN_TOKENS if char >= _HAN_FROM else _OTHER_TOKENS
        if left < 0:
            return at
    return len(text)
