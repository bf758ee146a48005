"""What accounts are offered on Solana: at which price, until when, and what binds what they then sign.

An offer is a build action: the transaction itself is made when a wallet fetches it, because it lives for a
minute only. Nothing is offered at a price that nobody agrees on, or in a token that is not what its row says.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from solders.pubkey import Pubkey

from payd.chains.assets import AssetBook
from payd.chains.base import Ask
from payd.chains.depth import depth_of
from payd.chains.fee_terms import operators_part
from payd.chains.market.prices import Priced, Prices
from payd.chains.solana.answers import Account
from payd.chains.solana.binding import reference_of
from payd.chains.solana.due import NOBODY, Due, due_of
from payd.chains.solana.facts import At, Fact, Facts, Price, Rent
from payd.chains.solana.plan import write_plan
from payd.chains.solana.terms import ETA_S, Terms
from payd.chains.solana.ways import Cannot, Seen, can_take_fee, mint_of, places_of, price_place, way
from payd.core.caip import AccountId, AssetId, canonical_account
from payd.core.money import convert_up, exponent
from payd.core.option import Action, Build, Offer
from payd.core.payment import Payment

CanSponsor = Callable[[str], bool]
"""Whether we would pay for a payment of this account (canonical CAIP-10) now."""

# How long a rate of a volatile asset holds.
QUOTE_LIFETIME_MS: Final = 90_000


class Offers:
    """The offers of one chain.

    Args:
        terms: What the operator set.
        book: Its assets.
        prices: What they cost.
        facts: What accounts have.
        can_sponsor: Asked for each account that has no SOL for the network.
    """

    def __init__(
        self, terms: Terms, book: AssetBook, prices: Prices, facts: Facts, can_sponsor: CanSponsor
    ) -> None:
        self._terms = terms
        self._book = book
        self._prices = prices
        self._facts = facts
        self._can_sponsor = can_sponsor

    async def read_ahead(self, payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        """Read what these offers need, all of it at once.

        Raises:
            ChainUnavailable: No node answers.
        """
        wanted = [self._due(payment, ask.asset, ask.account, ask.destination, now_ms) for ask in asks]
        found = [due for due in wanted if due is not None]
        await self._facts.read([fact for due in found for fact in _facts_of(due)], now_ms)

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now; None when it cannot.

        Raises:
            ChainUnavailable: No node answers.
        """
        due = self._due(payment, asset, account, destination, now_ms)
        if due is None:
            return None
        priced = await self._prices.price(payment.currency, due.row, now_ms)
        if priced is None:
            return None
        seen = await _look_at(self._facts, self._terms, due, now_ms)
        divided = await self._divided(due, priced, seen, now_ms)
        if divided is None or isinstance(way(divided, seen, self._sponsor(account)), Cannot):
            return None
        operator = None if divided.operator is None else str(divided.operator)
        action = Build(write_plan(divided.amount, divided.fee, operator))
        return await self._offer(divided, asset, account, action, priced, now_ms)

    async def by_link(
        self,
        payment: Payment,
        asset: AssetId,
        destination: str,
        now_ms: int,
        link_of: Callable[[Due, Seen], str | None],
    ) -> Offer | None:
        """What whoever follows a link would pay in the asset now; None where there is no such link.

        A link has no place for a fee: where that is mandatory there is none, else it goes without.

        Raises:
            ChainUnavailable: No node answers.
        """
        account = AccountId(self._terms.chain, str(NOBODY))
        due = due_of(self._terms, self._book, payment, asset, account, destination)
        if due is None or now_ms >= payment.expires_at_ms:
            return None
        priced = await self._prices.price(payment.currency, due.row, now_ms)
        if priced is None:
            return None
        seen = await _look_at(self._facts, self._terms, due, now_ms)
        due = msgspec.structs.replace(due, amount=_amount(due, priced))
        fee = await self._fee(due, now_ms)
        link = None if fee != 0 and self._must_take_fee else link_of(due, seen)
        if link is None:
            return None
        return await self._offer(due, asset, account, Build(link), priced, now_ms)

    def _due(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Due | None:
        due = due_of(self._terms, self._book, payment, asset, account, destination)
        return None if due is None or due.buyer == NOBODY or now_ms >= payment.expires_at_ms else due

    def _sponsor(self, account: AccountId) -> Pubkey | None:
        fee_payer = self._terms.sponsor_key
        return fee_payer if fee_payer and self._can_sponsor(canonical_account(account)) else None

    async def _divided(self, due: Due, priced: Priced, seen: Seen, now_ms: int) -> Due | None:
        """The same with its amount and the operator's part; None where a fee is mandatory and cannot be."""
        due = msgspec.structs.replace(due, amount=_amount(due, priced))
        fee = await self._fee(due, now_ms)
        if fee is not None:
            with_fee = msgspec.structs.replace(due, fee=fee)
            if fee == 0 or can_take_fee(with_fee, seen):
                return with_fee
        return None if self._must_take_fee else due

    @property
    def _must_take_fee(self) -> bool:
        """Whether a payment may not go without the fee that there is for it."""
        return self._terms.fee is not None and self._terms.fee.mandatory

    async def _fee(self, due: Due, now_ms: int) -> int | None:
        """The operator's part, rounded down; None where it cannot be worked out, or would be all there is."""
        terms = self._terms.fee
        if terms is None or due.operator is None:
            return 0
        return await operators_part(terms, self._prices, due.row, due.amount, now_ms)

    async def _offer(
        self, due: Due, asset: AssetId, account: AccountId, action: Action, priced: Priced, now_ms: int
    ) -> Offer:
        depth = await depth_of(self._terms.depth, self._prices, due.payment, due.row, due.amount, now_ms)
        ends_ms = due.payment.expires_at_ms
        return Offer(
            asset=str(asset),
            account=str(account),
            amount=due.amount,
            actions=(action,),
            eta_s=ETA_S.get(str(depth), ETA_S["finalized"]),
            valid_until_ms=ends_ms if priced.stable else min(now_ms + QUOTE_LIFETIME_MS, ends_ms),
            due=due.amount - due.fee if due.fee else None,
            bindings=(reference_of(due.payment.id),),
        )


async def _look_at(facts: Facts, terms: Terms, due: Due, now_ms: int) -> Seen:
    """What there is of the accounts that decide, as it was some seconds ago at most."""
    await facts.read(_facts_of(due), now_ms)
    accounts = {place: await facts.account(place, now_ms) for place in places_of(due)}
    return await seen_with(accounts, facts, terms, due, now_ms)


async def seen_with(
    accounts: Mapping[At, Account | None], facts: Facts, terms: Terms, due: Due, now_ms: int
) -> Seen:
    """These accounts, with what the chain asks of who pays.

    Raises:
        ChainUnavailable: No node answers.
    """
    mint = None if due.token is None else mint_of(due, accounts)
    rents = [Rent(0)] if mint is None else [Rent(0), Rent(mint.holding_bytes)]
    price = Price(price_place(due))
    await facts.read([*rents, price], now_ms)
    return Seen(
        accounts=accounts,
        wallet_rent=await facts.number(rents[0], now_ms),
        holding_rent=0 if mint is None else await facts.number(rents[1], now_ms),
        unit_price=min(await facts.number(price, now_ms), terms.price_max),
    )


def _facts_of(due: Due) -> tuple[Fact, ...]:
    return (*places_of(due), Rent(0), Price(price_place(due)))


def _amount(due: Due, priced: Priced) -> int:
    payment = due.payment
    return convert_up(payment.value, exponent(payment.currency), priced.rate, due.row.decimals)
