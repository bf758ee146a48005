"""What accounts are offered on an EVM chain: at which price, until when, and what binds what they then send.

Nothing is offered at a price that nobody agrees on, or in a token that is not what its row says.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from payd.chains.assets import Asset, AssetBook
from payd.chains.base import Ask, Funds
from payd.chains.depth import depth_of
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.codec import UINT256_MAX
from payd.chains.evm.facts import Answers, Balance, Code, Coins, Fact, Facts, GasPrice
from payd.chains.evm.signature import delegation_of
from payd.chains.evm.terms import Terms, eta_s
from payd.chains.evm.tokens import Tokens
from payd.chains.evm.ways import Due, Ways, sending_fee
from payd.chains.fee_terms import operators_part
from payd.chains.market.prices import Priced, Prices
from payd.core.caip import (
    AccountId,
    AssetId,
    account_problem,
    canonical_chain,
    parse_account,
    parse_asset,
)
from payd.core.money import convert_up, exponent
from payd.core.option import Offer
from payd.core.payment import Payment

# How long a rate of a volatile asset holds.
QUOTE_LIFETIME_MS: Final = 90_000


class Offers:
    """The offers of one chain.

    Args:
        terms: What the operator set.
        book: Its assets.
        prices: What they cost.
        facts: What accounts have.
        tokens: What tokens say of their rows.
        ways: How accounts can pay.
    """

    def __init__(
        self, terms: Terms, book: AssetBook, prices: Prices, facts: Facts, tokens: Tokens, ways: Ways
    ) -> None:
        self._terms = terms
        self._book = book
        self._prices = prices
        self._facts = facts
        self._tokens = tokens
        self._ways = ways

    async def read_ahead(self, payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        """Read what these offers need, all of it at once.

        Raises:
            ChainUnavailable: No node answers.
        """
        wanted = [self._wanted(payment, ask.asset, ask.account, ask.destination, now_ms) for ask in asks]
        found = [due for due in wanted if due is not None]
        if not found:
            return
        facts: list[Fact] = [GasPrice()]
        for due in found:
            facts += [Coins(due.buyer), Code(due.buyer)]
            facts.append(Code(due.destination) if due.token is None else Balance(due.token, due.buyer))
        await self._tokens.read([due.row for due in found if due.token is not None], now_ms)
        await self._facts.read(facts, now_ms)
        if self._ways.signs:
            await self._read_delegated(found, now_ms)

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now; None when it cannot.

        Raises:
            ChainUnavailable: No node answers.
        """
        due = self._wanted(payment, asset, account, destination, now_ms)
        if due is None:
            return None
        report = None if due.token is None else await self._tokens.report(due.row, now_ms)
        if report is not None and not report.is_payable(due.row):
            return None
        priced = await self._prices.price(payment.currency, due.row, now_ms)
        if priced is None:
            return None
        amount = _amount(payment, due, priced)
        if amount > UINT256_MAX:
            return None
        due = msgspec.structs.replace(due, amount=amount, fee=await self._fee(due, amount, now_ms))
        actions = await self._ways.actions(due, report, now_ms)
        if actions is None:
            return None
        depth = await depth_of(self._terms.depth, self._prices, payment, due.row, amount, now_ms)
        volatile_ms = payment.expires_at_ms if priced.stable else now_ms + QUOTE_LIFETIME_MS
        return Offer(
            asset=str(asset),
            account=str(account),
            amount=amount,
            actions=actions,
            eta_s=eta_s(depth, self._terms.block_ms),
            valid_until_ms=min(volatile_ms, payment.expires_at_ms),
            # The second signature is for the operator's part.
            due=None if len(actions) == 1 else amount - (due.fee or 0),
            bindings=_bindings(payment, due.row),
        )

    async def funds(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Funds | None:
        """What the account has of the asset and of what sending it costs; None where nobody can pay with it.

        Raises:
            ChainUnavailable: No node answers.
        """
        due = self._wanted(payment, asset, account, destination, now_ms)
        coin = next((row for row in self._book.rows_of(self._terms.chain) if row.kind == "native"), None)
        if due is None or coin is None:
            return None
        priced = await self._prices.price(payment.currency, due.row, now_ms)
        if priced is None:
            return None
        coins = await self._facts.coins(due.buyer, now_ms)
        has = coins if due.token is None else await self._facts.balance(due.token, due.buyer, now_ms)
        if has is None:
            return None
        fee = sending_fee(due.token, await self._facts.gas_price(now_ms))
        return Funds(_amount(payment, due, priced), has, fee, coins, coin.asset)

    def _wanted(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Due | None:
        """What is asked for, still without an amount; None if nothing can come of it."""
        row = self._book.find(asset)
        paid = parse_account(destination)
        if row is None or now_ms >= payment.expires_at_ms:
            return None
        if any(canonical_chain(one.chain) != self._terms.chain for one in (asset, account, paid)):
            return None
        if account_problem(account) is not None or account_problem(paid) is not None:
            return None
        token = None if row.kind == "native" else parse_asset(row.asset).reference.lower()
        due = Due(payment, row, token, account, paid.address.lower(), 0)
        return None if due.buyer in (due.destination, token) else due

    async def _read_delegated(self, wanted: Sequence[Due], now_ms: int) -> None:
        """Ask accounts that let a contract act for them whether it answers for signatures."""
        buyers = {due.buyer for due in wanted if due.row.kind == "eip3009"}
        codes = {buyer: await self._facts.code(buyer, now_ms) for buyer in sorted(buyers)}
        await self._facts.read(
            [Answers(buyer) for buyer, code in codes.items() if delegation_of(code) is not None], now_ms
        )

    async def _fee(self, due: Due, amount: int, now_ms: int) -> int | None:
        """The operator's part, rounded down; None where it cannot be worked out, or would be all there is."""
        terms = self._terms.fee
        if terms is None or terms.address in (due.destination, due.buyer):
            return 0
        return await operators_part(terms, self._prices, due.row, amount, now_ms)


def _amount(payment: Payment, due: Due, priced: Priced) -> int:
    return convert_up(payment.value, exponent(payment.currency), priced.rate, due.row.decimals)


def _bindings(payment: Payment, row: Asset) -> tuple[bytes, ...]:
    """Whatever may bind a transfer in this asset, also by another quote of the same option."""
    tag = payment_tag(payment.id)
    if row.kind != "eip3009":
        return (tag,)
    return (tag, authorization_nonce(payment.id), authorization_nonce(payment.id, "fee"))
