"""What is signed under a seed and brought to the chain by others: authorizations of EIP-3009."""

from __future__ import annotations

from typing import Final

from eth_abi.abi import decode
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from payd.chains.evm.codec import keccak256, to_data, word_of_address
from payd.chains.evm.events import AUTHORIZATION_USED
from payd.chains.evm.legs import legs_of
from tests.chains.fake_chain import FakeLog, log_of_transfer
from tests.simulation.chain import Authorized, Sent

RELAYER_KEY: Final = keccak256(b"relayer")
_WORDS: Final = ("address", "address", "uint256", "uint256", "uint256", "bytes32")


def authorized_in(to: str, data: bytes) -> tuple[Authorized, ...]:
    """The authorizations that a call carries out."""
    found = []
    for leg in legs_of(to, data):
        sender, recipient, value, _, valid_before_s, nonce = decode(_WORDS, leg.data[4:])
        found.append(Authorized(leg.token, sender, recipient, value, valid_before_s, nonce))
    return tuple(found)


def logs_of(uses: tuple[Authorized, ...]) -> tuple[FakeLog, ...]:
    """What tokens say when they carry these out."""
    return tuple(
        log
        for one in uses
        for log in (
            FakeLog(one.token, (AUTHORIZATION_USED, word_of_address(one.sender), one.nonce), b""),
            log_of_transfer(one.sender, one.recipient, one.value, one.token),
        )
    )


def relayed(raw: bytes) -> Sent:
    """A signed transaction of the relayer's, read back from its bytes."""
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    to, data = to_data(bytes(fields["to"])), bytes(fields["data"])
    uses = authorized_in(to, data)
    return Sent(
        str(Account.recover_transaction(raw)).lower(),
        to,
        fields["value"],
        data,
        logs_of(uses),
        hash=to_data(keccak256(raw)),
        nonce=fields["nonce"],
        uses=uses,
    )
