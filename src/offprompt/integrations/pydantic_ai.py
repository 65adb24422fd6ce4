"""pydantic-ai: a capability with the memory's tools, that takes old results off the prompt and remembers turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from offprompt.errors import UnsupportedError
from offprompt.records import Trust
from offprompt.service.bound import BoundScope
from offprompt.service.model_tools import TOOLS, toolbox
from offprompt.service.model_words import INSTRUCTIONS
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Item, Transcript
from offprompt.wire.head import Language, language_of
from offprompt.wire.stubs import stub_text

try:
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as exc:
    raise UnsupportedError("pydantic-ai is not installed; run: pip install 'offprompt[pydantic-ai]'") from exc

Id: TypeAlias = str | Callable[[RunContext[Any]], str] | None
"""An id, or what tells it from a run's context, such as `lambda ctx: ctx.deps.user`."""

RESULT_TOKENS: Final = 500

SHOWN: Final[dict[Language, str]] = {
    "en": "Shown in an earlier turn; ask for it again to see it.",
    "zh": "在较早的轮次中显示过；需要时请再次读取。",
}


class OffpromptMemory(AbstractCapability[Any]):
    """Memory for `Agent(capabilities=[OffpromptMemory(memory, user=…)])`.

    memory   an opened memory. user, agent: whose, None: the memory's default; or functions of a run's context where one
             pydantic-ai agent serves many.
    Tools    the five of docs/mcp.md, with their instructions. trust: of what the model writes.
    Results  of earlier turns: a long one of the application's tools is kept outside and a stub stands for it, with its
             head and tail, which `mem_read` shows; what the memory's own tools showed is gone. The newest turn's stay
             whole, so that a turn breaks the prefix once where there was something to take away. What is gone is gone
             from `result.all_messages()` too, and the messages that were given stay as they are.
             result_tokens: from how many on, by the memory's tokenizer; 0: results stay.
    capture  what user and model say is remembered when a run is over: `all`, `user`, `off`.
    Raises   what the memory raises in stubs and capture ends the run; in a tool it is told to the model.
    """

    def __init__(
        self,
        memory: Offprompt,
        *,
        user: Id = None,
        agent: Id = None,
        trust: Trust = "user",
        result_tokens: int = RESULT_TOKENS,
        capture: Literal["all", "user", "off"] = "all",
    ) -> None:
        self._memory, self._user, self._agent = memory, user, agent
        self._trust: Trust = trust
        self._result_tokens = result_tokens
        self._capture: Literal["all", "user", "off"] = capture
        self._toolset = FunctionToolset[Any](
            [
                Tool[Any].from_schema(
                    self._calling(tool.name), tool.name, tool.description("en"), dict(tool.inputs), takes_ctx=True
                )
                for tool in TOOLS.values()
            ],
            id="offprompt",
        )

    def get_toolset(self) -> FunctionToolset[Any]:
        """The five tools: for an agent that wants them alone, `Agent(toolsets=[….get_toolset()])`."""
        return self._toolset

    def get_instructions(self) -> str:
        """What the model is told of its memory."""
        return INSTRUCTIONS[self._memory.parts.settings.language or "en"]

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Take the results of earlier turns off the prompt."""
        if self._result_tokens:
            messages = await asyncio.to_thread(self.process, ctx, list(request_context.messages))
            request_context.messages = messages
            ctx.messages[:] = messages
        return request_context

    def process(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """The messages with the results of earlier turns taken away: a history processor."""
        newest = max((at for at, message in enumerate(messages) if _is_said(message)), default=0)
        kept = self._transcript(ctx)
        return [self._without(message, kept) if at < newest else message for at, message in enumerate(messages)]

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Remember what was said."""
        if self._capture != "off":
            await asyncio.to_thread(self._remember, ctx, result)
        return result

    def _remember(self, ctx: RunContext[Any], result: Any) -> None:
        parts = [ctx.prompt] if isinstance(ctx.prompt, str) else list(ctx.prompt or ())
        said = "\n".join(part for part in parts if isinstance(part, str))
        turn = [Item("user", said, said)]
        if isinstance(result.output, str):
            # Behind a tool they may be the tool's words, or the memory's own.
            alone = not any(isinstance(part, ToolReturnPart) for each in result.new_messages() for part in each.parts)
            turn.append(Item("assistant", result.output, result.output, remembered=alone))
        self._transcript(ctx).add(turn)

    def _bound(self, ctx: RunContext[Any]) -> BoundScope:
        user, agent = (each(ctx) if callable(each) else each for each in (self._user, self._agent))
        return self._memory.scope(user=user, agent=agent)

    def _transcript(self, ctx: RunContext[Any]) -> Transcript:
        session_id = ctx.conversation_id or ctx.run_id or "pydantic-ai"
        return Transcript(self._memory, self._bound(ctx), session_id, capture=self._capture)

    def _calling(self, name: str) -> Callable[..., Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            def run() -> str:
                kept = self._transcript(ctx)
                own = toolbox(self._memory, self._bound(ctx), trust=self._trust, via="pydantic-ai", bodies=kept.body)
                return own(name, arguments).text

            return await asyncio.to_thread(run)

        return call

    def _without(self, message: ModelMessage, kept: Transcript) -> ModelMessage:
        if not isinstance(message, ModelRequest):
            return message
        parts = [self._stubbed(part, kept) if type(part) is ToolReturnPart else part for part in message.parts]
        return message if all(map(_is_same, parts, message.parts)) else replace(message, parts=parts)

    def _stubbed(self, part: ToolReturnPart[Any], kept: Transcript) -> ToolReturnPart[Any]:
        if part.outcome != "success" or part.files:
            return part
        text = part.model_response_str()
        language = language_of(text)
        if part.tool_name in TOOLS:
            gone = SHOWN[language]
            reads = TOOLS[part.tool_name].role == "read"
            return replace(part, content=gone) if reads and len(text) > len(gone) else part
        if text.startswith("[[mem:@") or self._memory.parts.tokenizer.count(text) < self._result_tokens:
            return part
        handle = f"[[mem:@{kept.keep(text, part.tool_name)}]]"
        return replace(part, content=stub_text(text, handle=handle, kind="tool", language=language))


def _is_said(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def _is_same(one: object, other: object) -> bool:
    return one is other
