"""The model that a command line names, with its options; a script in its place says that it is one."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from offprompt.bootstrap import config_file
from offprompt.bootstrap.routes import Route, parse_routes
from offprompt.cli.call import Call
from offprompt.config import read_file
from offprompt.errors import UsageError
from offprompt.protocols import ChatModel

SCRIPTED: Final = "scripted"
PANEL: Final = "The model"

Name = Annotated[
    str | None,
    typer.Option(
        "--model", help="Such as gpt-4o-mini or ollama:qwen3:8b; `scripted`: a script, no model.", rich_help_panel=PANEL
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Its endpoint, such as http://127.0.0.1:8080/v1.", rich_help_panel=PANEL)
]
KeyEnv = Annotated[str | None, typer.Option(help="The variable that holds its key.", rich_help_panel=PANEL)]
Wire = Annotated[
    Literal["openai", "anthropic", "ollama"] | None, typer.Option(help="How it is spoken to.", rich_help_panel=PANEL)
]
Context = Annotated[
    int | None, typer.Option("--context-tokens", min=1, help="Its window, unless it tells.", rich_help_panel=PANEL)
]
CallsOption = Annotated[
    Literal["native", "text", "schema"],
    typer.Option(help="How it calls tools: natively, in text, under a JSON schema.", rich_help_panel=PANEL),
]
Temperature = Annotated[float | None, typer.Option(min=0, max=2, help="Of its sampling.", rich_help_panel=PANEL)]
System = Annotated[str, typer.Option("--system", help="Its instructions.", rich_help_panel=PANEL)]
Tools = Annotated[
    Path | None,
    typer.Option(help="A Python file; its public functions are tools. It is run.", rich_help_panel=PANEL),
]


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What the command line says of the model."""

    name: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    wire: str | None = None
    context_tokens: int | None = None
    calls: Literal["native", "text", "schema"] = "native"

    def made(self, call: Call, *, needed: bool) -> ChatModel:
        """The model: the one that is named, else that of `[models.chat]` in the config file, else the script.

        needed   no script unless it is asked for. Raises   UsageError for what does not fit, or without a model.
        """
        if self.name == SCRIPTED:
            return self._scripted()
        if self.name is not None:
            route = Route(self.name, self.base_url, self.key_env, self.wire, self.context_tokens)
            return self._calling(route.made())
        if self.base_url is not None:
            raise UsageError("--base-url says where the model is, not which; give --model too")
        file = Path(call.options.config) if call.options.config else config_file(os.environ)
        routes = {} if file is None else parse_routes(read_file(file).get("models"), where=str(file))
        if "chat" in routes:
            return self._calling(routes["chat"].made())
        if needed:
            raise UsageError(
                "no model: give --model, such as --model gpt-4o-mini, or [models.chat] in the config file; "
                "--model scripted runs a script in its place"
            )
        return self._scripted()

    def _calling(self, model: ChatModel) -> ChatModel:
        from offprompt.service.without_tools import WithoutTools  # noqa: PLC0415 - rarely needed

        return model if self.calls == "native" else WithoutTools(model, calls=self.calls)

    def _scripted(self) -> ChatModel:
        from offprompt.testing.chat_stand_in import StandInModel  # noqa: PLC0415 - rarely needed
        from offprompt.testing.scripted import ScriptedModel  # noqa: PLC0415 - rarely needed

        return StandInModel(ScriptedModel().create, name=SCRIPTED)


def is_scripted(model: ChatModel) -> bool:
    """Whether it is the script in a model's place."""
    return model.name == SCRIPTED


def tools_of(path: Path | None) -> list[Callable[..., Any]]:
    """The public functions that a Python file defines.

    Raises   UsageError if it is not there, cannot be run, or defines none.
    """
    if path is None:
        return []
    spec = importlib.util.spec_from_file_location("offprompt_tools", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise UsageError(f"--tools {str(path)!r} is no Python file; name one that defines functions")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError, NameError, OSError) as exc:
        raise UsageError(f"--tools {str(path)!r} cannot be run: {exc}; correct it") from exc
    found = [
        each
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not found:
        raise UsageError(f"--tools {str(path)!r} defines no public function")
    return found
