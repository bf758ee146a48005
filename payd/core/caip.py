"""CAIP identifiers of chains, accounts and assets: syntax, canonical form, and what may receive funds.

Parsing asks for SPEC.md's patterns and nothing more, because the test realm takes any chain. What a known
chain asks of an address beyond that is said in words by `account_problem` and `destination_problem`.

Source: SPEC.md, "Crypto settlement"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from typing import Final

import base58
import msgspec

SOLANA_KEY_BYTES: Final = 32
# Base58 of 32 bytes has at most this many characters; decoding takes time quadratic in the length.
SOLANA_KEY_CHARS_MAX: Final = 44
# Addresses up to this one are precompiled contracts or kept for them (RIP-7587 reserves 0x100 to 0x1ff).
PRECOMPILE_MAX: Final = 0x1FF

# SPEC.md's patterns. None takes more than 179 characters, where its limit is 256.
_CHAIN: Final = re.compile("([-a-zA-Z0-9]{3,8}):([-a-zA-Z0-9]{1,32})")
_ACCOUNT: Final = re.compile(_CHAIN.pattern + ":([-a-zA-Z0-9]{1,128})")
_ASSET: Final = re.compile(_CHAIN.pattern + "/([-a-zA-Z0-9]{3,8}):([-a-zA-Z0-9]{1,128})")
_EVM_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{40}")

_EVM: Final = "eip155"
_SOLANA: Final = "solana"
_CHAIN_ALIASES: Final = {
    (_SOLANA, "mainnet"): "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
    (_SOLANA, "devnet"): "EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
    (_SOLANA, "testnet"): "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z",
}
_ASSET_NAMESPACE_ALIASES: Final = {(_SOLANA, "spl"): "token"}
# Coins that registries number in more than one way; wallets and peers use all of these.
_COIN_ALIASES: Final = {
    ("56", "60"): "714",
    ("137", "60"): "966",
    ("43114", "60"): "9005",
    ("43114", "9000"): "9005",
}
_NON_FUNGIBLE: Final = frozenset(
    {"erc721", "erc998", "erc1155", "erc3525", "nft", "cnft", "pnft", "metaplex"}
)


class MalformedCaip(ValueError):
    """The text has not the shape of the identifier; the message says which shape that is."""


class ChainId(msgspec.Struct, frozen=True):
    """A CAIP-2 chain: `eip155:8453`."""

    namespace: str
    reference: str

    def __str__(self) -> str:
        return f"{self.namespace}:{self.reference}"


class AccountId(msgspec.Struct, frozen=True):
    """A CAIP-10 account: `eip155:8453:0x…`."""

    chain: ChainId
    address: str

    def __str__(self) -> str:
        return f"{self.chain}:{self.address}"


class AssetId(msgspec.Struct, frozen=True):
    """A CAIP-19 asset: `eip155:8453/erc20:0x…`."""

    chain: ChainId
    namespace: str
    reference: str

    def __str__(self) -> str:
        return f"{self.chain}/{self.namespace}:{self.reference}"


def parse_chain(text: str) -> ChainId:
    """The chain that `text` names, letter for letter.

    Raises:
        MalformedCaip: It is not `<namespace>:<reference>`.
    """
    namespace, reference = _parts(_CHAIN, text, "a CAIP-2 chain: <namespace>:<reference>")
    return ChainId(namespace, reference)


def parse_account(text: str) -> AccountId:
    """The account that `text` names, letter for letter.

    Raises:
        MalformedCaip: It is not `<namespace>:<chain_reference>:<address>`.
    """
    shape = "a CAIP-10 account: <namespace>:<chain_reference>:<address>, such as eip155:8453:0x… on Base"
    namespace, reference, address = _parts(_ACCOUNT, text, shape)
    return AccountId(ChainId(namespace, reference), address)


def parse_asset(text: str) -> AssetId:
    """The asset that `text` names, letter for letter.

    Raises:
        MalformedCaip: It is not `<namespace>:<chain_reference>/<asset_namespace>:<asset_reference>`.
    """
    shape = (
        "a CAIP-19 asset: <namespace>:<chain_reference>/<asset_namespace>:<asset_reference>,"
        " such as eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913, USDC on Base"
    )
    namespace, chain_reference, asset_namespace, reference = _parts(_ASSET, text, shape)
    return AssetId(ChainId(namespace, chain_reference), asset_namespace, reference)


def _parts(pattern: re.Pattern[str], text: str, shape: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise MalformedCaip(f"must be {shape}")
    return found.groups()


def canonical_chain(chain: ChainId) -> ChainId:
    """The one spelling of a known chain; any other chain as it is."""
    namespace = _family(chain)
    reference = _CHAIN_ALIASES.get((namespace, chain.reference), chain.reference)
    return ChainId(namespace, reference)


def canonical_account(account: AccountId) -> str:
    """One text for each account: EVM addresses in lower case, chain aliases resolved."""
    chain = canonical_chain(account.chain)
    address = account.address.lower() if chain.namespace == _EVM else account.address
    return str(AccountId(chain, address))


def canonical_asset(asset: AssetId) -> str:
    """One text for each asset: EVM contracts in lower case, aliases of chain, namespace and coin resolved."""
    chain = canonical_chain(asset.chain)
    namespace, reference = asset.namespace, asset.reference
    if chain.namespace in (_EVM, _SOLANA):
        namespace = _ASSET_NAMESPACE_ALIASES.get((chain.namespace, namespace.lower()), namespace.lower())
    if chain.namespace == _EVM:
        reference = reference.lower()
        if namespace == "slip44":
            reference = _COIN_ALIASES.get((chain.reference, reference), reference)
    return str(AssetId(chain, namespace, reference))


def destination_problem(asset: AssetId, destination: AccountId) -> str | None:
    """What is wrong with `destination` as the place where `asset` is paid to, or None.

    Every rule that needs no look at the chain itself; a Solana token account is found out there.

    Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
    """
    if asset.namespace.lower() in _NON_FUNGIBLE:
        return f"{asset.namespace} is a kind of non-fungible token; only fungible assets can settle a payment"
    if canonical_chain(asset.chain) != canonical_chain(destination.chain):
        return f"the destination is on {destination.chain}, but the asset is on {asset.chain}"
    if words := account_problem(destination):
        return words
    family = _family(destination.chain)
    if family == _EVM:
        return _evm_destination_problem(asset, destination.address)
    if family == _SOLANA:
        return _solana_destination_problem(asset, destination.address)
    return None


def account_problem(account: AccountId) -> str | None:
    """What is wrong with `account` as somebody's address, or None; a chain of another kind has no rules."""
    family = _family(account.chain)
    if family == _EVM:
        return _evm_address_problem(account.address)
    if family == _SOLANA:
        return _solana_address_problem(account.address)
    return None


