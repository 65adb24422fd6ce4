"""The MCP SDK behind one door: a server over stdin and stdout, or as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

from mcp import MCPError, stdio_server, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

import offprompt
from offprompt.errors import BackendError, OffpromptError
from offprompt.mcp.resources import TEMPLATES, Resources, prompt_text, prompts
from offprompt.mcp.snippets import PATH
from offprompt.protocols import Tokenizer
from offprompt.records import Role
from offprompt.service.model_answers import Answer, Pager
from offprompt.service.model_memory import ModelMemory
from offprompt.service.model_tools import TOOLS, Tools
from offprompt.service.model_words import INSTRUCTIONS, PromptDef, problem
from offprompt.wire.head import Language

R = TypeVar("R")

LOG: Final = logging.getLogger("offprompt.mcp")
MAX_BODY_BYTES: Final = 1 << 20

MemoryFor = Callable[[Any, Role], ModelMemory]
"""The memory of a request (the HTTP request, None over stdio), for what needs that role; AccessError, ScopeError."""


class MemoryServer:
    """A scope's memory, or each caller's own, as MCP offers it.

    language   of descriptions, receipts and prompts; None: English descriptions, receipts in the words of the call,
               prompts in both.
    """

    def __init__(self, memory_for: MemoryFor, tokenizer: Tokenizer, language: Language | None = None) -> None:
        self._memory_for, self._tokenizer = memory_for, tokenizer
        self._language: Language | None = language
        self._tools = Tools(tokenizer, language)
        own: Language = language or "en"
        self.server: Server[Any] = Server(
            "offprompt",
            version=offprompt.__version__,
            title="Offprompt",
            instructions=INSTRUCTIONS[own],
            get_tool_input_schema=lambda name: TOOLS[name].inputs if name in TOOLS else None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        self._listed = [_tool(name, own) for name in TOOLS]

    async def over_stdio(self) -> None:
        """Serve stdin and stdout until stdin ends; what else is written to stdout goes to stderr.

        Raises   BrokenPipeError if the host has left and takes no answer.
        """
        has_left = False
        try:
            async with stdio_server() as (reads, writes):
                await self.server.run(reads, writes, self.server.create_initialization_options())
        except* BrokenPipeError:
            has_left = True
        if has_left:
            raise BrokenPipeError

    def http_app(self) -> ASGIApp:
        """The ASGI application at /mcp, without a state between requests. Who may ask is not its matter."""
        return self.server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=MAX_BODY_BYTES,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def _list_tools(self, context: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=self._listed)

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name[:64]!r}; the tools are: {', '.join(TOOLS)}")

        def run() -> Answer:
            try:
                memory = self._memory_for(context.request, tool.role)
            except OffpromptError as exc:
                return Answer(problem(exc, "", self._language or "en"), is_error=True)
            return self._tools.call(memory, tool, params.arguments or {})

        with _Contained(f"the tool {params.name}"):
            answer = await asyncio.to_thread(run)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=None if answer.is_error else dict(answer.data),
            is_error=answer.is_error,
        )

    async def _list_resources(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = (params.cursor if params is not None else None) or ""
        found, more = await self._run(context, lambda memory, pager: Resources(memory, pager).listed(cursor))
        resources = [
            types.Resource(uri=one.uri, name=one.name, title=one.title or None, mime_type=one.mime) for one in found
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=more or None)

    async def _list_templates(
        self, context: ServerRequestContext[Any, Any], params: Any
    ) -> types.ListResourceTemplatesResult:
        del context, params
        templates = [
            types.ResourceTemplate(uri_template=uri, name=name, description=what) for uri, name, what in TEMPLATES
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(
        self, context: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        mime, text = await self._run(context, lambda memory, pager: Resources(memory, pager).read(uri))
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=text)])

    async def _list_prompts(self, context: ServerRequestContext[Any, Any], params: Any) -> types.ListPromptsResult:
        del context, params
        return types.ListPromptsResult(prompts=list(map(_prompt, prompts(self._language))))

    async def _get_prompt(
        self, context: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        named = {prompt.name: prompt for prompt in prompts(self._language)}
        prompt = named.get(params.name)
        if prompt is None:
            known = ", ".join(named)
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name[:64]!r}; the prompts are: {known}")
        given = params.arguments or {}

        def text_of(memory: ModelMemory, pager: Pager) -> str:
            return prompt_text(memory, Pager(pager.tokenizer, prompt.language), prompt, given)

        text = await self._run(context, text_of)
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.title, messages=[message])

    async def _run(self, context: ServerRequestContext[Any, Any], work: Callable[[ModelMemory, Pager], R]) -> R:
        """What the work makes of the request's memory, done in a thread.

        Raises   MCPError with our sentence.
        """
        language: Language = self._language or "en"

        def run() -> R:
            try:
                return work(self._memory_for(context.request, "read"), Pager(self._tokenizer, language))
            except OffpromptError as exc:
                code = types.INTERNAL_ERROR if isinstance(exc, BackendError) else types.INVALID_PARAMS
                raise MCPError(code, problem(exc, "", language)) from exc

        with _Contained(context.method):
            return await asyncio.to_thread(run)


class _Contained:
    """A block in which what nobody expected is logged by its kind and answered without its words: they may hold values.

    what   runs in it.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing: the end matters."""

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(exc, Exception) and not isinstance(exc, MCPError):
            LOG.error("%s raised %s", self._what, type(exc).__name__)
            LOG.debug("%s raised", self._what, exc_info=exc)
            raise MCPError(types.INTERNAL_ERROR, "something went wrong here; nothing more was done") from None


def _tool(name: str, language: Language) -> types.Tool:
    own = TOOLS[name]
    return types.Tool(
        name=name,
        description=own.description(language),
        input_schema=dict(own.inputs),
        output_schema=dict(own.outputs),
        annotations=types.ToolAnnotations.model_validate(own.hints),
    )


def _prompt(prompt: PromptDef) -> types.Prompt:
    arguments = [types.PromptArgument(name=prompt.argument, required=True)] if prompt.argument is not None else None
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)
