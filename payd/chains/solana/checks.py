"""Whether the transaction that a wallet signed pays a quote, and can land now.

It is the one that was handed out, or that one with a wallet's guards; then we, if we pay the fee, sign anew,
within the same budget. What passes is brought to the chain by us, whole, and lands once or never.

Source: SPEC.md, "POST /v1/gateway/payment/{id}/confirm"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.chains.asking import answered, read, unavailable
from payd.chains.base import Accepted, Misaligned, Refused, Verdict
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.accounts import decode_holding
from payd.chains.solana.answers import (
    Account,
    Simulated,
    Status,
    decode_accounts,
    decode_count,
    decode_simulation,
    decode_statuses,
)
from payd.chains.solana.asking import account_calls, height_call, rent_call, simulate_call, statuses_call
from payd.chains.solana.budget import Budget, Purse
from payd.chains.solana.build import fee_of, split, with_signature
from payd.chains.solana.commitments import Commitments
from payd.chains.solana.dialect import ANSWER_CODES
from payd.chains.solana.failures import (
    ACCOUNT_GONE,
    ALREADY_PROCESSED,
    BLOCKHASH_NOT_FOUND,
    error_name,
    reason_of,
)
from payd.chains.solana.guards import GuardLimits
from payd.chains.solana.keys import TOKEN_PROGRAMS, token_account
from payd.chains.solana.lifetime import BLOCKHASH_BLOCKS
from payd.chains.solana.returned import Returned, check_returned
from payd.chains.solana.terms import Terms
from payd.core.caip import canonical_account, parse_account, parse_asset
from payd.core.errors import (
    InvalidParams,
    InvalidSignature,
    InvalidState,
    QuoteExpired,
    RateLimited,
)
from payd.core.option import Quote, Result, WalletRpc
from payd.core.payment import Payment
from payd.core.submission import Submission
from payd.store.builds import Build, find_build, hash_message
from payd.store.db import Database
from payd.store.submissions import payment_bringing

# A payment whose transaction comes too late is over; one that is refused can be signed again.
BLOCKS_LEFT_MIN: Final = 8

ASK_AGAIN: Final = "The transaction is too old to be sent. Fetch the option's action again; nothing was paid."
CHANGED: Final = (
    "An account that the transaction needs has changed since it was made. Fetch the option's action again;"
    " nothing was paid."
)
TAKEN: Final = "The transaction was given for another payment."
ONE_TEXT: Final = "The result of solana_signTransaction is a list with the signed transaction in base64."

LIMITS: Final = GuardLimits()
_REFUSALS: Final = (InvalidParams, InvalidSignature, InvalidState, QuoteExpired, RateLimited)


class _Handed(msgspec.Struct, frozen=True):
    """What a wallet was asked to sign, and what is stored of it. `fee_payer` is None where the buyer pays."""

    raw: bytes
    build: Build
    buyer: Pubkey
    fee_payer: Pubkey | None


class _Now(msgspec.Struct, frozen=True):
    """What a node says to a transaction.

    Attributes:
        height: Of the newest confirmed block.
        tried: What the transaction would do.
        receives: The merchant's token account; None: there is none, or SOL is paid.
        purse: What we have to pay fees with.
        status: How far the transaction has come; None: it has not landed.
    """

    height: int
    tried: Simulated
    receives: Account | None
    purse: Purse
    status: Status | None


class Checks:
    """The checks of one chain.

    Args:
        terms: What the operator set.
        rpc: Its nodes.
        db: The realm's store.
        budget: What we may pay for; None: nothing.
        commitments: Makes what is stored of what is good.
    """

    def __init__(
        self,
        terms: Terms,
        rpc: Rpc,
        db: Database,
        budget: Budget | None,
        commitments: Commitments,
    ) -> None:
        self._chain = str(terms.chain)
        self._rpc = rpc
        self._db = db
        self._budget = budget
        self._commitments = commitments

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay a quote; has no effect on the chain.

        Raises:
            ChainUnavailable: No node answers.
        """
        if len(results) != len(quote.actions):
            return Misaligned()
        try:
            return await self._accepted(payment, quote, _text(results[0]), now_ms)
        except _REFUSALS as refusal:
            return Refused(refusal)

    async def _accepted(self, payment: Payment, quote: Quote, text: str, now_ms: int) -> Accepted:
        handed = self._handed_out(quote)
        try:
            returned = check_returned(handed.raw, text, handed.buyer, handed.fee_payer, LIMITS)
        except InvalidParams:
            if self._was_handed_out(payment, text):
                raise QuoteExpired(ASK_AGAIN) from None
            raise
        now = await self._ask(quote, handed, returned)
        if now.status is None and error_name(now.tried.err) != ALREADY_PROCESSED:
            _check_now(quote, handed, returned, now)
        elif now.status is not None and now.status.err is not None:
            raise QuoteExpired(_refused(reason_of(now.status.err, Message.from_bytes(returned.message))))
        raw, tx_id = await self._signed(payment, handed, returned, now.purse, now_ms)
        if self._db.point(payment_bringing, self._chain, tx_id) not in (None, payment.id):
            raise InvalidParams(TAKEN)
        until = handed.build.valid_until_height
        buyer = canonical_account(parse_account(quote.account))
        processing = await self._commitments.made(payment, quote, tx_id, until, now_ms)
        return Accepted(processing, Submission(self._chain, buyer, tx_id, raw, until))

    def _handed_out(self, quote: Quote) -> _Handed:
        """What the quote asked to sign.

        Raises:
            QuoteExpired: Nothing is known of it any more.
        """
        [action] = quote.actions
        assert isinstance(action, WalletRpc), "a confirm is checked against what was resolved"
        raw = base64.b64decode(action.params[0]["transaction"])
        message = split(raw)[1]
        build = self._db.point(find_build, hash_message(message))
        if build is None or build.payment_id != quote.payment_id:
            raise QuoteExpired(ASK_AGAIN)
        payer = Message.from_bytes(message).account_keys[0]
        buyer = Pubkey.from_string(parse_account(quote.account).address)
        return _Handed(raw, build, buyer, None if payer == buyer else payer)

    def _was_handed_out(self, payment: Payment, text: str) -> bool:
        """Whether it is what another quote of the payment asked to sign: a wallet may have fetched again."""
        try:
            message = split(base64.b64decode(text, validate=True))[1]
        except ValueError:
            return False
        build = self._db.point(find_build, hash_message(message))
        return build is not None and build.payment_id == payment.id

    async def _ask(self, quote: Quote, handed: _Handed, returned: Returned) -> _Now:
        """What a node says to it, in one POST.

        Raises:
            InvalidParams: The node does not take it for a transaction.
            ChainUnavailable: No node answers.
        """
        known = _tx_id(self._db.point(find_build, hash_message(returned.message)), returned)
        receives = _receiving(quote, split(handed.raw)[1])
        places = [handed.fee_payer or handed.buyer, *(() if receives is None else (receives,))]
        calls = [
            height_call("confirmed"),
            simulate_call(returned.raw, sig_verify=returned.tx_id is not None),
            rent_call(0),
            *account_calls(places),
            *(() if known is None else (statuses_call([known]),)),
        ]
        results = await read(self._rpc, calls)
        # Any other code is a provider's, who speaks of itself.
        if isinstance(results[1], RpcError) and results[1].code in ANSWER_CODES:
            raise InvalidParams(f"The blockchain does not take the transaction: {results[1].message[:200]}")
        try:
            return _now(results, len(places), receives is not None, known is not None)
        except BadAnswer as bad:
            raise unavailable(bad) from bad

    async def _signed(
        self, payment: Payment, handed: _Handed, returned: Returned, purse: Purse, now_ms: int
    ) -> tuple[bytes, str]:
        """The transaction with all its signatures, and its id; where we pay for guards, reserved before.

        Raises:
            QuoteExpired: Whoever was to pay its fee has another key now.
            RateLimited, InvalidState: It may not be paid for.
        """
        if returned.tx_id is not None:
            return returned.raw, returned.tx_id
        if self._budget is None or self._budget.address != handed.fee_payer:
            raise QuoteExpired(ASK_AGAIN)
        built = handed.build
        build = msgspec.structs.replace(
            built,
            message_hash=hash_message(returned.message),
            created_at_ms=now_ms,
            tx_id=None,
            cost=built.cost - fee_of(split(handed.raw)[1]) + returned.fee,
            state="out",
        )
        assert build.payment_id == payment.id
        signature = await self._budget.sign(build, returned.message, purse, now_ms)
        raw = with_signature(returned.raw, self._budget.address, signature)
        return raw, str(Signature.from_bytes(signature))


