"""Authenticated encryption, by the library `cryptography`: AES-256-GCM."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Any, Final

from offprompt.errors import UnsupportedError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
ID_BYTES: Final = 8
MOST_MESSAGES: Final = 2**32
"""Seals under one key up to which two of them share their random nonce with less than one chance in 2^32."""


class Cipher:
    """AES-256-GCM under one key, with a random nonce of 96 bits before each ciphertext. Thread-safe.

    Bound    2^32 seals under one key (NIST SP 800-38D, 8.3): rotate a key before that.
    Raises   UnsupportedError without the library.
    """

    def __init__(self, key: bytes) -> None:
        made, self._altered = _aead()
        self._key: Any = made(key)

    def seal(self, data: bytes, bound: bytes) -> bytes:
        """Nonce and ciphertext; it opens with the same `bound` only."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._key.encrypt(nonce, data, bound)

    def open(self, sealed: bytes, bound: bytes) -> bytes | None:
        """The data; None if it was altered, or sealed otherwise."""
        try:
            return self._key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
        except (self._altered, ValueError):
            return None


def bound_to(*parts: str) -> bytes:
    """Texts as the bytes that a seal is bound to: no two lists give the same."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")


def id_of(key: bytes) -> str:
    """By what the app's key is known; it says nothing of the key."""
    return blake2b(b"offprompt app key", key=key, digest_size=ID_BYTES).hexdigest()


def _aead() -> tuple[Any, type[Exception]]:
    """The library's cipher, and what it raises for what was altered."""
    try:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UnsupportedError(
            "encryption at rest needs the library cryptography, which is not installed: "
            "pip install 'offprompt[encryption]'"
        ) from exc
    return AESGCM, InvalidTag
