"""What is known of models by name: wire, context, where shown values stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from offprompt.wire.anthropic import AnthropicMessages
from offprompt.wire.openai import OpenAIChat
from offprompt.wire.responses import OpenAIResponses
from offprompt.wire.shapes import Placement, Shape, Wire

SHAPES: Final[dict[str, Shape]] = {
    shape.name: shape for shape in (OpenAIChat(), AnthropicMessages(), OpenAIResponses())
}


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of models.

    context_tokens   the window, 0: not known. placement: `message`: a user message of its own may stand before the
                     user's; `part`: templates that want roles to alternate get a content part.
    binds_thinking   thinking stays valid only on the prefix that it was made with.
    lapsing          system messages of one turn are taken (`clear_at`).
    """

    pattern: str
    wire: Wire = "openai"
    context_tokens: int = 0
    placement: Placement = "message"
    binds_thinking: bool = False
    lapsing: bool = False

    def takes_lapsing(self, wire: Wire) -> bool:
        """Whether system messages of one turn may be sent on this wire."""
        return self.lapsing and wire == "anthropic"


LAPSING: Final = r"(opus|sonnet|haiku)-5[.-]5|opus-5|opus-4[.-]8|(fable|mythos)-5"
PROFILES: Final = (
    Profile(LAPSING, "anthropic", 200_000, "part", binds_thinking=True, lapsing=True),
    Profile(r"claude|opus|sonnet|haiku", "anthropic", 200_000, "part", binds_thinking=True),
    Profile(r"gpt-5", context_tokens=400_000),
    Profile(r"gpt-4\.1", context_tokens=1_000_000),
    Profile(r"gpt-4o|^o[134]", context_tokens=128_000),
    Profile(r"deepseek|qwen|glm|kimi", context_tokens=128_000),
    Profile(r"gemma|mistral|mixtral|llama|smollm|phi", placement="part"),
)


def profile_for(model: str) -> Profile:
    """The first profile whose pattern is found in the model's name; a general one if none is."""
    wanted = model.lower()
    return next((each for each in PROFILES if re.search(each.pattern, wanted)), Profile(""))
