"""What every chain can do, real or simulated.

A chain quotes and checks; it never decides that a payment moves. What it finds goes to the payment's actor
as a trigger.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from payd.core.caip import AccountId, AssetId
from payd.core.collect import Field
from payd.core.errors import PaydError
from payd.core.money import Rate
from payd.core.option import Display, Offer, Quote, Result, WalletRpc
from payd.core.payment import Payment, Processing, Trigger
from payd.core.relay import RelayJob
from payd.core.submission import Submission
from payd.store.sightings import Sighting
from payd.store.transfers import Follow


class Ask(msgspec.Struct, frozen=True):
    """Whether an account can pay in an asset. `destination` is CAIP-10."""

    asset: AssetId
    account: AccountId
    destination: str


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
    """The results are good: the funds are committed.

    Attributes:
        processing: The commitment.
        job: What is then owed to the chain; stored with the commitment or not at all.
    """

    processing: Processing
    job: RelayJob | Submission | None = None


class Resolved(msgspec.Struct, frozen=True):
    """The calls behind a build action.

    Attributes:
        valid_until_ms: From when on no results of theirs can pay; None: as long as their quote.
    """

    calls: tuple[WalletRpc, ...]
    valid_until_ms: int | None = None


class Unseen(msgspec.Struct, frozen=True):
    """A node shows nothing yet of the transaction that the wallet told of; the payment stays open."""


class Misaligned(msgspec.Struct, frozen=True):
    """The results do not match the executed actions in length and order; the payment fails."""


class Refused(msgspec.Struct, frozen=True):
    """The results are not good; the payment stays open and the wallet is told why."""

    error: PaydError


Verdict = Accepted | Unseen | Misaligned | Refused


class Found(msgspec.Struct, frozen=True):
    """What a look at the chain found.

    Attributes:
        trigger: What moves the payment; None when only the time of the next look has changed.
        transfers: Seen with it, and not stored yet.
        follow: The stored transfer that it rests on.
        denied: A stored transfer of which the nodes agree that it never was in its block.
    """

    trigger: Trigger | None
    transfers: tuple[SeenTransfer, ...] = ()
    follow: Follow | None = None
    denied: Sighting | None = None


class Funds(msgspec.Struct, frozen=True):
    """What an account has of what it would pay with, in minor units; `coin` is CAIP-19.

    Attributes:
        amount: What it would pay.
        has: What it has of that.
        fee: About what the network takes, in coins, from who sends it.
        coins: What the account has of those.
    """

    amount: int
    has: int
    fee: int
    coins: int
    coin: str


class Unsigned(msgspec.Struct, frozen=True):
    """A transaction for a merchant's wallet to sign, which we then bring to its chain.

    Attributes:
        raw: As it goes over the wire, with empty signatures.
        valid_until: The last block height at which it can land.
    """

    raw: bytes
    valid_until: int


class Brought(msgspec.Struct, frozen=True):
    """What has become of such a transaction.

    Attributes:
        tx_id: Its id.
        state: sent: it may still land. landed: the chain shows it. failed: final, and it did nothing.
            nowhere: it did not land, and cannot any more.
    """

    tx_id: str
    state: Literal["sent", "landed", "failed", "nowhere"]


class Chain(Protocol):
    """One or more blockchains of a realm.

    Attributes:
        has_nodes: Whether a look asks nodes, and may take its time.
    """

    has_nodes: bool

    def serves(self, chain: str) -> bool:
        """Whether this CAIP-2 chain is one of mine."""

    def display(self, asset: AssetId) -> Display | None:
        """How amounts of the asset are shown; None when the asset is not known here."""

    async def rate(self, currency: str, asset: AssetId, now_ms: int) -> Rate | None:
        """What offers in the asset are priced at; None: nobody can say now, or the asset is not known here.

        No node is asked, unless its word is one of the prices.
        """

    async def read_ahead(self, payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        """Read in one go what the offers for these will need.

        Raises:
            ChainUnavailable: No node answers.
        """

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now; None when it cannot.

        Raises:
            ChainUnavailable: No node answers.
        """

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        """The calls behind a build action.

        Raises:
            InvalidParams: `data` is not that of a build action of this quote.
            QuoteExpired: What it was made from is no longer so.
            InvalidState: The account cannot pay any more.
            RateLimited: We would have to pay for it, and have paid for enough.
            ChainUnavailable: No node answers.
        """

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay the quote. Has no effect on the chain.

        Raises:
            ChainUnavailable: No node answers.
        """

    async def destination_problem(self, asset: AssetId, destination: AccountId) -> str | None:
        """What the chain itself shows to be wrong with `destination` as the place where `asset` is paid to.

        Raises:
            ChainUnavailable: No node answers.
        """

    def read_until_ms(self, chain: str) -> int | None:
        """Up to which time of its own clock each block of the chain was read; None: always up to now.

        A payment that could be paid there does not expire before its window lies behind this.
        """

    def due_at_ms(self, payment: Payment) -> int | None:
        """When a processing or succeeded payment should be looked at next, by its stored notes alone."""

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """Look now: what the chain says about a payment; None when nothing new.

        Raises:
            ChainUnavailable: No node answers.
        """

    async def refund_problem(self, payment: Payment, tx_id: str) -> str | None:
        """What is wrong with the transaction that a merchant names as a refund; None if nothing is."""


@runtime_checkable
class PaysByLink(Chain, Protocol):
    """A chain where a plain transfer names its payment, so that a link is all that a wallet needs."""

    async def pay_offer(
        self, payment: Payment, asset: AssetId, destination: str, now_ms: int, *, label: str = ""
    ) -> Offer | None:
        """What anybody would pay in the asset now; None when no link can ask for it.

        The account is one that nobody holds, and the one action a `Build` whose data is the link. The link
        says in `label` who asks.

        Raises:
            ChainUnavailable: No node answers.
        """


@runtime_checkable
class ShowsFunds(Chain, Protocol):
    """A chain that can say why an account is not offered an asset."""

    async def funds(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Funds | None:
        """What the account has of the asset and of what sending it costs; None where nobody can pay with it.

        Raises:
            ChainUnavailable: No node answers.
        """


@runtime_checkable
class BringsRefunds(Chain, Protocol):
    """A chain whose wallets sign what others bring there, so that a refund needs us between the two."""

    async def write_refund(self, payment: Payment, account: AccountId, now_ms: int) -> Unsigned:
        """What pays a payment back from an account of the merchant.

        Raises:
            PaymentNotSucceeded: It was not paid.
            InvalidParams: Nobody knows who paid it, or the account cannot be the one that pays it back.
            InvalidState: The chain would refuse it.
            ChainUnavailable: No node answers.
        """

    async def bring_refund(self, payment: Payment, unsigned: Unsigned, signed: str, now_ms: int) -> Brought:
        """Bring what a wallet signed to the chain, again if it was, or say what has become of it.

        Args:
            payment: What it pays back.
            unsigned: As it was written for that.
            signed: What the wallet gave back, in base64.
            now_ms: Unix milliseconds of the realm.

        Raises:
            InvalidParams: That is another transaction, or none.
            InvalidSignature: It is not signed by who pays.
            InvalidState: Another one for the payment was brought, and may still land.
            ChainUnavailable: Too few nodes answer.
        """


@runtime_checkable
class AsksBuyers(Chain, Protocol):
    """A chain that asks something of a buyer where the merchant asks nothing."""

    def fields_of(self, account: AccountId) -> tuple[Field, ...]:
        """What is asked of who pays from this account."""


@runtime_checkable
class CountsBlocks(Chain, Protocol):
    """A chain where a payment has succeeded once so many blocks confirm its transfer."""

    def depth_of(self, payment: Payment) -> int | None:
        """How many blocks a processing payment waits for; None where it waits for something else."""
