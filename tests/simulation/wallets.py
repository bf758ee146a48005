"""Buyers' wallets under a seed: what they send to the chain when they are asked to pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
from eth_account import Account
from eth_account.messages import encode_typed_data

from payd.chains.evm.authorization import read_typed_data, transfer_with_authorization_call
from payd.chains.evm.binding import TRANSFER_BYTES, TRANSFER_SELECTOR, transfer_call
from payd.chains.evm.codec import address_of_word, keccak256
from tests.chains.fake_chain import FakeLog, log_of_transfer
from tests.simulation.chain import Chain, Sent
from tests.simulation.relayed import authorized_in, logs_of

KEYS: Final = {
    str(one.address).lower(): one for one in (Account.from_key(keccak256(b"buyer %d" % n)) for n in range(5))
}
BUYERS: Final = tuple(KEYS)
# A contract that acts for whoever calls it.
WRAPPER: Final = "0xc0c0000000000000000000000000000000000001"
MERCHANT: Final = "0x5e11000000000000000000000000000000000001"
# Merchants have several, and put one in the place of another.
OWN_WALLETS: Final = (MERCHANT, f"{MERCHANT[:-1]}2", f"{MERCHANT[:-1]}3")


class Wallet:
    """One buyer's.

    Args:
        chain: Where it sends to.
        address: Its account, in lower case.
        now_s: The time by the chain's clock.
    """

    def __init__(self, chain: Chain, address: str, now_s: Callable[[], int]) -> None:
        self.chain = chain
        self.address = address
        self._now_s = now_s

    def transaction(self, action: dict[str, Any], *, checked: bool = True) -> Sent:
        """What an `eth_sendTransaction` asks for, signed; unless `checked`, whoever was asked."""
        assert action["method"] == "eth_sendTransaction", action
        [asked] = msgspec.json.decode(action["params"])
        assert not checked or asked["from"].lower() == self.address
        data, value = bytes.fromhex(asked["data"][2:]), int(asked["value"], 16)
        return self.signed(asked["to"].lower(), data, value)

    def signature(self, action: dict[str, Any]) -> str:
        """What an `eth_signTypedData_v4` asks for."""
        assert action["method"] == "eth_signTypedData_v4", action
        asked, text = msgspec.json.decode(action["params"])
        assert asked.lower() == self.address
        message = encode_typed_data(full_message=msgspec.json.decode(text))
        return "0x" + bytes(KEYS[self.address].sign_message(message).signature).hex()

    def brought(self, action: dict[str, Any]) -> Sent:
        """What was signed, brought to the chain by the buyer, who pays the gas."""
        _, text = msgspec.json.decode(action["params"])
        authorization = read_typed_data(msgspec.json.decode(text))
        signature = bytes.fromhex(self.signature(action)[2:])
        token = authorization.domain.token
        sent = self.signed(token, transfer_with_authorization_call(authorization, signature), 0)
        uses = authorized_in(token, sent.input)
        return replace(sent, logs=logs_of(uses), uses=uses)

    def of_other_amount(self, due: Sent, part: float) -> Sent:
        """The same transaction, with so much of its amount."""
        called = _transfer(due.input)
        if called is None:
            return self.signed(due.to, due.input, round(due.value * part))
        recipient, amount = called
        data = transfer_call(recipient, round(amount * part)) + due.input[TRANSFER_BYTES:]
        return self.signed(due.to, data, 0)

    def to_another(self, due: Sent, wallet: str) -> Sent:
        """The same transaction, that pays another wallet."""
        called = _transfer(due.input)
        if called is None:
            return self.signed(wallet, due.input, due.value)
        return self.signed(due.to, transfer_call(wallet, called[1]) + due.input[TRANSFER_BYTES:], 0)

    def signed(self, to: str, data: bytes, value: int) -> Sent:
        """A transaction with the next free nonce."""
        nonce = self.chain.next_nonce(self.address)
        called = _transfer(data)
        logs: tuple[FakeLog, ...] = ()
        if called is not None:
            recipient, amount = called
            logs = (log_of_transfer(self.address, recipient, amount, to),)
        name = self.chain.name()
        return Sent(self.address, to, value, data, logs, hash=name, nonce=nonce, sent_s=self._now_s())


def paid_by(action: dict[str, Any]) -> str:
    """Whom a wallet would pay that did what it is asked for."""
    asked = msgspec.json.decode(action["params"])
    if action["method"] == "eth_signTypedData_v4":
        return read_typed_data(msgspec.json.decode(asked[1])).recipient
    [call] = asked
    called = _transfer(bytes.fromhex(call["data"][2:]))
    return str(call["to"]).lower() if called is None else called[0]


def _transfer(data: bytes) -> tuple[str, int] | None:
    """Recipient and amount of a token's `transfer`; None where it is no such call."""
    if not data.startswith(TRANSFER_SELECTOR) or len(data) < TRANSFER_BYTES:
        return None
    recipient = address_of_word(data[4:36])
    return None if recipient is None else (recipient, int.from_bytes(data[36:68], "big"))
