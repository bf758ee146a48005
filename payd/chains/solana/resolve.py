"""The transaction behind a build action, made when a wallet asks for it: a blockhash lives for a minute.

Who pays the fee and what is created is decided anew, from accounts as they are now; the chain tries it; and
where we pay, it is reserved, stored and signed in one step before anybody sees it.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Final

import msgspec
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.asking import answered, read, unavailable
from payd.chains.assets import AssetBook
from payd.chains.base import Resolved
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Blockhash, decode_blockhash
from payd.chains.solana.asking import latest_blockhash_call
from payd.chains.solana.budget import PURSE_EMPTY, Budget, Purse
from payd.chains.solana.build import Wanted, build_message, split, unsigned, with_signature
from payd.chains.solana.due import Due, due_of
from payd.chains.solana.facts import At, Facts, Wallet, accounts_in, calls_for
from payd.chains.solana.lifetime import BLOCKHASH_BLOCKS, last_valid_height
from payd.chains.solana.offers import seen_with
from payd.chains.solana.pay_links import SCHEME
from payd.chains.solana.plan import NOT_OURS, Plan, read_plan
from payd.chains.solana.terms import Terms
from payd.chains.solana.trial import refusal_of
from payd.chains.solana.ways import Cannot, Seen, Way, can_take_fee, places_of, way
from payd.core.caip import canonical_account, parse_account, parse_asset
from payd.core.errors import InvalidParams, InvalidState, QuoteExpired
from payd.core.option import Action, Build, Quote, WalletRpc
from payd.core.payment import Payment
from payd.store.builds import Build as StoredBuild
from payd.store.builds import find_build, hash_message, insert_build
from payd.store.db import Database
from payd.store.options import quotes_of

METHOD: Final = "solana_signTransaction"

# What is handed out again has so many left at least: two thirds of a minute.
REUSE_BLOCKS_MIN: Final = 100
# Blocks come at half their pace at worst; then what was handed out is over. So an option never has more valid
# quotes than it may have, however often a wallet fetches: one for each third of a blockhash's life.
SLOW: Final = 2

BY_LINK: Final = "This is a link for a Solana wallet. Open it there; it has no transaction to be fetched."
CHANGED: Final = "What was quoted is no longer so. Ask for options again."
REFUSED: Final = "The blockchain would refuse this payment now: {}."


class Resolver:
    """The build actions of one chain.

    Args:
        terms: What the operator set.
        rpc: Its nodes.
        db: The realm's store.
        book: Its assets.
        facts: What is known of rents and prices.
        budget: What we may pay for; None: nothing.
    """

    def __init__(
        self, terms: Terms, rpc: Rpc, db: Database, book: AssetBook, facts: Facts, budget: Budget | None
    ) -> None:
        self._terms = terms
        self._rpc = rpc
        self._db = db
        self._book = book
        self._facts = facts
        self._budget = budget if terms.sponsor else None

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        """The call behind a build action: one transaction to be signed.

        Asked for again within some seconds, it is the same one, if nothing has changed.

        Raises:
            InvalidParams: `data` is not that of a build action of this quote.
            QuoteExpired: What it was made from is no longer so.
            InvalidState: The account cannot pay, or the merchant not be paid.
            RateLimited: We would have to pay the fee, and have paid for enough.
            ChainUnavailable: No node answers.
        """
        if Build(data) not in quote.actions:
            raise InvalidParams(NOT_OURS)
        if data.startswith(SCHEME):
            raise InvalidParams(BY_LINK)
        due = self._due(payment, quote, read_plan(data))
        seen, blockhash = await self._look(due, now_ms)
        if due.fee and not can_take_fee(due, seen):
            raise QuoteExpired(CHANGED)
        found = way(due, seen, None if self._budget is None else self._budget.address)
        if isinstance(found, Cannot):
            raise InvalidState(found.words)
        buyer = canonical_account(parse_account(quote.account))
        return self._again(quote, found.wanted, blockhash, now_ms) or await self._new(
            due, seen, found, blockhash, buyer, now_ms
        )

    def _due(self, payment: Payment, quote: Quote, plan: Plan) -> Due:
        """What was quoted, if it can still be divided so."""
        amount, fee = int(plan.amount), int(plan.fee)
        if (amount, amount - fee) != (quote.amount, quote.settlement_value):
            raise InvalidParams(NOT_OURS)
        due = due_of(
            self._terms,
            self._book,
            payment,
            parse_asset(quote.asset),
            parse_account(quote.account),
            quote.destination,
        )
        if due is None:
            raise QuoteExpired(CHANGED)
        # The operator takes a fee elsewhere now, or none any more; what was quoted needs its place.
        if fee and str(due.operator) != plan.operator:
            raise QuoteExpired(CHANGED)
        return msgspec.structs.replace(due, amount=amount, fee=fee)

    async def _look(self, due: Due, now_ms: int) -> tuple[Seen, Blockhash]:
        """The accounts as they are now, and a blockhash, of one node."""
        places: list[At] = list(places_of(due))
        if self._budget is not None:
            places.append(Wallet(self._budget.address))
        calls = calls_for(places)
        *results, newest = await read(self._rpc, [*calls, latest_blockhash_call()])
        try:
            accounts, blockhash = accounts_in(places, results), decode_blockhash(answered(newest))
        except BadAnswer as bad:
            raise unavailable(bad) from bad
        return await seen_with(accounts, self._facts, self._terms, due, now_ms), blockhash

    def _again(self, quote: Quote, wanted: Wanted, newest: Blockhash, now_ms: int) -> Resolved | None:
        """What was handed out before, if the same would be built now and it lives long enough."""
        height = newest.last_valid_height - BLOCKHASH_BLOCKS
        for before in self._db.point(quotes_of, quote.payment_id, quote.option_id, now_ms):
            for raw in _transactions(before.actions):
                message = split(raw)[1]
                build = self._db.point(find_build, hash_message(message))
                if build is None or build.state != "out":
                    continue
                if build.valid_until_height - height < REUSE_BLOCKS_MIN:
                    continue
                if build_message(wanted, str(Message.from_bytes(message).recent_blockhash)) == message:
                    return self._resolved(raw, wanted.buyer, build.created_at_ms)
        return None

    async def _new(
        self, due: Due, seen: Seen, found: Way, blockhash: Blockhash, buyer: str, now_ms: int
    ) -> Resolved:
        message = build_message(found.wanted, blockhash.hash)
        raw = unsigned(message)
        we_pay = self._budget is not None and found.wanted.fee_payer == self._budget.address
        build = StoredBuild(
            message_hash=hash_message(message),
            payment_id=due.payment.id,
            chain=str(self._terms.chain),
            buyer=buyer,
            valid_until_height=await last_valid_height(self._rpc, blockhash),
            created_at_ms=now_ms,
            cost=found.cost if we_pay else 0,
            opens=str(due.holding_of(due.destination)) if we_pay and found.rent else None,
        )
        if not we_pay or self._budget is None:
            await self._try(raw, blockhash.slot)
            await self._db.write(insert_build, build)
            return self._resolved(raw, due.buyer, now_ms)
        purse = Purse(seen.lamports(self._budget.address), seen.wallet_rent)
        if not purse.has(found.cost):
            raise InvalidState(PURSE_EMPTY)
        await self._try(raw, blockhash.slot)
        signature = await self._budget.sign(build, message, purse, now_ms)
        return self._resolved(with_signature(raw, self._budget.address, signature), due.buyer, now_ms)

    async def _try(self, raw: bytes, slot: int) -> None:
        """Raises InvalidState where it would fail, ChainUnavailable where nobody can say."""
        reason = await refusal_of(self._rpc, raw, slot)
        if reason is not None:
            raise InvalidState(REFUSED.format(reason))

    def _resolved(self, raw: bytes, buyer: Pubkey, built_at_ms: int) -> Resolved:
        params = [{"transaction": base64.b64encode(raw).decode(), "pubkey": str(buyer)}]
        until_ms = built_at_ms + BLOCKHASH_BLOCKS * SLOW * self._terms.block_ms
        return Resolved((WalletRpc(str(self._terms.chain), METHOD, params),), until_ms)


def _transactions(actions: Iterable[Action]) -> list[bytes]:
    """The transactions that actions ask to sign, as they were handed out."""
    return [
        base64.b64decode(action.params[0]["transaction"])
        for action in actions
        if isinstance(action, WalletRpc)
    ]
