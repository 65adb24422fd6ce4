"""The app's key, which wraps all others: from a file, a variable, or what a command prints."""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

from offprompt.errors import UsageError
from offprompt.privacy.cipher import KEY_BYTES

COMMAND_S: Final = 60.0
MAKE: Final = "make one with `offprompt keyring new-key FILE`"


def read_key(*, file: str = "", env: str = "", command: str = "") -> bytes:
    """The key's 32 bytes, of exactly one source, as base64.

    command  is run without a shell and without input, and has 60 s.
    Raises   UsageError, which never holds what was read.
    """
    given = [name for name, value in (("file", file), ("env", env), ("command", command)) if value]
    if len(given) != 1:
        what = "none is given" if not given else f"{' and '.join(given)} are given"
        raise UsageError(
            "the app's key comes from one of encryption_key_file, encryption_key_env and encryption_key_command, and "
            f"{what}; give one"
        )
    if file:
        return parse_key(_of_file(file), f"the file {file!r}")
    if env:
        if env not in os.environ:
            raise UsageError(f"encryption_key_env names the variable {env!r}, which is not set; set it, or {MAKE}")
        return parse_key(os.environ[env], f"the variable {env!r}")
    return parse_key(_of_command(command), f"the output of {_program(command)}")


def parse_key(text: str, where: str) -> bytes:
    """The key that a text is.

    Raises   UsageError unless it is base64 of 32 bytes.
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(f"{where} is no key: a key is {KEY_BYTES} bytes in base64 (44 letters); {MAKE}")
    return key


def key_text(key: bytes) -> str:
    """The key as `parse_key` reads it."""
    return base64.b64encode(key).decode()


def _of_file(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise UsageError(
            f"the key file {file!r} cannot be read: {why}; correct encryption_key_file, or {MAKE}"
        ) from exc


def _of_command(command: str) -> str:
    try:
        words = shlex.split(command)
        if not words:
            raise ValueError  # noqa: TRY301 - as one that is no text
        # Without our input, which may be a protocol's; what it says beside the key is nobody's.
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=True)  # noqa: S603 - the user's own
        return done.stdout.decode()
    except subprocess.CalledProcessError as exc:
        why = f"it ended with code {exc.returncode}"
    except subprocess.TimeoutExpired:
        why = f"it took longer than {COMMAND_S:.0f} s"
    except OSError as exc:
        why = str(exc.strerror)
    except ValueError:
        why = "it, or what it prints, is no text"
    # Without its words, and without the error, which has them: a token may be among them.
    raise UsageError(
        f"the key command {_program(command)} gives no key: {why}; correct encryption_key_command"
    ) from None


def _program(command: str) -> str:
    """The first word of a command, which is no secret."""
    return repr(command.split(maxsplit=1)[0] if command.split() else command)
