"""Puts what the code knows into the pages of docs/: settings, commands, errors, price sheets.

`python -m tools.pages` rewrites the parts between `<!-- made: NAME -->` and `<!-- end -->`, and what the pages show as
the output of their own code. Tests say when either is no longer so. Read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from offprompt import errors
from offprompt.cli.call import OPTION_NAMES
from offprompt.cli.program import app
from offprompt.config import Settings, setting_docs
from offprompt.gateway.options import GatewayOptions
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import compact
from offprompt.service.replay.log import Rules
from offprompt.service.replay.readers import read_conversations
from offprompt.service.replay.report import totals
from offprompt.service.replay.simulate import simulate
from offprompt.testing.agent_log import agent_log
from offprompt.wire.prices import builtin_sheets, named_sheet
from tools import rest_page
from tools.blocks import fitting, run_page

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("slot", "memory")
MATRIX = {"rewritten": "memory rewritten", "truncation": "truncation only"}
LOGS = {"swe-agent/*.traj": 126, "tau-bench/gpt-4o-airline.json": 200, "longmemeval/haystacks.json": 200}
KINDS = {"integer": "INTEGER", "int": "INTEGER", "float": "NUMBER", "path": "PATH", "file": "PATH"}
PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings() -> str:
    """The table of settings."""
    rows = ["| setting | environment | default | what it does |", "|---|---|---|---|"]
    for name, doc in setting_docs().items():
        rows.append(f"| `{name}` | `OFFPROMPT_{name.upper()}` | {default_of(Settings(), name)} | {doc} |")
    return "\n".join(rows)


def gateway_settings() -> str:
    """The table of the gateway's settings."""
    rows = ["| setting | default | what it does |", "|---|---|---|"]
    for name, doc in setting_docs(GatewayOptions).items():
        rows.append(f"| `{name}` | {default_of(GatewayOptions(), name)} | {doc} |")
    return "\n".join(rows)


def default_of(plain: object, name: str) -> str:
    """A setting's default as a cell shows it."""
    value = getattr(plain, name)
    return f"`{value:.12g}`" if isinstance(value, float) else f"`{value}`" if value not in ("", ()) else "(empty)"


def error_tree() -> str:
    """The drawing in the docstring of errors.py."""
    doc = errors.__doc__ or ""
    lines = [line[4:] for line in doc.splitlines() if line.startswith("    ")]
    return "\n".join(["```text", *lines, "```"])


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a Typer command, with its path."""
    inner = getattr(command, "commands", None)
    if inner:
        for name, one in inner.items():
            yield from walk(one, (*path, name))
    elif path:
        yield path, command


def commands() -> str:
    """Every command with its arguments and options; the global options once."""
    root: Any = typer.main.get_command(app)
    found = list(walk(root))
    paths = {path for path, _ in found}
    parts = ["### Options of every command", "", "Before the command's name or behind it.", ""]
    parts += [option_line(one) for one in root.params if one.name != "help"]
    for path, command in found:
        own = [one for one in command.params if one.name not in OPTION_NAMES and one.name not in ("help", "ctx")]
        words = [argument_word(one) for one in own if one.param_type_name == "argument"]
        parts += ["", f"### `offprompt {' '.join([*path, *words])}`", ""]
        families = [family for family in FAMILIES if (family, *path) in paths]
        if len(families) == 1:
            parts.append(f"Short for `offprompt {families[0]} {path[0]}`.")
            continue
        parts += [" ".join(str(command.help).split()), "", *(option_line(one) for one in own)]
        if not own:
            parts.pop()
    return "\n".join(parts)


def argument_word(parameter: Any) -> str:
    """An argument as the usage line writes it."""
    word = parameter.name.upper() + ("…" if parameter.nargs == -1 else "")
    return word if parameter.required else f"[{word}]"


def option_line(parameter: Any) -> str:
    """An argument or option, and what it does."""
    if parameter.param_type_name == "argument":
        return f"- `{parameter.name.upper()}`: {parameter.help}"
    choices = getattr(parameter.type, "choices", None)
    kind = KINDS.get(parameter.type.name.lower(), "TEXT")
    values = "" if parameter.is_flag else " " + ("|".join(str(choice) for choice in choices) if choices else kind)
    given = isinstance(parameter.default, (str, int, float)) and not isinstance(parameter.default, bool)
    default = f" Default `{parameter.default}`." if given and parameter.default != "" else ""
    return f"- `{', '.join(parameter.opts)}{values}`: {parameter.help}{default}"


def prices() -> str:
    """The built-in price sheets."""
    heads = ("sheet", "currency", "input", "cache write", "cache read", "output", "as of", "source")
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in builtin_sheets():
        numbers = [one.input, one.cache_write, one.cache_read, one.output]
        cells = [f"`{one.name}`", one.currency, *(f"{number:.6g}" for number in numbers), one.dated, one.source]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def matrix() -> str:
    """Input price of each policy on each sheet, for the made-up log of `offprompt.testing.agent_log`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.json"
        path.write_text(compact({"messages": agent_log()}), encoding="utf-8")
        logs = list(read_conversations(path, lambda _: None))
    rows: list[str] = []
    for sheet in builtin_sheets():
        found = totals(simulate(logs, tokenizer_for(""), Rules(sheet=sheet)))
        if not rows:
            names = [name for name in found if name != "logged"]
            rows = ["| sheet | " + " | ".join(MATRIX.get(name, f"`{name}`") for name in names) + " |"]
            rows.append("|---" * (len(names) + 1) + "|")
        ratios = [f"{total.price_ratio:.2f}" for name, total in found.items() if name != "logged"]
        rows.append(f"| `{sheet.name}` | " + " | ".join(ratios) + " |")
    return "\n".join(rows)


