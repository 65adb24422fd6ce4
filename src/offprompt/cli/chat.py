"""`offprompt chat`: talk with a model, and see after each turn what its memory did and what the request weighed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from offprompt.cli import streams
from offprompt.cli.asked_model import (
    AskedModel,
    BaseUrl,
    CallsOption,
    Context,
    KeyEnv,
    Name,
    System,
    Temperature,
    Tools,
    Wire,
    is_scripted,
    tools_of,
)
from offprompt.cli.audit_text import warning_text
from offprompt.cli.call import Call, command
from offprompt.cli.chat_text import chat_help, forgotten, held, why
from offprompt.cli.errors import report
from offprompt.cli.trace import text as trace_text
from offprompt.errors import OffpromptError
from offprompt.protocols import ChatModel
from offprompt.records import AgentReply, ToolRun
from offprompt.service.agent import Agent
from offprompt.service.bound import BoundScope
from offprompt.service.chat_weight import Weight, weigh
from offprompt.service.offprompt import Offprompt
from offprompt.service.recalling import RECALLED
from offprompt.service.session import Session
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Tracer
from offprompt.wire.profiles import SHAPES


def chat(
    call: Call,
    *,
    model: Name = None,
    base_url: BaseUrl = None,
    key_env: KeyEnv = None,
    wire: Wire = None,
    context_tokens: Context = None,
    calls: CallsOption = "native",
    temperature: Temperature = None,
    system: System = "",
    tools: Tools = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Answers only.")] = False,
) -> None:
    """Talk with a model; after each turn see what was stored, recalled, shown, and what the request weighed.

    Without a model a script stands in its place, and says so. /help lists what may be typed beside words. In a pipe the
    exit code is that of the last line that failed, else 0.
    """
    chosen = AskedModel(model, base_url, key_env, wire, context_tokens, calls).made(call, needed=False)
    session = call.options.session or "chat"
    whose = call if call.options.session is None else replace(call, options=replace(call.options, session=None))
    if not whose.scoped and call.options.session is not None:
        whose = call
    with call.memory(create=True) as memory:
        scope = whose.scope_of(memory)
        agent = Agent(scope, chosen, instructions=system, temperature=temperature, tools=tools_of(tools))
        try:
            code = Chat(call, memory, scope, agent, chosen, session, quiet=quiet).run()
        finally:
            chosen.close()
    if code and not sys.stdin.isatty():
        raise typer.Exit(code)


@dataclass(slots=True)
class Chat:
    """One chat on a terminal, or in a pipe."""

    call: Call
    memory: Offprompt
    scope: BoundScope
    agent: Agent
    model: ChatModel
    session_id: str
    quiet: bool = False
    last: AgentReply | None = None

    def run(self) -> int:
        """Until /quit, or the end of what is read; returns the exit code of the last error, else 0."""
        code = 0
        if not self.call.options.json and not self.quiet:
            if is_scripted(self.model):
                self._say(self.call.say("SCRIPTED: a script stands in for the language model."))
                self._say(self.call.say("It knows names and cities: My name is Ada Okafor. What is my name?"))
            where = f"{self.scope.scope}, {self.call.say('session')} {self.session_id}"
            self._say(f"{self.model.name}, {where}; /help /quit")
        for line in self._lines():
            text = line.strip()
            if text in ("/quit", "/exit"):
                break
            try:
                if text.startswith("/"):
                    self._say(self._command(text))
                elif text:
                    self._turn(text)
            except OffpromptError as exc:
                code = report(exc, self.call.argv)
            except KeyboardInterrupt:
                streams.complain(f"\n{self.call.say('called off; the conversation goes on from what is stored')}\n")
        return code

    @property
    def session(self) -> Session:
        """The session that the chat is in."""
        return self.agent.session(session=self.session_id)

    def _lines(self) -> Iterator[str]:
        """What the user types; in a pipe it is shown, so that the output can be read."""
        terminal = sys.stdin.isatty()
        while True:
            if terminal:
                try:
                    line = input("> ")
                except (EOFError, KeyboardInterrupt):
                    self._say("")
                    return
            else:
                line = sys.stdin.readline()
                if not line:
                    return
                if line.strip() and not self.call.options.json:
                    self._say(f"> {line.strip()}")
            yield line

    def _turn(self, text: str) -> None:
        stream, as_json, behind = self.agent.stream(text, session=self.session_id), self.call.options.json, ""
        for piece in stream:
            if as_json:
                continue
            if isinstance(piece, ToolRun):
                outcome = "" if piece.ok else f" {self.call.say('failed')}"
                # Its arguments may be secrets that only the tool may see; /trace has them as the model wrote them.
                self._say(f"{behind}  {self.call.say('tool')}: {piece.name}{outcome}")
                behind = ""
            else:
                streams.answer(piece)
                behind = "" if piece.endswith("\n") else "\n"
        self.last = stream.reply
        if as_json:
            self._say(json.dumps(self._document(text), ensure_ascii=not streams.is_unicode(sys.stdout)))
        else:
            streams.answer(behind)
            if not self.quiet:
                self._say("\n".join(self._panel(stream.reply)))

    def _weight(self, reply: AgentReply) -> Weight | None:
        """What the turn's last request weighed; None if it was not recorded."""
        if not reply.entries:
            return None
        session, parts = self.session, self.memory.parts
        slots = self.scope.slots.list(within="inherit")
        tokenizer = parts.tokenizer_for(self.model.name)
        return weigh(reply.entries[-1], session.messages()[:-1], slots, SHAPES[self.model.wire], tokenizer)

    def _panel(self, reply: AgentReply) -> list[str]:
        """What the turn did, a line each."""
        say = self.call.say
        stored = [f"{each.name} v{each.version}" for each in reply.receipts if each.ok and each.action == "mem_write"]
        stored += [f"{each.name}: {each.text}" for each in reply.remembered if each.kind != "episode"]
        turns = sum(each.kind == "episode" for each in reply.remembered)
        stored += [f"{turns} {say('messages as memories')}"] if turns else []
        recalled = [f"{each.name} ({each.tokens})" for each in reply.shown if each.why == RECALLED]
        shown = [f"{each.name} ({each.why}, {each.tokens})" for each in reply.shown if each.why != RECALLED]
        lines = [
            f"  {say('stored')}: {', '.join(stored) or '-'}",
            f"  {say('recalled')}: {', '.join(recalled) or '-'}",
            f"  {say('shown')}: {', '.join(shown) or '-'}",
        ]
        weight = self._weight(reply)
        if weight is not None:
            lines.append(
                f"  {say('request')}: {weight.sent:,} {say('tokens')} ({say('memory')} {weight.memory:,}); "
                f"{say('the traditional way')}: {weight.traditional:,}"
            )
        if reply.price is not None and reply.currency != "s":
            lines.append(f"  {say('price')}: {reply.price:.6f} {reply.currency}")
        if reply.prefill_s is not None and reply.currency in ("s", "") and not is_scripted(self.model):
            lines.append(f"  {say('seconds of prefill')}: {reply.prefill_s:.2f}")
        return lines + [f"  {say('warning')}: {warning_text(self.call.lang, each)}" for each in reply.warnings]

    def _document(self, text: str) -> dict[str, Any]:
        """A turn as JSON."""
        reply = self.last
        if reply is None:
            return {}
        weight = self._weight(reply)
        return {
            "user": text,
            "text": reply.text,
            "tools": [{"name": each.name, "ok": each.ok, "seconds": each.seconds} for each in reply.tools],
            "stored": [asdict(each) for each in reply.receipts if each.action == "mem_write"],
            "remembered": [asdict(each) for each in reply.remembered],
            "shown": [asdict(each) for each in reply.shown],
            "weight": None if weight is None else asdict(weight),
            "tokens_in": reply.tokens_in,
            "tokens_out": reply.tokens_out,
            "price": reply.price,
            "currency": reply.currency,
            "prefill_s": reply.prefill_s,
            "warnings": list(reply.warnings),
            "stopped": reply.stopped,
        }

    def _command(self, typed: str) -> str:
        """What a line that begins with a slash gives."""
        word, _, rest = typed.partition(" ")
        if word == "/mem":
            return held(self.call, self.scope)
        if word == "/forget":
            return forgotten(self.call, self.memory, self.scope, rest.strip())
        if word in ("/trace", "/why"):
            record = self.session.record
            if record is None:
                return self.call.say("nothing was said yet")
            parts = self.memory.parts
            found = Tracer(parts.slots, read_session(parts.sessions, record)).trace(record.turn)
            return trace_text(self.call, found) if word == "/trace" else why(self.call, found, self.scope)
        return chat_help(self.call)

    def _say(self, text: str) -> None:
        streams.answer(text + "\n")


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "chat")(chat)
