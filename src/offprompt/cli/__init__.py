"""The command line: parses, calls the service layer, renders. `offprompt --help` lists the commands."""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code: 0, or that of the error (see docs/errors.md)."""
    try:
        # Half a second goes into loading: an interrupt must be as quiet then as it is later.
        from offprompt.cli.program import run  # noqa: PLC0415

        return run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