def _text(result: Result) -> str:
    match result.data:
        case [str() as text]:
            return text
    raise InvalidParams(ONE_TEXT)


def _tx_id(build: Build | None, returned: Returned) -> str | None:
    """The id that it has, or that it will have: the same message gets the same signature of ours."""
    return returned.tx_id or (None if build is None else build.tx_id)


def _receiving(quote: Quote, message: bytes) -> Pubkey | None:
    """The merchant's token account that a message of ours pays to; None where it pays SOL."""
    asset = parse_asset(quote.asset)
    if asset.namespace.lower() == "slip44":
        return None
    keys = Message.from_bytes(message).account_keys
    [program] = {one for one in keys if one in TOKEN_PROGRAMS}
    owner = Pubkey.from_string(parse_account(quote.destination).address)
    return token_account(owner, Pubkey.from_string(asset.reference), program)


def _now(results: Results, places: int, has_receiver: bool, has_status: bool) -> _Now:
    height, tried, rent, accounts = (answered(result) for result in results[:4])
    _, (payer, *others) = decode_accounts(accounts, places)
    status = None
    if has_status:
        _, [status] = decode_statuses(answered(results[4]), 1)
    return _Now(
        height=decode_count(height, "the block height"),
        tried=decode_simulation(tried),
        receives=others[0] if has_receiver else None,
        purse=Purse(0 if payer is None else payer.lamports, decode_count(rent, "the rent")),
        status=status,
    )


