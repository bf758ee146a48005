"""A device that makes passkeys, in software: it answers what a page asks as a phone would."""

from __future__ import annotations

import hashlib
from typing import Any

import cbor2
import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from payd.web.dashboard.passkeys import to_base64

PRESENT, VERIFIED, MADE = 0x01, 0x04, 0x40


class Authenticator:
    """One passkey of one device."""

    def __init__(self, name: bytes = b"credential-1") -> None:
        self.id = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.count = 0

    def make(self, options: dict[str, Any], origin: str, flags: int = PRESENT | VERIFIED) -> str:
        """The answer to a page that asks for a new passkey."""
        numbers = self.key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        made = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps(key)
        data = self._data(options["rp"]["id"], flags | MADE) + made
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options, origin)
        return self._answer({"clientDataJSON": client, "attestationObject": attestation})

    def sign(
        self, options: dict[str, Any], origin: str, flags: int = PRESENT | VERIFIED, host: str = ""
    ) -> str:
        """The answer to a page that asks for a passkey."""
        self.count += 1
        data = self._data(host or options["rpId"], flags)
        client = self._client("webauthn.get", options, origin)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer({"clientDataJSON": client, "authenticatorData": data, "signature": signature})

    def _data(self, host: str, flags: int) -> bytes:
        return hashlib.sha256(host.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, type: str, options: dict[str, Any], origin: str) -> bytes:
        return msgspec.json.encode(
            {"type": type, "challenge": options["challenge"], "origin": origin, "crossOrigin": False}
        )

    def _answer(self, response: dict[str, bytes]) -> str:
        named = {name: to_base64(value) for name, value in response.items()}
        answer = {
            "id": to_base64(self.id),
            "rawId": to_base64(self.id),
            "type": "public-key",
            "response": named,
        }
        return msgspec.json.encode(answer | {"clientExtensionResults": {}}).decode()
