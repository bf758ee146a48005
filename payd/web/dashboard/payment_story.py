"""What happened to a payment, in words: each entry of its timeline as a line that a person reads.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.caip import MalformedCaip, parse_account
from payd.core.endpoint import Endpoint, EndpointState
from payd.core.money import asset_amount
from payd.core.timeline import (
    Acted,
    Answered,
    Built,
    DeliveryOwed,
    DeliveryTried,
    Entry,
    EventKept,
    Moved,
    Offered,
    Parked,
    Refunded,
    Relayed,
    TransferSeen,
    WalletTold,
)
from payd.web.checkout.progress import explorer_of
from payd.web.checkout.view import short_account
from payd.web.dashboard.audit import called
from payd.web.dashboard.payments_view import STATUS_WORDS, amount_words
from payd.web.dashboard.webhooks_view import REASONS, STATES, last_word
from payd.web.schema import Words

QUOTES_SHOWN: Final = 3

_ACTS: Final = {
    "payment.create": "Created by hand",
    "payment.cancel": "Cancelled by hand",
    "payment.simulate": "Simulated",
    "payment.scenario": "Scenario run by hand",
    "payment.refund": "Refund recorded by hand",
    "transfer.assign": "Transfer matched by hand",
}
_KINDS: Final = {
    "matched": ("It pays this payment.", "good"),
    "late": ("It came too late and pays nothing.", "bad"),
    "partial": ("It is less than was asked for and pays nothing.", "bad"),
    "surplus": ("It is more than was asked for, or a second payment.", "wait"),
    "unmatched": ("It is not what was asked for and pays nothing.", "bad"),
}


class Line(msgspec.Struct, frozen=True):
    """One line of the timeline.

    Attributes:
        kind: The shape beside it: good, bad, wait or soft.
        words: More about it, a sentence each.
        code: An id or a hash, in full; empty: there is none.
        href: Where the code can be looked at, on somebody else's page.
    """

    at_ms: int
    title: str
    kind: str = "soft"
    words: tuple[str, ...] = ()
    code: str = ""
    href: str = ""


class Delivery(msgspec.Struct, frozen=True):
    """A webhook of the payment, as it stands.

    Attributes:
        state: In a word, as the list of deliveries has it; `kind` is the badge's.
        is_held: It waits until its endpoint is resumed.
        can_resend: Its endpoint takes it now.
    """

    id: str
    event: str
    state: str
    kind: str
    tries: int
    last: str
    next_at_ms: int | None
    is_held: bool
    can_resend: bool


def lines_of(entries: tuple[Entry, ...], words: Words, people: dict[str, str]) -> tuple[Line, ...]:
    """The whole story, oldest first; `people` are the e-mail addresses of who acted, by their ids."""
    return tuple(line_of(entry, words, people) for entry in entries)


def line_of(entry: Entry, words: Words, people: dict[str, str]) -> Line:
    """One entry in words."""
    match entry:
        case Moved():
            mark = STATUS_WORDS[entry.status.value]
            what = "Settled" if entry.event_type == "payment.settled" else mark.word
            if entry.version == 0:
                what = "Created"
            detail = (entry.detail,) if entry.detail else ()
            return Line(
                entry.at_ms, what, mark.kind, (f"Version {entry.version}, after {entry.cause}.", *detail)
            )
        case Offered():
            return _offered(entry, words)
        case TransferSeen():
            return _seen(entry, words)
        case DeliveryTried():
            return _tried(entry)
        case Acted():
            said = ", ".join(
                f"{name}: {value}" for name, value in sorted(entry.details.items()) if value is not None
            )
            return Line(
                entry.at_ms,
                _ACTS.get(entry.act, entry.act),
                words=(f"By {called(entry.actor, people)}.", *((said,) if said else ())),
            )
        case Relayed():
            title = {"owed": "Taken to be sent", "sent": "Sent to the chain"}.get(
                entry.stage, "Sending ended"
            )
            return _with_tx(Line(entry.at_ms, title, words=(entry.words,)), entry.chain, entry.tx_id)
        case Refunded():
            line = Line(entry.at_ms, "Refund recorded", "good", (entry.note,) if entry.note else ())
            return _with_tx(line, "", entry.tx_id)
    return _plain(entry)


def _plain(entry: Entry) -> Line:
    """What needs no more than a sentence."""
    match entry:
        case Answered():
            return Line(entry.at_ms, "The buyer gave the details that were asked for")
        case Built():
            return Line(
                entry.at_ms, "A transaction was built to be signed", words=(f"For {_short(entry.account)}.",)
            )
        case WalletTold():
            title = "The wallet says that it sent"
            return Line(entry.at_ms, title, "wait", code=entry.tx_id)
        case EventKept():
            return Line(
                entry.at_ms,
                f"Event {entry.event_type}",
                words=(f"Version {entry.version}.",),
                code=entry.event_id,
            )
        case DeliveryOwed():
            return Line(
                entry.at_ms,
                f"Webhook {entry.event_type} is owed",
                words=(_state(entry),),
                code=entry.delivery_id,
            )
        case Parked():
            return Line(entry.at_ms, "Given up after crashes: start payd again", "bad")
    raise AssertionError(f"{type(entry).__name__} has no words")


def deliveries_of(entries: tuple[Entry, ...], endpoint: Endpoint | None) -> tuple[Delivery, ...]:
    """The payment's webhooks, in the order of its events; `endpoint` is what the account has now."""
    tried: dict[str, list[DeliveryTried]] = {}
    for entry in entries:
        if isinstance(entry, DeliveryTried):
            tried.setdefault(entry.delivery_id, []).append(entry)
    found = []
    for entry in entries:
        if isinstance(entry, DeliveryOwed):
            tries = tried.get(entry.delivery_id, [])
            last = "" if not tries else _outcome(tries[-1])
            state = None if endpoint is None or endpoint.id != entry.endpoint_id else endpoint.state
            found.append(
                Delivery(
                    entry.delivery_id,
                    entry.event_type,
                    *STATES[entry.state],
                    len(tries),
                    last,
                    entry.next_at_ms,
                    entry.state == "pending" and state is EndpointState.PAUSED,
                    state is EndpointState.ENABLED,
                )
            )
    return tuple(found)


