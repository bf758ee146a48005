"""What a wallet is asked to do on an EVM chain, and reading it back from the actions that were stored.

A signature is for the destination itself; whoever submits it can change nothing. A transaction carries the
payment's tag: after the calldata of a token's `transfer`, or as the data of a native coin's. A bare amount
would bind nothing: whoever sees it on the chain could claim it for a payment of the same price.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from payd.chains.evm.authorization import Authorization, read_typed_data, typed_data
from payd.chains.evm.binding import tagged_transfer
from payd.chains.evm.codec import from_address, from_data, from_quantity, to_data, to_quantity
from payd.core.caip import ChainId, to_checksum_address
from payd.core.option import Action, WalletRpc

SIGN: Final = "eth_signTypedData_v4"
SEND: Final = "eth_sendTransaction"


class Sending(msgspec.Struct, frozen=True):
    """One transaction that the wallet sends. `to` in lower case, `value` in smallest units of the coin."""

    to: str
    data: bytes
    value: int


Asked = tuple[Authorization, ...] | Sending
"""Authorizations to sign, the merchant's first; or a transaction to send."""


def sign_action(chain: ChainId, account: str, authorization: Authorization) -> WalletRpc:
    """A signature of `account`, which is written as the wallet writes it."""
    text = msgspec.json.encode(typed_data(authorization)).decode()
    return WalletRpc(str(chain), SIGN, [account, text])


def send_token_action(
    chain: ChainId, account: str, token: str, destination: str, value: int, tag: bytes
) -> WalletRpc:
    """A transfer of tokens with the tag behind it."""
    return _send(chain, account, Sending(token, tagged_transfer(destination, value, tag), 0))


def send_coin_action(chain: ChainId, account: str, destination: str, value: int, tag: bytes) -> WalletRpc:
    """A transfer of the native coin with the tag as its data; only for a destination without code."""
    return _send(chain, account, Sending(destination, tag, value))


def read_actions(actions: Sequence[Action]) -> Asked:
    """What the actions of a quote ask for.

    Raises:
        ValueError: They are none of those above.
    """
    match actions:
        case [WalletRpc(method="eth_sendTransaction", params=[{"to": to, "data": data, "value": value}])]:
            return Sending(from_address(to), from_data(data), from_quantity(value))
        case [_, *_]:
            return tuple(_authorization(action) for action in actions)
    raise ValueError("a quote without actions")


def _send(chain: ChainId, account: str, sending: Sending) -> WalletRpc:
    transaction = {
        "from": account,
        "to": to_checksum_address(sending.to),
        "data": to_data(sending.data),
        "value": to_quantity(sending.value),
    }
    return WalletRpc(str(chain), SEND, [transaction])


def _authorization(action: Action) -> Authorization:
    match action:
        case WalletRpc(method="eth_signTypedData_v4", params=[str(), str(text)]):
            return read_typed_data(msgspec.json.decode(text))
    raise ValueError("an action that no EVM chain hands out")
