"""EIP-3009: a transfer that a buyer signs and anybody can submit, to exactly the recipient that was signed.

Source: DESIGN.md, "10. Live realm"; EIP-3009; EIP-712.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from eth_abi.abi import encode

from payd.chains.evm.abi import call
from payd.chains.evm.codec import WORD_BYTES, keccak256, to_data
from payd.chains.evm.signature import SIGNATURE_BYTES, recover_signer
from payd.core.caip import to_checksum_address

PRIMARY_TYPE: Final = "TransferWithAuthorization"

_DOMAIN: Final = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)
_MESSAGE: Final = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
)
_MESSAGE_TYPES: Final = tuple(kind for _, kind in _MESSAGE)


class TokenDomain(msgspec.Struct, frozen=True):
    """The EIP-712 domain of a token: whoever signs, signs for this contract on this chain only."""

    name: str
    version: str
    chain_id: int
    token: str


class Authorization(msgspec.Struct, frozen=True):
    """What a buyer signs. Addresses in lower case, `value` in smallest units, `nonce` of 32 bytes.

    It is valid from the beginning, and lands in a block whose time is before `valid_before_s` or never.
    """

    domain: TokenDomain
    sender: str
    recipient: str
    value: int
    valid_before_s: int
    nonce: bytes


def typed_data(authorization: Authorization) -> dict[str, Any]:
    """What a wallet gets for `eth_signTypedData_v4`.

    `EIP712Domain` is among the types, because a wallet signs another hash without it; numbers are decimal
    strings, which all wallets read, however large.
    """
    domain = authorization.domain
    return {
        "types": {"EIP712Domain": _fields(_DOMAIN), PRIMARY_TYPE: _fields(_MESSAGE)},
        "primaryType": PRIMARY_TYPE,
        "domain": {
            "name": domain.name,
            "version": domain.version,
            "chainId": domain.chain_id,
            "verifyingContract": to_checksum_address(domain.token),
        },
        "message": {
            "from": to_checksum_address(authorization.sender),
            "to": to_checksum_address(authorization.recipient),
            "value": str(authorization.value),
            "validAfter": "0",
            "validBefore": str(authorization.valid_before_s),
            "nonce": to_data(authorization.nonce),
        },
    }


def read_typed_data(typed: dict[str, Any]) -> Authorization:
    """The authorization behind what `typed_data` wrote, read from where it was stored.

    Raises:
        ValueError: `typed_data` wrote something else.
    """
    try:
        domain, message = typed["domain"], typed["message"]
        read = Authorization(
            domain=TokenDomain(
                domain["name"], domain["version"], domain["chainId"], domain["verifyingContract"].lower()
            ),
            sender=message["from"].lower(),
            recipient=message["to"].lower(),
            value=int(message["value"]),
            valid_before_s=int(message["validBefore"]),
            nonce=bytes.fromhex(message["nonce"][2:]),
        )
        same = typed_data(read) == typed and len(read.nonce) == WORD_BYTES
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("this is not the typed data of an authorization") from error
    if not same:
        raise ValueError("this is not the typed data of an authorization")
    return read


def domain_separator(domain: TokenDomain) -> bytes:
    """The domain's hash, 32 bytes: what the token's own `DOMAIN_SEPARATOR()` returns if all is right."""
    return keccak256(
        encode(
            ["bytes32", "bytes32", "bytes32", "uint256", "address"],
            [
                keccak256(_declaration("EIP712Domain", _DOMAIN)),
                keccak256(domain.name.encode()),
                keccak256(domain.version.encode()),
                domain.chain_id,
                domain.token,
            ],
        )
    )


def authorization_digest(authorization: Authorization) -> bytes:
    """The 32 bytes that are signed."""
    kind = keccak256(_declaration(PRIMARY_TYPE, _MESSAGE))
    message = keccak256(encode(["bytes32", *_MESSAGE_TYPES], [kind, *_arguments(authorization)]))
    return keccak256(b"\x19\x01" + domain_separator(authorization.domain) + message)


def recover_authorizer(authorization: Authorization, signature: bytes) -> str | None:
    """Whose key signed the authorization: an address in lower case, None where no key did.

    For an account with code the answer means nothing: the token asks the account itself.
    """
    return recover_signer(authorization_digest(authorization), signature)


def transfer_with_authorization_call(authorization: Authorization, signature: bytes) -> bytes:
    """Calldata that carries out the authorization.

    Args:
        authorization: What was signed.
        signature: Normalised. One of 65 bytes goes as v, r and s, which every EIP-3009 token takes, also for
            a smart wallet; any other goes as bytes, which only newer tokens take.
    """
    arguments = _arguments(authorization)
    if len(signature) != SIGNATURE_BYTES:
        return call("transferWithAuthorization", [*_MESSAGE_TYPES, "bytes"], *arguments, signature)
    r, s, v = signature[:WORD_BYTES], signature[WORD_BYTES:-1], signature[-1]
    return call(
        "transferWithAuthorization", [*_MESSAGE_TYPES, "uint8", "bytes32", "bytes32"], *arguments, v, r, s
    )


def _arguments(authorization: Authorization) -> list[object]:
    return [
        authorization.sender,
        authorization.recipient,
        authorization.value,
        0,
        authorization.valid_before_s,
        authorization.nonce,
    ]


def _fields(members: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in members]


def _declaration(name: str, members: tuple[tuple[str, str], ...]) -> bytes:
    """An EIP-712 type as it is hashed: `Mail(address to,string body)`."""
    return f"{name}({','.join(f'{kind} {member}' for member, kind in members)})".encode()
