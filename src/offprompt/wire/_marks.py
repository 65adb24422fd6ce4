"""The marks that models set around calls and thoughts, of all families."""

from __future__ import annotations

import re
from typing import Final

BAR: Final = "[｜|]"
JOIN: Final = "[▁_]"
NAME: Final = r"[^\W\d][\w.-]{0,127}"
"""A tool's name in text that is no JSON."""

_PAIRED: Final = (
    "tool_calls?",
    "TOOLCALL",
    "function_calls?",
    "(?:seed|minimax):tool_call",
    "longcat_tool_call",
    rf"{BAR}DSML{BAR}function_calls",
    rf"{BAR}DSML{BAR}tool_calls",
)
OPEN_FRAME: Final = "|".join(
    (
        *(f"<{tag}>" for tag in _PAIRED),
        rf"<{BAR}tool{JOIN}calls{JOIN}(?:section{JOIN})?begin{BAR}>",
        r"<\|tool_call(?:_start)?\|?>",
        r"<\|python_(?:tag|start)\|>",
        r"\[TOOL_(?:CALLS|REQUEST)\]",
        r"<\|START_ACTION\|>",
        r"<\|tools_prefix\|>",
        r"<\|action_start\|>\s{0,9}(?:<\|(?:plugin|interpreter)\|>)?",
        r"<start_function_call>",
        r"<call>",
        r"\bfunctools(?=\[)",
    )
)
CLOSE_FRAME: Final = "|".join(
    (
        *(f"</{tag}>" for tag in _PAIRED),
        rf"<{BAR}tool{JOIN}calls?{JOIN}(?:section{JOIN})?end{BAR}>",
        r"<tool_call\|>",
        r"<\|python_end\|>",
        r"\[END_TOOL_REQUEST\]",
        r"<\|END_ACTION\|>",
        r"<\|tools_suffix\|>",
        r"<\|action_end\|>",
        r"<end_function_call>",
        r"</call>",
        r"</function>",
        r"<\|call\|>",
        r"<\|eom_id\|>",
        r"<\|eot_id\|>",
    )
)

_END_OF_CHANNEL: Final = r"(?=<\|(?:end|start|channel|call|return)\|>)"
THOUGHTS: Final = (
    (r"<think(?:ing)?>", r"</think(?:ing)?>"),
    (r"<seed:think>", r"</seed:think>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<\|channel>thought\b", r"<channel\|>"),
    (r"<\|channel\|>\s{0,9}analysis(?![a-z])", _END_OF_CHANNEL),
)
"""Opening and end of a thought, family by family; an end without an opening ends a thought that the prompt opened."""

THOUGHT_ENDS: Final = r"</think(?:ing)?>|</seed:think>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"

CLOSING = re.compile(CLOSE_FRAME, re.IGNORECASE)
