"""pydantic-ai: a toolset of the memory's tools, a history processor for old results, and a capability that is both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from offprompt.client.clients import Client
from offprompt.errors import UnsupportedError
from offprompt.integrations.given import TRUSTS, check_choice, door_of, opened, reached, transcript_of
from offprompt.records import Trust
from offprompt.service.model_tools import TOOLS, toolbox
from offprompt.service.model_words import INSTRUCTIONS
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Item, Transcript
from offprompt.wire.head import Language, language_of
from offprompt.wire.options import CAPTURES, Capture
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

Processor: TypeAlias = Callable[[RunContext[Any], list[ModelMessage]], list[ModelMessage]]

RESULT_TOKENS: Final = 500

SHOWN: Final[dict[Language, str]] = {
    "en": "Shown in an earlier turn; ask for it again to see it.",
    "zh": "在较早的轮次中显示过；需要时请再次读取。",
}


@dataclass(frozen=True, slots=True)
class _Whose:
    """A scope for each run: the memory, and who."""

    memory: Offprompt | Client
    user: Id
    agent: Id

    def bound(self, ctx: RunContext[Any]) -> Any:
        user, agent = (each(ctx) if callable(each) else each for each in (self.user, self.agent))
        return self.memory.scope(user=user, agent=agent)

    def transcript(self, ctx: RunContext[Any], capture: Capture | None = None) -> Transcript | None:
        """The conversation, None where a server keeps the memory."""
        if isinstance(self.memory, Client):
            return None
        session_id = ctx.conversation_id or ctx.run_id or "pydantic-ai"
        return transcript_of(self.memory, self.bound(ctx), session_id, capture)


def memory_toolset(
    memory: Offprompt | Client, *, user: Id = None, agent: Id = None, trust: Trust = "user"
) -> FunctionToolset[Any]:
    """The five tools of docs/mcp.md alone, for `Agent(toolsets=[memory_toolset(memory, user=…)])`.

    memory   an opened memory, here or on a server. user, agent, trust: see OffpromptMemory.
    Reads    also what `history_processor` put outside, but not over a server.
    Raises   UsageError for what is no opened memory; in a run ScopeError without a user or an agent.
    """
    whose = _Whose(reached(memory, "memory_toolset"), user, agent)
    check_choice("trust", trust, TRUSTS)

    def calling(name: str) -> Callable[..., Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            def run() -> str:
                kept = whose.transcript(ctx)
                door = door_of(whose.memory, whose.bound(ctx), trust=trust, via="pydantic-ai")
                return toolbox(door, bodies=None if kept is None else kept.body)(name, arguments).text

            return await asyncio.to_thread(run)

        return call

    tools = [
        Tool[Any].from_schema(calling(tool.name), tool.name, tool.description("en"), dict(tool.inputs), takes_ctx=True)
        for tool in TOOLS.values()
    ]
    return FunctionToolset[Any](tools, id="offprompt")


def history_processor(
    memory: Offprompt, *, user: Id = None, agent: Id = None, result_tokens: int = RESULT_TOKENS
) -> Processor:
    """What takes the results of earlier turns off the prompt, for `ProcessHistory(history_processor(memory, user=…))`.

    memory         an opened memory, not one of a server. user, agent: see OffpromptMemory.
    result_tokens  from how many on, by the memory's tokenizer.
    Results        see OffpromptMemory; the model reads them again with the tools of `memory_toolset`.
    Raises         UsageError for what is no opened memory; UnsupportedError for one of a server.
    """
    whose = _Whose(opened(memory, "history_processor"), user, agent)
    count = memory.parts.tokenizer.count

    def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        newest = max((at for at, message in enumerate(messages) if _is_said(message)), default=0)
        kept = cast("Transcript", whose.transcript(ctx))

        def is_long(text: str) -> bool:
            return count(text) >= result_tokens

        return [_without(each, kept, is_long) if at < newest else each for at, each in enumerate(messages)]

    return process


class OffpromptMemory(AbstractCapability[Any]):
    """Memory for `Agent(capabilities=[OffpromptMemory(memory, user=…)])`.

    memory   an opened memory, not one of a server: of those `memory_toolset` alone. user, agent: whose, None: the
             memory's default; or functions of a run's context where one pydantic-ai agent serves many.
    Tools    the five of docs/mcp.md, with their instructions. trust: of what the model writes.
    Results  of earlier turns: a long one of the application's tools is kept outside and a stub stands for it, with its
             head and tail, which `mem_read` shows; what the memory's own tools showed is gone. The newest turn's stay
             whole, so that a turn breaks the prefix once where there was something to take away. What is gone is gone
             from `result.all_messages()` too, and the messages that were given stay as they are.
             result_tokens: from how many on, by the memory's tokenizer; 0: results stay.
    capture  what user and model say is remembered when a run is over: `all`, `user`, `off`; None: as the setting
             `capture` says.
    Raises   UsageError for what is no opened memory; UnsupportedError for one of a server. What the memory raises in
             stubs and capture ends the run; in a tool it is told to the model.
    """

    def __init__(
        self,
        memory: Offprompt,
        *,
        user: Id = None,
        agent: Id = None,
        trust: Trust = "user",
        result_tokens: int = RESULT_TOKENS,
        capture: Capture | None = None,
    ) -> None:
        memory = opened(memory, "OffpromptMemory")
        self._language: Language = memory.parts.settings.language or "en"
        self._whose = _Whose(memory, user, agent)
        check_choice("capture", capture, CAPTURES)
        self._capture: Capture = capture or memory.parts.settings.capture
        self._toolset = memory_toolset(memory, user=user, agent=agent, trust=trust)
        self._processor = (
            history_processor(memory, user=user, agent=agent, result_tokens=result_tokens) if result_tokens else None
        )

    def get_toolset(self) -> FunctionToolset[Any]:
        """The five tools."""
        return self._toolset

    def get_instructions(self) -> str:
        """What the model is told of its memory."""
        return INSTRUCTIONS[self._language]

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Take the results of earlier turns off the prompt."""
        if self._processor is not None:
            messages = await asyncio.to_thread(self._processor, ctx, list(request_context.messages))
            request_context.messages = messages
            ctx.messages[:] = messages
        return request_context

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
        if (kept := self._whose.transcript(ctx, self._capture)) is not None:
            kept.add(turn)


def _without(message: ModelMessage, kept: Transcript, is_long: Callable[[str], bool]) -> ModelMessage:
    if not isinstance(message, ModelRequest):
        return message
    parts = [_stubbed(part, kept, is_long) if type(part) is ToolReturnPart else part for part in message.parts]
    return message if all(map(_is_same, parts, message.parts)) else replace(message, parts=parts)


def _stubbed(part: ToolReturnPart[Any], kept: Transcript, is_long: Callable[[str], bool]) -> ToolReturnPart[Any]:
    if part.outcome != "success" or part.files:
        return part
    text = part.model_response_str()
    language = language_of(text)
    if part.tool_name in TOOLS:
        gone = SHOWN[language]
        reads = TOOLS[part.tool_name].role == "read"
        return replace(part, content=gone) if reads and len(text) > len(gone) else part
    if text.startswith("[[mem:@") or not is_long(text):
        return part
    handle = f"[[mem:@{kept.keep(text, part.tool_name)}]]"
    return replace(part, content=stub_text(text, handle=handle, kind="tool", language=language))


def _is_said(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def _is_same(one: object, other: object) -> bool:
    return one is other
