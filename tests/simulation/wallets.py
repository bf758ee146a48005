"""Buyers' wallets under a seed: what they send to the chain when they are asked to pay."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from payd.chains.evm.binding import TRANSFER_BYTES, TRANSFER_SELECTOR
from payd.chains.evm.codec import address_of_word
from tests.chains.fake_chain import FakeLog, log_of_transfer
from tests.simulation.chain import Chain, Sent

BUYERS: Final = tuple(f"0xb0b000000000000000000000000000000000000{place}" for place in range(1, 6))
MERCHANT: Final = "0x5e11000000000000000000000000000000000001"


class Wallet:
    """One buyer's.

    Args:
        chain: Where it sends to.
        address: Its account, in lower case.
    """

    def __init__(self, chain: Chain, address: str) -> None:
        self.chain = chain
        self.address = address

    def transaction(self, action: dict[str, Any]) -> Sent:
        """What an `eth_sendTransaction` asks for, signed."""
        assert action["method"] == "eth_sendTransaction", action
        [asked] = msgspec.json.decode(action["params"])
        assert asked["from"].lower() == self.address
        data, value = bytes.fromhex(asked["data"][2:]), int(asked["value"], 16)
        return self.signed(asked["to"].lower(), data, value)

    def signed(self, to: str, data: bytes, value: int) -> Sent:
        """A transaction with the next free nonce."""
        nonce = self.chain.next_nonce(self.address)
        called = _transfer(data)
        logs: tuple[FakeLog, ...] = ()
        if called is not None:
            recipient, amount = called
            logs = (log_of_transfer(self.address, recipient, amount, to),)
        return Sent(self.address, to, value, data, logs, hash=self.chain.name(), nonce=nonce)


def _transfer(data: bytes) -> tuple[str, int] | None:
    """Recipient and amount of a token's `transfer`; None where it is no such call."""
    if not data.startswith(TRANSFER_SELECTOR) or len(data) < TRANSFER_BYTES:
        return None
    recipient = address_of_word(data[4:36])
    return None if recipient is None else (recipient, int.from_bytes(data[36:68], "big"))
