"""What a payment looks like to its buyer: buyer-safe, in words, ready for the template.

Source: DESIGN.md, "11. Pages"; SPEC.md, "POST /v1/merchant/payment".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from payd.actors.simulation import Target, allowed_targets
from payd.core.caip import parse_account
from payd.core.event import iso_ms
from payd.core.failure import Kind, kind_of
from payd.core.money import WORTH_DECIMALS, exponent, round_worth
from payd.core.payment import Payment
from payd.core.status import Status
from payd.core.text import is_seen
from payd.core.url import is_https_url
from payd.web.checkout import locale
from payd.web.checkout.progress import Explorer, Progress, explorer_of
from payd.web.checkout.words import Language
from payd.web.schema import Words

MOVES: Final[tuple[Target, ...]] = ("succeeded", "failed", "expired", "cancelled")
"""The moves of the Test Console, in its order."""

# Failures after which the buyer's wallet is sure to have the money, and those with which none was asked for.
_KEPT: Final[frozenset[Kind]] = frozenset({"reverted", "no_funds"})
_UNSENT: Final[frozenset[Kind]] = frozenset({"taken_back", "not_brought"})
# A hash may have come along with what did not fit: nobody can say that nothing was sent.
_UNSURE: Final[frozenset[Kind]] = frozenset({"misaligned"})

# How an account is shown: enough to know one's own.
_ACCOUNT_STARTS: Final = 6
_ACCOUNT_ENDS: Final = 4

# A page that counts blocks fetches the count anew so often; all else is told to it.
RENEW_MS: Final = 2_000


class Move(msgspec.Struct, frozen=True):
    """A button of the Test Console."""

    to: Target
    label: str
    event: str
    allowed: bool


class Back(msgspec.Struct, frozen=True):
    """The way back to the shop, with the payment's id in the query; `host` is what the buyer is told.

    Before the end it is a link and no more: it cancels nothing, as the buyer may come back, and a wallet may
    have sent by then. The shop asks payd how its payment stands.
    """

    url: str
    host: str


class Moment(msgspec.Struct, frozen=True):
    """An instant for people and for scripts."""

    iso: str
    text: str


class Failure(msgspec.Struct, frozen=True):
    """Why a payment failed and what became of the money: keys of texts."""

    reason: str
    money: str


class Transfer(msgspec.Struct, frozen=True):
    """What pays.

    Attributes:
        paid: How much of what, and where.
        rate: What one of it was worth; None where that is no number.
        sender: The buyer's account, in full; None: nobody knows it.
        sender_short: As the buyer knows it.
        tx_id: None: no chain shows it yet.
        explorer: Where to look at it.
        done: Blocks that confirm it.
        depth: How many it waits for; None where it does not count blocks.
        renew_at_ms: When to fetch the count anew; None: there is none.
    """

    paid: str
    rate: str | None
    sender: str | None
    sender_short: str | None
    tx_id: str | None
    explorer: Explorer | None
    done: int
    depth: int | None
    renew_at_ms: int | None


class PaymentView(msgspec.Struct, frozen=True):
    """What the template shows. Times are Unix milliseconds of the payment's realm.

    The merchant's own address is not in it: money that is sent there by hand is bound to no payment. `shop`
    is the host of its own pages.
    """

    id: str
    live: bool
    status: str
    version: int
    is_final: bool
    merchant: str
    amount: str
    reference: str
    expires_at_ms: int
    now_ms: int
    left: str
    title: str
    transfer: Transfer | None
    date: Moment | None
    failure: Failure | None
    back: Back | None
    shop: str | None
    moves: tuple[Move, ...]


def view_of(
    payment: Payment,
    words: Words,
    merchant: str,
    language: Language,
    progress: Progress,
    *,
    live: bool,
    now_ms: int,
) -> PaymentView:
    """A payment as its page shows it now, to a buyer who reads `language`."""
    amount = locale.fiat(language, payment.value, payment.currency)
    return PaymentView(
        id=payment.id,
        live=live,
        status=payment.status.value,
        version=payment.version,
        is_final=payment.is_final,
        merchant=merchant,
        amount=amount,
        reference=payment.reference_id if is_seen(payment.reference_id) else "",
        expires_at_ms=payment.expires_at_ms,
        now_ms=now_ms,
        left=time_left(payment.expires_at_ms - now_ms),
        title=_title(payment, amount, merchant, language),
        transfer=_transfer(payment, words, language, progress, now_ms),
        date=moment(payment.success.succeeded_at_ms, language) if payment.success else None,
        failure=_failure(payment),
        back=way_back(payment),
        shop=shop_host(payment),
        moves=() if live or payment.is_final else _moves(payment, language),
    )


def time_left(left_ms: int) -> str:
    """`14:59`, or `1:00:00` from an hour on; never below zero."""
    minutes, seconds = divmod(max(0, left_ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def moment(at_ms: int, language: Language) -> Moment:
    """An instant in UTC; a script shows it in the buyer's own zone."""
    return Moment(iso_ms(at_ms), locale.instant(language, at_ms))


