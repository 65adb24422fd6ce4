"""Whether a call in a fence is made, or only shown: the one rule for examples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.wire._marks import CLOSE_FRAME, OPEN_FRAME

LINE_CHARS: Final = 300
"""How much of the line before and behind a fence is looked at."""

_FRAMES = re.compile(rf"{OPEN_FRAME}|{CLOSE_FRAME}|[\s,;\[\]]+", re.IGNORECASE)
_SHOWN = re.compile(
    r"\bexamples?\b|\be\.\s?g\.|\bfor instance\b|\bsuch as\b|\blike (?:this|so|that)\b|\blooks? like\b|\bformat\b"
    r"|\bsyntax\b|\btemplate\b|\bschema\b|\bwould\b|\bcould\b|\byou (?:can|may|might|should|write|wrote|said|sent)\b"
    r"|\bhow to\b|\busage\b|\bdocs?\b|\bdocumentation\b|\bdo(?:n't| not) (?:run|call)\b|\bnot (?:calling|running)\b"
    r"|例如|比如|例子|示例|举例|样例|范例|格式|语法|模板|用法|形如|类似|如下所示|这样写|[你您](?:可以|能|说|写|发)|文档|不要执行|不会执行",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"[:：]\W*\Z|\bI(?:'|’)?(?:ll| will|(?:'|’)m| am|(?:'|’)ve| have| need| can| should)\b|\blet me\b|\bnoted\b"
    r"|\b(?:saved?|calling|saving|storing|writing|reading|searching|looking|checking|updating|forgetting|remembering)\b"
    r"|\b(?:sure|ok|okay|done|got it|action|call)\b"
    r"|我(?:来|会|将|要|先|去|这就|现在|已|记)|让我|正在|好的|记下|调用|保存|执行|查询|已",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence that holds data: from its first mark to behind its last."""

    start: int
    end: int


def runs(
    text: str, fences: Sequence[Fence], thoughts: Sequence[tuple[int, int]], calls: Sequence[tuple[int, int]]
) -> list[bool]:
    """For each fence whether the calls in it are made.

    They are if the reply is nothing else (thoughts, calls and other fences aside), or if the line before the fence
    announces them: it ends with a colon or says what the model does (`I'll`, `let me`, `saving`, 我来, 正在, 保存 …).
    They are not if the line before or behind speaks of an example (`for example`, `looks like`, `would`, 例如, 格式 …),
    or if no line announces them. A fence right behind another has the same line before it.
    """
    if not fences:
        return []
    if _is_all(text, [*thoughts, *calls, *((item.start, item.end) for item in fences)]):
        return [True] * len(fences)
    spoken = sorted([*thoughts, *calls])
    good: list[bool] = []
    last = 0
    at = 0
    for number, fence in enumerate(fences):
        while at < len(spoken) and spoken[at][1] <= fence.start:
            last = max(last, spoken[at][1])
            at += 1
        before = text[max(last, fence.start - LINE_CHARS) : fence.start].rstrip()
        before = before[before.rfind("\n") + 1 :]
        behind = text[fence.end : fence.end + LINE_CHARS].lstrip().partition("\n")[0]
        if not before and number and fences[number - 1].end == last:
            made = good[-1] and not _SHOWN.search(behind)
        else:
            made = not _SHOWN.search(before) and not _SHOWN.search(behind) and _SAID.search(before) is not None
        good.append(made)
        last = fence.end
    return good


def _is_all(text: str, spans: list[tuple[int, int]]) -> bool:
    last = 0
    for start, end in sorted(spans):
        if start > last and _FRAMES.sub("", text[last:start]):
            return False
        last = max(last, end)
    return not _FRAMES.sub("", text[last:])