def figures() -> str:
    """Replays of the logs in OFFPROMPT_DATA, chained, on the common sheet; nothing without them."""
    folder = os.environ.get("OFFPROMPT_DATA")
    if not folder:
        return ""
    heads = ("log", "requests", "policy", "input ×", "price ×", "evidence")
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for pattern, limit in LOGS.items():
        logs = (one for path in sorted(Path(folder).glob(pattern)) for one in read_conversations(path, print))
        rules = Rules(sheet=named_sheet("default", builtin_sheets()))
        replayed = simulate(logs, tokenizer_for(""), rules, chain=True, limit=limit)
        for name, total in totals(replayed).items():
            evidence = "-" if total.evidence is None else f"{total.evidence:.3f}"
            label = MATRIX.get(name, f"`{name}`")
            if name != "logged":
                row = (f"`{pattern}`", replayed.requests, label, f"{total.input_ratio:.3f}", f"{total.price_ratio:.3f}")
                rows.append(f"| {' | '.join(map(str, row))} | {evidence} |")
    return "\n".join(rows)


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "gateway": gateway_settings,
    "errors": error_tree,
    "commands": commands,
    "prices": prices,
    "matrix": matrix,
    "figures": figures,
    "headers": rest_page.headers,
    "problems": rest_page.problems,
    "routes": rest_page.routes,
    "shapes": rest_page.shapes,
}


def made(text: str) -> str:
    """A page with its made parts as the code would have them now."""

    def fresh(match: re.Match[str]) -> str:
        part = PARTS[match[2]]()
        return f"{match[1]}{part}\n{match[3]}" if part else match[0]

    return PART.sub(fresh, text)


def shown(text: str, name: str) -> str:
    """A page with the outputs of its code as they are now; lines that still fit stay as they stand."""
    with tempfile.TemporaryDirectory() as folder:
        ran = run_page(text, name, Path(folder))
    for one in sorted(ran, key=lambda one: one.start, reverse=True):
        if not one.fits:
            kept = [line for line in one.shown.splitlines() if line.endswith("…")]
            lines = [
                next((line for line in kept if fitting(printed, line)), printed.rstrip())
                for printed in one.printed.splitlines()
            ]
            text = text[: one.start] + "".join(f"{line}\n" for line in lines) + text[one.end :]
    return text


def main() -> int:
    """Rewrite the pages that are out of date, and name them."""
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]:
        old = page.read_text(encoding="utf-8")
        new = shown(made(old), page.name)
        if new != old:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.name} rewritten\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