def way_back(payment: Payment) -> Back | None:
    """Where a page leads: the merchant's URL, its query and fragment kept, `payment_id` added.

    Both URLs are https or neither is used. A payment that is being confirmed leads nowhere: its buyer is to
    see how that ends.
    """
    if payment.checkout is None or payment.status is Status.PROCESSING or shop_host(payment) is None:
        return None
    urls = payment.checkout.success_url, payment.checkout.error_url
    url = urlsplit(urls[0] if payment.status is Status.SUCCEEDED else urls[1])
    query = f"{url.query}&payment_id={payment.id}" if url.query else f"payment_id={payment.id}"
    return Back(urlunsplit(url._replace(query=query)), url.netloc)


def shop_host(payment: Payment) -> str | None:
    """Where to ask the shop, as a host and its port; None where the merchant gave no two https URLs."""
    if payment.checkout is None:
        return None
    urls = payment.checkout.success_url, payment.checkout.error_url
    return urlsplit(urls[1]).netloc if all(map(is_https_url, urls)) else None


def short_account(address: str) -> str:
    """An address as wallets show it, `0xf39F…2266`."""
    if len(address) <= _ACCOUNT_STARTS + _ACCOUNT_ENDS + 1:
        return address
    return f"{address[:_ACCOUNT_STARTS]}…{address[-_ACCOUNT_ENDS:]}"


def _title(payment: Payment, amount: str, merchant: str, language: Language) -> str:
    say = language.say
    if payment.status is Status.REQUIRES_ACTION:
        return say("title.requires_action", amount=amount, merchant=merchant)
    heading = say(f"{payment.status.value}.heading")
    return say("title", heading=heading, amount=amount, merchant=merchant)


def _transfer(
    payment: Payment, words: Words, language: Language, progress: Progress, now_ms: int
) -> Transfer | None:
    if payment.processing is None:
        return None
    amount, buyer = words.amount(payment.processing.option_amount), payment.processing.buyer
    shown, value = amount.display, int(amount.value)
    paid = f"{locale.asset(language, value, shown.decimals)} {shown.asset_symbol}"
    if shown.network_name is None:
        paid = language.isolated(paid)
    else:
        paid = language.say("paid.on", amount=paid, network=shown.network_name)
    sender = None if buyer is None else parse_account(buyer).address
    counts = payment.status is Status.PROCESSING and progress.depth is not None
    return Transfer(
        paid=paid,
        rate=rate_of(payment, value, shown.decimals, shown.asset_symbol, language),
        sender=sender,
        sender_short=None if sender is None else short_account(sender),
        tx_id=progress.tx_id,
        explorer=explorer_of(payment.processing.chain, progress.tx_id) if progress.tx_id else None,
        done=progress.done,
        depth=progress.depth,
        renew_at_ms=now_ms + RENEW_MS if counts else None,
    )


def rate_of(payment: Payment, value: int, decimals: int, symbol: str, language: Language) -> str | None:
    """What one of the asset was worth to who paid `value` of it; None where that is no number."""
    if value <= 0:
        return None
    worth = Fraction(payment.value * 10**decimals, value * 10 ** exponent(payment.currency))
    return worth_of(worth, payment.currency, symbol, language)


def worth_of(worth: Fraction, currency: str, symbol: str, language: Language) -> str | None:
    """What one of an asset is worth, in whole steps of its first digits: an amount for people."""
    rounded = round_worth(worth)
    if not rounded:
        return None
    amount = f"{locale.asset(language, rounded, WORTH_DECIMALS)} {currency}"
    return language.say("rate.is", asset=symbol, amount=amount)


def _failure(payment: Payment) -> Failure | None:
    if payment.failed is None:
        return None
    kind = kind_of(payment.failed.reason, payment.failed.code)
    unsent = kind in _UNSENT or (payment.processing is None and kind not in _UNSURE)
    money = "kept" if kind in _KEPT else "unsent" if unsent else "sent"
    return Failure(f"failed.{kind}", f"failed.{money}")


def _moves(payment: Payment, language: Language) -> tuple[Move, ...]:
    allowed = allowed_targets(payment)
    return tuple(Move(to, language.say(f"move.{to}"), f"payment.{to}", to in allowed) for to in MOVES)
