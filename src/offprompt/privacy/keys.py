"""Keys, tokens and private keys, by the forms that their issuers give them."""

from __future__ import annotations

import re
from typing import Final

from offprompt.records.redaction import Span, SpanKind

# Each pattern reads a text in linear time: runs are bounded on the left, and a private key's body ends at five dashes.
_PEM: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"(?:(?:[^-]|-(?!----)){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"|(?:[\s\\nr\"]{0,8}[A-Za-z0-9+/=]{16,200}){0,500})"
)
_API_KEY: Final = "|".join(  # noqa: FLY002 - one form a line
    [
        r"sk-(?=[a-z_-]{0,80}[0-9A-Z])[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those who follow them; not a slug
        r"[spr]k_(?:live|test)_[A-Za-z0-9]{10,}|sk_[A-Za-z0-9]{20,}",  # Stripe
        r"whsec_[A-Za-z0-9]{16,}",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # Amazon
        r"AIza[A-Za-z0-9_-]{35}",  # Google
        r"LTAI[A-Za-z0-9]{12,26}(?![A-Za-z0-9])|AKID[A-Za-z0-9]{13,40}(?![A-Za-z0-9])",  # Alibaba, Tencent
        r"hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|dop_v1_[a-f0-9]{64}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    ]
)
_TOKEN: Final = "|".join(  # noqa: FLY002 - one form a line
    [
        r"gh[opsur]_[A-Za-z0-9_]{16,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
        r"(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{10,}",  # Slack
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # RFC 7519, compact form
        r"ya29\.[A-Za-z0-9_-]{20,}",  # Google
        r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",  # Telegram
    ]
)
SECRET_VALUE: Final = re.compile(
    rf"(?P<private_key>{_PEM})|(?<![A-Za-z0-9])(?:(?P<api_key>{_API_KEY})|(?P<access_token>{_TOKEN}))", re.ASCII
)
"""What has the form of a key; the name of the group that matched is its kind."""

_KINDS: Final[dict[str, SpanKind]] = {
    "private_key": "private_key",
    "api_key": "api_key",
    "access_token": "access_token",
}


def find_keys(text: str) -> list[Span]:
    """The keys in a text, in order. Cost: O(n)."""
    return [
        Span(match.start(), match.end(), _KINDS[match.lastgroup or "api_key"]) for match in SECRET_VALUE.finditer(text)
    ]
