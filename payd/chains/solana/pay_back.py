"""The transaction that pays a buyer back: made for the merchant's wallet to sign, then brought to the chain.

It moves nothing before it is signed. It can land once, and while it may, nobody is told that it did not.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.asking import read_one, unavailable
from payd.chains.assets import Asset, AssetBook
from payd.chains.base import Brought, Unsigned
from payd.chains.rpc import Rpc
from payd.chains.solana.answers import decode_blockhash, decode_listing
from payd.chains.solana.asking import latest_blockhash_call, listing_call
from payd.chains.solana.binding import refund_reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, split, unit_limit_for, unsigned
from payd.chains.solana.destination import destination_problem
from payd.chains.solana.facts import Facts, Price
from payd.chains.solana.failures import ACCOUNT_GONE, NO_FUNDS
from payd.chains.solana.fates import Word, agreed_end, ask_enough, is_forgotten
from payd.chains.solana.guards import GuardLimits
from payd.chains.solana.keys import token_account
from payd.chains.solana.lifetime import last_valid_height
from payd.chains.solana.mints import mint_key, program_of
from payd.chains.solana.refund import refund_problem
from payd.chains.solana.returned import check_returned
from payd.chains.solana.terms import Terms
from payd.chains.solana.trial import refusal_of
from payd.chains.witnesses import needed
from payd.core.caip import AccountId, account_problem, canonical_chain, parse_account, parse_asset
from payd.core.errors import InvalidParams, InvalidState
from payd.core.payment import Payment
from payd.core.refund import repayment_of
from payd.store.db import Database
from payd.store.refunds import RefundOut, forget_out, refund_out, send_out

NOT_KNOWN: Final = "This server does not know what was paid with any more. Send it from your wallet."
NO_ACCOUNT: Final = "This is no account of the payment's chain."
BUYERS_OWN: Final = "This account is the buyer's own. Choose one of yours."
NOT_TAKEN: Final = "The buyer's account cannot be paid now: {}."
NOT_ENOUGH: Final = "This account does not hold enough of what was paid with."
MADE: Final = "The chain shows a refund of this payment already. Record it: {}"
ON_ITS_WAY: Final = "Another wallet signed this refund, and it may still land. Look for it on the chain: {}"
FORGOTTEN: Final = (
    "Another wallet signed this refund, and no node remembers whether it landed. Look for it on the chain,"
    " and record it if it is there; if it is not, send one from your wallet, and record that: {}"
)
REFUSED: Final = "The blockchain would refuse this refund now: {}."

# Whoever knows the payment can name its refund in any transaction; so many are read for one that pays back.
LISTED_MAX: Final = 20


class PayBack:
    """What pays back on one chain.

    Args:
        terms: What the operator set.
        rpc: Its nodes.
        db: Where it is kept which refunds are out.
        book: Its assets.
        facts: What is known of prices.
    """

    def __init__(self, terms: Terms, rpc: Rpc, db: Database, book: AssetBook, facts: Facts) -> None:
        self._terms = terms
        self._rpc = rpc
        self._db = db
        self._book = book
        self._facts = facts

    async def write(self, payment: Payment, account: AccountId, now_ms: int) -> Unsigned:
        """See `BringsRefunds.write_refund`. Who signs pays the network, and the rent of what is created."""
        repayment = repayment_of(payment)
        row = self._book.find(parse_asset(repayment.asset))
        if row is None:
            raise InvalidState(NOT_KNOWN)
        if account_problem(account) is not None or canonical_chain(account.chain) != self._terms.chain:
            raise InvalidParams(NO_ACCOUNT)
        sender = Pubkey.from_string(account.address)
        buyer = Pubkey.from_string(parse_account(repayment.to).address)
        if sender == buyer:
            raise InvalidParams(BUYERS_OWN)
        if problem := await destination_problem(self._rpc, buyer, row):
            raise InvalidState(NOT_TAKEN.format(problem))
        made = await self._made(payment, repayment.amount)
        if made is not None:
            raise InvalidState(MADE.format(made))
        await self._check_alone(payment)
        newest = await read_one(self._rpc, latest_blockhash_call(), decode_blockhash)
        wanted = await self._wanted(payment, row, sender, Leg(buyer, repayment.amount), now_ms)
        raw = unsigned(build_message(wanted, newest.hash))
        reason = await refusal_of(self._rpc, raw, newest.slot)
        if reason in (NO_FUNDS, ACCOUNT_GONE):
            raise InvalidState(NOT_ENOUGH)
        if reason is not None:
            raise InvalidState(REFUSED.format(reason))
        return Unsigned(raw, await last_valid_height(self._rpc, newest))

    async def bring(self, payment: Payment, unsigned: Unsigned, signed: str, now_ms: int) -> Brought:
        """See `BringsRefunds.bring_refund`."""
        sender = Message.from_bytes(split(unsigned.raw)[1]).account_keys[0]
        returned = check_returned(unsigned.raw, signed, sender, None, GuardLimits())
        assert returned.tx_id is not None, "who pays the fee has signed it"
        words = await ask_enough(self._rpc, [returned.tx_id])
        end = agreed_end(words, returned.tx_id, unsigned.valid_until, needed(self._rpc))
        if end is not None:
            return Brought(returned.tx_id, end)
        if any(_shows(word, returned.tx_id) for word in words):
            return Brought(returned.tx_id, "landed")
        await self._check_alone(payment, returned.tx_id)
        out = RefundOut(returned.tx_id, unsigned.valid_until)
        other = await self._db.write(send_out, payment.id, out, now_ms)
        if other is not None:
            raise InvalidState(ON_ITS_WAY.format(other.tx_id))
        await self._rpc.broadcast(returned.raw)
        if not words:
            raise unavailable("too few nodes say what became of a refund")
        return Brought(returned.tx_id, "sent")

    async def _check_alone(self, payment: Payment, tx_id: str | None = None) -> None:
        """Raises InvalidState while another refund of the payment than this one may still land."""
        while (out := self._db.point(refund_out, payment.id)) is not None and out.tx_id != tx_id:
            words = await ask_enough(self._rpc, [out.tx_id])
            end = agreed_end(words, out.tx_id, out.valid_until, needed(self._rpc))
            if end not in ("failed", "nowhere"):
                is_lost = is_forgotten(words, out.tx_id, out.valid_until)
                raise InvalidState((FORGOTTEN if is_lost else ON_ITS_WAY).format(out.tx_id))
            await self._db.write(forget_out, payment.id, out.tx_id)

    async def _made(self, payment: Payment, amount: int) -> str | None:
        """A refund of ours that the chain shows, in whosever browser it was signed.

        Ours pay back all of it: whoever knows the payment can name its refund with a single unit.
        """
        reference = Pubkey(refund_reference_of(payment.id))
        listed = await read_one(self._rpc, listing_call(reference, limit=LISTED_MAX), decode_listing)
        for one in listed:
            if await refund_problem(self._rpc, self._terms.chain, payment, one.tx_id, amount) is None:
                return one.tx_id
        return None

    async def _wanted(self, payment: Payment, row: Asset, sender: Pubkey, leg: Leg, now_ms: int) -> Wanted:
        token = None if row.kind == "native" else (mint_key(row), program_of(row))
        place = leg.owner if token is None else token_account(leg.owner, *token)
        price = await self._facts.number(Price(place), now_ms)
        wanted = Wanted(
            reference=refund_reference_of(payment.id),
            buyer=sender,
            fee_payer=sender,
            mint=None if token is None else token[0],
            program=None if token is None else token[1],
            decimals=row.decimals,
            legs=(leg,),
            # Also where it is there: it fails if somebody else has it now, before anything is sent to them.
            create=() if token is None else (leg.owner,),
            unit_price=min(price, self._terms.price_max),
        )
        return msgspec.structs.replace(wanted, unit_limit=unit_limit_for(wanted))


def _shows(word: Word, tx_id: str) -> bool:
    """Whether a node has it where two thirds of the stake have voted for it, and it did what it says."""
    status = word.statuses[tx_id]
    return status is not None and status.err is None and status.commitment != "processed"
