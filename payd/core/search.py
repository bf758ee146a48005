"""What somebody typed into the search box: an id, a hash, an address, or words.

Nothing is looked up here. What can be read in two ways is: a shop's own reference may look like anything.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from payd.core.caip import MalformedCaip, parse_account

# Longer than any id, address or reference; a link to a payment fits as well.
TEXT_MAX: Final = 512

IdKind = Literal["payment", "merchant", "event", "message", "delivery", "request", "settlement", "key"]

_PREFIXES: Final[dict[str, IdKind]] = {
    "pay_": "payment",
    "mrch_": "merchant",
    "evt_": "event",
    "msg_": "message",
    "dlv_": "delivery",
    "req_": "request",
    "crypto_": "settlement",
    "key_": "key",
}
_ID: Final = re.compile(rf"(?:{'|'.join(_PREFIXES)})[0-9A-Za-z]{{1,80}}")
# A test payment's transaction is named after it.
_TEST_TX: Final = re.compile(r"test:pay_[0-9A-Za-z]{1,80}")
_EVM_HASH: Final = re.compile(r"0[xX][0-9a-fA-F]{64}|[0-9a-fA-F]{64}")
_EVM_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]{40}")
_BASE58: Final = "[1-9A-HJ-NP-Za-km-z]"
# 64 and 32 bytes.
_SOLANA_SIGNATURE: Final = re.compile(f"{_BASE58}{{80,90}}")
_SOLANA_ADDRESS: Final = re.compile(f"{_BASE58}{{32,44}}")


class Sought(msgspec.Struct, frozen=True):
    """What a text may mean; what it cannot mean is None.

    Attributes:
        text: Without the blanks around it; a reference, or its beginning.
        id: An id of ours, also out of the middle of a link.
        kind: Whose.
        tx_id: The id of a transaction, as chains are asked for it.
        address: Of an account, without its chain, in lower case: what rows are looked up by.
    """

    text: str
    id: str | None = None
    kind: IdKind | None = None
    tx_id: str | None = None
    address: str | None = None

    @property
    def is_words(self) -> bool:
        """Whether it can be nothing but a reference, a name, or the beginning of one."""
        return self.id is None and self.tx_id is None and self.address is None


def read_search(text: str) -> Sought | None:
    """What somebody looks for; None: nothing, or nothing that could be found."""
    text = text.strip()
    if not text or len(text) > TEXT_MAX:
        return None
    tx_id, address = _tx_id(text), _address(text)
    found = None if tx_id is not None else _id(text)
    return Sought(text, found, None if found is None else _kind(found), tx_id, address)


def _id(text: str) -> str | None:
    """The text itself, or the last one in a link."""
    if _ID.fullmatch(text):
        return text
    found = _ID.findall(text) if "://" in text else []
    return found[-1] if found else None


def _kind(found: str) -> IdKind:
    return _PREFIXES[found[: found.index("_") + 1]]


def _tx_id(text: str) -> str | None:
    if _EVM_HASH.fullmatch(text):
        return "0x" + text[-64:].lower()
    if _SOLANA_SIGNATURE.fullmatch(text) or _TEST_TX.fullmatch(text):
        return text
    return None


def _address(text: str) -> str | None:
    if _EVM_ADDRESS.fullmatch(text) or _SOLANA_ADDRESS.fullmatch(text):
        return text.lower()
    try:
        return parse_account(text).address.lower()
    except MalformedCaip:
        return None
