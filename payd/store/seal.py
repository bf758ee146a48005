"""Secrets that must be read back, sealed with a key that is not in the database.

Who has only the database file, or only a backup of it, reads no secret.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import hmac
import os
import re
import stat
from pathlib import Path
from typing import Final

from Crypto.Cipher import ChaCha20_Poly1305

from payd.core.errors import SealBroken
from payd.entropy import Entropy, system_entropy
from payd.store.durable import write_file

KEY_BYTES: Final = 32
# XChaCha20: a random nonce of this size never meets itself, however many secrets are sealed.
_NONCE_BYTES: Final = 24
_TAG_BYTES: Final = 16
_FORMAT: Final = b"\x01"
_KEY: Final = re.compile(rb"[0-9a-fA-F]{%d}" % (2 * KEY_BYTES))


class SealKeyUnusable(Exception):
    """The key file is there and cannot be used; the message says why."""


class Seal:
    """Seals and opens short secrets with one key."""

    def __init__(self, key: bytes, entropy: Entropy = system_entropy) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a seal key has {KEY_BYTES} bytes, this one {len(key)}")
        self._key = key
        self._entropy = entropy

    def __repr__(self) -> str:
        return "Seal(…)"

    def derive(self, purpose: str) -> bytes:
        """32 bytes that are the same each time, and that nobody finds without the key.

        Args:
            purpose: What for and whose: other words, other bytes.
        """
        return hmac.digest(self._key, purpose.encode(), "sha256")

    def seal(self, secret: bytes, subject: str) -> bytes:
        """`secret`, readable only with the key and for the same `subject`.

        Args:
            secret: What to hide.
            subject: Whose it is, such as an endpoint's id: sealed bytes moved to another row do not open.
        """
        nonce = self._entropy(_NONCE_BYTES)
        cipher = ChaCha20_Poly1305.new(key=self._key, nonce=nonce)
        cipher.update(subject.encode())
        hidden, tag = cipher.encrypt_and_digest(secret)
        return _FORMAT + nonce + tag + hidden

    def open(self, sealed: bytes, subject: str) -> bytes:
        """What `seal` was given.

        Raises:
            SealBroken: Another key, another subject, or changed bytes.
        """
        head = len(_FORMAT) + _NONCE_BYTES
        if len(sealed) < head + _TAG_BYTES or not sealed.startswith(_FORMAT):
            raise _broken(subject)
        cipher = ChaCha20_Poly1305.new(key=self._key, nonce=sealed[len(_FORMAT) : head])
        cipher.update(subject.encode())
        try:
            return cipher.decrypt_and_verify(sealed[head + _TAG_BYTES :], sealed[head : head + _TAG_BYTES])
        except ValueError:
            raise _broken(subject) from None


def is_key(content: bytes) -> bool:
    """Whether a file with this content is a seal key, whatever its name."""
    return _KEY.fullmatch(content.strip()) is not None


def _broken(subject: str) -> SealBroken:
    """In words for whoever asked, who cannot mend it."""
    return SealBroken(
        f"What was sealed for {subject} does not open with this server's seal key. No retry helps: whoever"
        " runs the server has to put the right key back; `payd doctor` says more."
    )


def load_key(path: Path, entropy: Entropy = system_entropy) -> bytes:
    """The key in the file; makes the file, readable by its owner alone, when there is none.

    Raises:
        SealKeyUnusable: Others may read it, or it is not 64 hexadecimal digits.
        OSError: It cannot be read or made.
    """
    if not os.path.lexists(path):  # a link to a disk that is not there is no reason for another key
        write_file(path, f"{entropy(KEY_BYTES).hex()}\n".encode("ascii"))
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SealKeyUnusable(f"{path} can be read by others; run: chmod 600 {path}")
    try:
        key = bytes.fromhex(path.read_text("ascii").strip())
    except ValueError:
        raise SealKeyUnusable(
            f"{path} is not a seal key; restore it from a backup made with --with-keys"
        ) from None
    if len(key) != KEY_BYTES:
        raise SealKeyUnusable(f"{path} is cut short; restore it from a backup made with --with-keys")
    return key