def _check_now(quote: Quote, handed: _Handed, returned: Returned, now: _Now) -> None:
    """Whether it can land, and pays who it should.

    Raises:
        QuoteExpired: Not this one; what is fetched again can.
        InvalidParams: It would fail.
        ChainUnavailable: The node is not where it was made: of a few behind one address one may lag.
    """
    until = handed.build.valid_until_height
    if now.height + BLOCKS_LEFT_MIN > until:
        raise QuoteExpired(ASK_AGAIN)
    if now.receives is not None and not _is_the_merchants(quote, now.receives):
        raise QuoteExpired(CHANGED)
    error = now.tried.err
    if error is None:
        return
    # More than a blockhash's life is nobody's lag, but a height that a node made up when it was built.
    if 0 < until - BLOCKHASH_BLOCKS - now.height <= BLOCKHASH_BLOCKS:
        raise unavailable(f"the node has not come to the blockhash: {error_name(error)}")
    if error_name(error) == BLOCKHASH_NOT_FOUND:
        raise QuoteExpired(ASK_AGAIN)
    reason = reason_of(error, Message.from_bytes(returned.message))
    raise QuoteExpired(CHANGED) if reason == ACCOUNT_GONE else InvalidParams(_refused(reason))


def _is_the_merchants(quote: Quote, account: Account) -> bool:
    """Whether a token account still belongs to who shall be paid; where there is none yet, it will."""
    if account.owner not in TOKEN_PROGRAMS:
        return not account.data
    try:
        holding = decode_holding(account.owner, account.data)
    except BadAnswer:
        return False
    return str(holding.owner) == parse_account(quote.destination).address


def _refused(reason: str) -> str:
    return (
        f"The blockchain would refuse the transaction: {reason}. Nothing was paid; the payment is still open."
    )
