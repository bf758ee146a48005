"""Transactions with receipts for tests of what they paid, and the payments that could have been meant."""

from __future__ import annotations

from typing import Any

from payd.chains.evm.answers import Receipt, Transaction, decode_receipt, decode_transaction
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.codec import to_data, to_quantity
from payd.chains.evm.proof import BoundTransfer, Watched, paid_by
from payd.core.caip import ChainId
from tests.chains.evm.json import (
    BUYER,
    OTHER_SHOP,
    OTHER_TOKEN,
    SHOP,
    TOKEN,
    receipt_json,
    transaction_json,
)

CHAIN = ChainId("eip155", "8453")
COIN = "eip155:8453/slip44:60"
ASSET = f"eip155:8453/erc20:{TOKEN}"
OTHER_ASSET = f"eip155:8453/erc20:{OTHER_TOKEN}"
WATCHED = Watched(frozenset({TOKEN, OTHER_TOKEN}), frozenset({SHOP, OTHER_SHOP}), COIN)

TAGS = [payment_tag(f"pay_l{n}") for n in range(4)]
NONCES = [authorization_nonce(f"pay_l{n}") for n in range(4)]
KNOWN = frozenset((binding, asset) for binding in TAGS + NONCES for asset in (ASSET, OTHER_ASSET, COIN))
JUNK = b"\7" * 32


def transaction(**changes: object) -> Transaction:
    found = decode_transaction(transaction_json(**changes))
    assert found is not None
    return found


def receipt(*logs: dict[str, Any], **changes: object) -> Receipt:
    found = decode_receipt(receipt_json(*logs, **changes))
    assert found is not None
    return found


def sent(data: bytes, sender: str = BUYER, to: str = TOKEN, value: int = 0) -> Transaction:
    return transaction(**{"from": sender, "to": to, "input": to_data(data), "value": to_quantity(value)})


def paid(
    given: Transaction,
    *logs: dict[str, Any],
    known: frozenset[tuple[bytes, str]] = KNOWN,
    watched: Watched = WATCHED,
) -> tuple[BoundTransfer, ...]:
    return paid_by(CHAIN, given, receipt(*logs), watched, known)


def bound(*found: BoundTransfer) -> list[bytes | None]:
    return [one.binding for one in found]