def to_checksum_address(address: str) -> str:
    """The EVM address with the capitals of its EIP-55 checksum.

    Args:
        address: `0x` and 40 hex digits, in any case.

    Raises:
        ValueError: It has another shape.
    """
    # Imported here: a server that never sees an EVM address does not pay for it.
    from Crypto.Hash import keccak

    if _EVM_ADDRESS.fullmatch(address) is None:
        raise ValueError("an EVM address is 0x and 40 hex digits")
    digits = address[2:].lower()
    checks = keccak.new(data=digits.encode(), digest_bits=256).hexdigest()
    return "0x" + "".join(
        digit.upper() if check > "7" else digit for digit, check in zip(digits, checks, strict=False)
    )


def _family(chain: ChainId) -> str:
    known = chain.namespace.lower()
    return known if known in (_EVM, _SOLANA) else chain.namespace


def _evm_address_problem(address: str) -> str | None:
    if _EVM_ADDRESS.fullmatch(address) is None:
        return "an EVM address is 0x and 40 hex digits"
    # No pardon for all capitals: EIP-55 has them only where the checksum happens to be all capitals.
    if address != address.lower() and address != to_checksum_address(address):
        return "the capitals of the address do not match its EIP-55 checksum: a digit may be wrong"
    return None


def _solana_address_problem(address: str) -> str | None:
    if _solana_key(address) is None:
        return f"a Solana address is {SOLANA_KEY_BYTES} bytes in base58"
    return None


def _solana_key(address: str) -> bytes | None:
    if len(address) > SOLANA_KEY_CHARS_MAX:
        return None
    try:
        key = base58.b58decode(address)
    except ValueError:
        return None
    return key if len(key) == SOLANA_KEY_BYTES else None


def _evm_destination_problem(asset: AssetId, address: str) -> str | None:
    number = int(address, 16)
    if number == 0:
        return "the zero address belongs to nobody; funds sent there are lost"
    if number <= PRECOMPILE_MAX:
        return "the address is a precompiled contract; funds sent there are lost"
    if address.lower() == asset.reference.lower():
        return "the address is the asset's own contract; funds sent there are lost"
    return None


def _solana_destination_problem(asset: AssetId, address: str) -> str | None:
    if _solana_key(address) == bytes(SOLANA_KEY_BYTES):
        return "the address is the System Program; funds sent there are lost"
    if address == asset.reference:
        return "the address is the asset's own mint; give the wallet that shall receive it"
    return None
