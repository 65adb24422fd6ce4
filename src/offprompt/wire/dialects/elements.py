"""Parameters as elements: Qwen3-coder, Seed-OSS, GLM, MiniMax-M2, DeepSeek V3.2, and `<invoke>` of any family."""

from __future__ import annotations

import re
from collections.abc import Collection

from offprompt.wire._calls import BadCall, known
from offprompt.wire._envelope import Dialect, Envelope
from offprompt.wire._literal import CUT
from offprompt.wire._marks import BAR, NAME
from offprompt.wire._named import Body, read_named
from offprompt.wire._parameters import Grammar, read_parameters
from offprompt.wire.dialects.tokens import read_function

_DSML = rf"(?:{BAR}DSML{BAR})?"
_QWEN = Grammar(
    opening=re.compile(r"<parameter=([^<>\n]{1,128})>"),
    at_line=re.compile(r"(?:(?<=\n)|(?<=\n ))<parameter="),
    closing=re.compile(r"</parameter>"),
    end=re.compile(r"</function>"),
    marks=re.compile(r"<function=|<(?:seed:)?tool_call>"),
)


def _named_grammar(prefix: str, call: str, parameter: str) -> Grammar:
    """Tags that have their name as an attribute."""
    return Grammar(
        opening=re.compile(
            rf"<{prefix}{parameter}\s+name\s*=\s*[\"']?([^\"'<>]{{1,128}})[\"']?"
            r"(?:\s+string\s*=\s*[\"'](true|false)[\"'])?\s*>"
        ),
        at_line=re.compile(rf"(?<=\n)<{prefix}{parameter}\s+name\s*="),
        closing=re.compile(rf"</{prefix}{parameter}>"),
        end=re.compile(rf"</{prefix}{call}>"),
        marks=re.compile(rf"<{prefix}{call}\s"),
    )


_INVOKES = {
    "": _named_grammar("", "invoke", "parameter"),
    "dsml": _named_grammar(f"{BAR}DSML{BAR}", "invoke", "parameter"),
    "function": _named_grammar("", "function", "param(?:eter)?"),
}
_GLM = Grammar(
    opening=re.compile(r"<arg_key>([^<>]{1,128})(?:</arg_key>)?\s*<arg_value>"),
    at_line=re.compile(r"(?<=\n)<arg_key>"),
    closing=re.compile(r"</arg_value>"),
    end=re.compile(r"</tool_call>"),
    marks=re.compile(r"<tool_call>|<arg_"),
)
_FUNCTION = re.compile(rf"<function=({NAME})(>?)\s*")
_NAMED = re.compile(rf"<{_DSML}(?:invoke|function)\s+name\s*=\s*[\"']?({NAME})[\"']?\s*(>?)\s*")
_BARE = re.compile(rf"<tool_call>\s*({NAME})\s*(?:<tool_sep>\s*)?(?=<arg_key>|</tool_call>|([{{｛]))")
_BARE_BOUND = re.compile(r"</tool_call>|(?=<tool_call>)")


def _function(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _FUNCTION.match(text, start)
    if header is None:
        return None
    if not header[2]:
        return _unclosed(text, start, header, _QWEN, names)
    if text.startswith("<parameter=", header.end()):
        return read_parameters(text, header[1], start, header.end(), _QWEN, names)
    return read_function(text, start, names)


def _invoke(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _NAMED.match(text, start)
    if header is None:
        return None
    tag = header[0]
    grammar = _INVOKES["function" if tag.startswith("<function") else "dsml" if "DSML" in tag[:8] else ""]
    if not header[2]:
        return _unclosed(text, start, header, grammar, names)
    return read_parameters(text, header[1], start, header.end(), grammar, names)


def _unclosed(
    text: str, start: int, header: re.Match[str], grammar: Grammar, names: Collection[str]
) -> Envelope | None:
    """An opening tag without its end: the name may be cut, or more than a name."""
    name = known(header[1], names)
    if name is None:
        return None
    end = grammar.end.search(text, header.end())
    why = CUT if end is None else "its opening tag is not closed"
    return Envelope(start, len(text), (BadCall(name, why),))


def _glm(text: str, start: int, names: Collection[str]) -> Envelope | None:
    header = _BARE.match(text, start)
    if header is None:
        return None
    if header[2]:
        return read_named(text, header[1], Body(start, header.end(), _BARE_BOUND), names)
    return read_parameters(text, header[1], start, header.end(), _GLM, names)


FUNCTION = Dialect(r"<function=", _function)
INVOKE = Dialect(rf"<{_DSML}(?:invoke|function)\s{{1,4}}name", _invoke)
GLM = Dialect(rf"<tool_call>(?=\s*{NAME}\s*(?:<|[{{｛]))", _glm)
