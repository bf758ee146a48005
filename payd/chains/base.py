"""What every chain can do, real or simulated.

A chain quotes and checks; it never decides that a payment moves. What it finds goes to the payment's actor
as a trigger.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from payd.core.caip import AccountId, AssetId
from payd.core.errors import PaydError
from payd.core.option import Display, Offer, Quote, Result, WalletRpc
from payd.core.payment import Payment, Processing, Trigger


class SeenTransfer(msgspec.Struct, frozen=True):
    """A transfer that the chain shows, whether or not it pays for something. `value` in minor units."""

    chain: str
    tx_id: str
    log_index: int
    asset: str
    value: int
    sender: str
    recipient: str


class Accepted(msgspec.Struct, frozen=True):
    """The results are good: the funds are committed."""

    processing: Processing


class Misaligned(msgspec.Struct, frozen=True):
    """The results do not match the executed actions in length and order; the payment fails."""


class Refused(msgspec.Struct, frozen=True):
    """The results are not good; the payment stays open and the wallet is told why."""

    error: PaydError


Verdict = Accepted | Misaligned | Refused


class Found(msgspec.Struct, frozen=True):
    """What a look at the chain found: a trigger for the payment, and the transfers seen with it."""

    trigger: Trigger
    transfers: tuple[SeenTransfer, ...] = ()


class Chain(Protocol):
    """One or more blockchains of a realm."""

    def serves(self, chain: str) -> bool:
        """Whether this CAIP-2 chain is one of mine."""

    def display(self, asset: AssetId) -> Display | None:
        """How amounts of the asset are shown; None when the asset is not known here."""

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now; None when it cannot."""

    async def resolve(self, payment: Payment, quote: Quote, data: str) -> tuple[WalletRpc, ...]:
        """The calls behind a build action.

        Raises:
            InvalidParams: `data` is not that of a build action of this quote.
        """

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay the quote. Has no effect on the chain."""

    def due_at_ms(self, payment: Payment) -> int | None:
        """When a processing or succeeded payment should be looked at next, by its stored notes alone."""

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """Look now: what the chain says about a processing or succeeded payment; None when nothing new."""

    async def refund_problem(self, payment: Payment, tx_id: str) -> str | None:
        """What is wrong with the transaction that a merchant names as a refund; None if nothing is."""

    def hold(self, payment: Payment, processing: Processing) -> Processing:
        """The same commitment, waiting for a person to move it (the simulation API)."""