def _offered(entry: Offered, words: Words) -> Line:
    asked = len(entry.accounts)
    said = []
    for quote in entry.quotes[:QUOTES_SHOWN]:
        amount = amount_words(asset_amount(quote.asset, quote.amount), words)
        said.append(f"{amount} from {_short(quote.account)}")
    if len(entry.quotes) > QUOTES_SHOWN:
        said.append(f"and {len(entry.quotes) - QUOTES_SHOWN} more")
    accounts = "1 account" if asked == 1 else f"{asked} accounts"
    return Line(entry.at_ms, f"Options asked for {accounts}", words=tuple(said))


def _seen(entry: TransferSeen, words: Words) -> Line:
    meaning, kind = _KINDS[entry.kind]
    amount = amount_words(asset_amount(entry.asset, entry.value), words)
    said = [f"From {_short(entry.sender)}. {meaning}"]
    if entry.confirmations is not None:
        said.append(f"{entry.confirmations} confirmations.")
    if not entry.on_chain:
        said.append("Its chain does not show it any more.")
    if entry.by_hand:
        said.append("Matched by hand.")
    line = Line(entry.at_ms, f"Transfer of {amount} seen", kind, tuple(said))
    return _with_tx(line, entry.chain, entry.tx_id)


def _tried(entry: DeliveryTried) -> Line:
    good = entry.status is not None and 200 <= entry.status < 300
    said = [f"Attempt {entry.n}, {entry.trigger}, in {entry.duration_ms} ms."]
    if entry.error:
        said.append(entry.error)
    title = f"Webhook {entry.event_type}: {_outcome(entry)}"
    if entry.fault is not None:
        title = f"{title}, with an injected fault ({entry.fault.replace('_', ' ')})"
        return Line(entry.at_ms, title, "wait", tuple(said))
    return Line(entry.at_ms, title, "good" if good else "bad", tuple(said))


def _outcome(entry: DeliveryTried) -> str:
    return last_word(entry.status, entry.error_class) or "no answer"


def _state(entry: DeliveryOwed) -> str:
    now = f"Now {STATES[entry.state][0].lower()}."
    return now if entry.reason is None else f"{now} {REASONS.get(entry.reason, entry.reason)}"


def _with_tx(line: Line, chain: str, tx_id: str | None) -> Line:
    explorer = explorer_of(chain, tx_id) if tx_id else None
    return Line(
        line.at_ms, line.title, line.kind, line.words, tx_id or "", "" if explorer is None else explorer.url
    )


def _short(account: str) -> str:
    try:
        return short_account(parse_account(account).address)
    except MalformedCaip:
        return short_account(account)
