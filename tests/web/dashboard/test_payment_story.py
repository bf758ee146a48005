"""Each kind of entry of a timeline has words, and none says more than is known."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.status import Status
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
    QuoteOut,
    Refunded,
    Relayed,
    TransferSeen,
    WalletTold,
)
from payd.web.dashboard.payment_story import QUOTES_SHOWN, deliveries_of, line_of
from payd.web.dashboard.webhooks_view import last_word
from payd.web.schema import Words
from tests.ledger import BUYER, CHAIN, USDC

WORDS = Words(())
TX = "0x" + "ab" * 32
QUOTE = QuoteOut("opt_1", USDC, BUYER, 1_500_000, BUYER, 9)


def seen(kind: str, **more: object) -> TransferSeen:
    known = {"confirmations": 3, "on_chain": True, "by_hand": False} | more
    return TransferSeen(1, CHAIN, TX, USDC, 1_500_000, BUYER, kind, **known)  # type: ignore[arg-type]


def tried(n: int, status: int | None, error: str | None = None) -> DeliveryTried:
    return DeliveryTried(1, "dlv_1", "payment.created", n, "auto", status, error, error, 84)


ENTRIES: list[tuple[Entry, str, str, str]] = [
    (Moved(1, 0, Status.REQUIRES_ACTION, "payment.created", "creation", ""), "Created", "soft", "Version 0"),
    (Moved(1, 2, Status.SUCCEEDED, "payment.succeeded", "x", TX), "Succeeded", "good", TX),
    (Moved(1, 3, Status.SUCCEEDED, "payment.settled", "x", ""), "Settled", "good", "Version 3"),
    (Moved(1, 1, Status.FAILED, "payment.failed", "x", "no gas"), "Failed", "bad", "no gas"),
    (Offered(1, (QUOTE,)), "Options asked for 1 account", "soft", "1.5 USDC from 0x3C44…93BC"),
    (Offered(1, (QUOTE,) * 5), "Options asked for 1 account", "soft", f"and {5 - QUOTES_SHOWN} more"),
    (Answered(1), "The buyer gave the details that were asked for", "soft", ""),
    (Built(1, CHAIN, BUYER), "A transaction was built to be signed", "soft", "0x3C44…93BC"),
    (WalletTold(1, TX), "The wallet says that it sent", "wait", ""),
    (Relayed(1, "sent", CHAIN, TX, "open"), "Sent to the chain", "soft", "open"),
    (seen("matched"), "Transfer of 1.5 USDC seen", "good", "3 confirmations."),
    (seen("late"), "Transfer of 1.5 USDC seen", "bad", "too late"),
    (seen("surplus", on_chain=False, by_hand=True), "Transfer of 1.5 USDC seen", "wait", "Matched by hand."),
    (Acted(1, "usr_1", "payment.cancel", {}), "Cancelled by hand", "soft", "By eva@example.com."),
    (Acted(1, "cli", "payment.simulate", {}), "Simulated", "soft", "By the command line."),
    (
        Acted(1, "key_1", "transfer.assign", {"txId": TX, "before": None}),
        "Transfer matched by hand",
        "soft",
        f"By key_1. txId: {TX}",
    ),
    (EventKept(1, "evt_1", "payment.created", 0), "Event payment.created", "soft", "Version 0."),
    (
        DeliveryOwed(1, "dlv_1", "payment.created", "ep_1", "pending", None, 5),
        "Webhook payment.created is owed",
        "soft",
        "Now pending.",
    ),
    (
        DeliveryOwed(1, "dlv_1", "payment.failed", "ep_1", "succeeded", None, None),
        "Webhook payment.failed is owed",
        "soft",
        "Now delivered.",
    ),
    (
        DeliveryOwed(1, "dlv_1", "payment.created", "ep_1", "cancelled", "endpoint_disabled", None),
        "Webhook payment.created is owed",
        "soft",
        "Now cancelled. The endpoint was disabled.",
    ),
    (tried(1, 200), "Webhook payment.created: 200", "good", "Attempt 1, auto, in 84 ms."),
    (
        tried(2, None, "timeout_response"),
        "Webhook payment.created: no answer within 15 s",
        "bad",
        "Attempt 2",
    ),
    (
        msgspec.structs.replace(tried(3, 400), fault="bad_signature"),
        "Webhook payment.created: 400, with an injected fault (bad signature)",
        "wait",
        "Attempt 3",
    ),
    (Refunded(1, TX, "sorry"), "Refund recorded", "good", "sorry"),
    (Parked(1), "Given up after crashes: start payd again", "bad", ""),
]


@pytest.mark.parametrize(("entry", "title", "kind", "words"), ENTRIES, ids=lambda one: type(one).__name__)
def test_an_entry_in_words(entry: Entry, title: str, kind: str, words: str) -> None:
    line = line_of(entry, WORDS, {"usr_1": "eva@example.com"})
    assert (line.title, line.kind) == (title, kind)
    assert words in " ".join(line.words)


def test_every_kind_of_entry_is_among_them() -> None:
    assert {type(entry) for entry, *_ in ENTRIES} == {*Entry.__subclasses__()}


def test_a_transaction_leads_to_its_chains_explorer() -> None:
    line = line_of(seen("matched"), WORDS, {})
    assert (line.code, line.href) == (TX, f"https://basescan.org/tx/{TX}")
    assert line_of(Refunded(1, "test:pay_t1", None), WORDS, {}).href == ""


def test_a_delivery_counts_its_tries_and_says_how_the_last_one_ended() -> None:
    owed = DeliveryOwed(1, "dlv_1", "payment.created", "ep_1", "pending", None, 5)
    [found] = deliveries_of((owed, tried(1, None, "timeout"), tried(2, 500)), None)
    assert (found.tries, found.last, found.kind, found.next_at_ms) == (2, "500", "wait", 5)
    assert not found.is_held


def test_what_went_wrong_before_an_answer_is_said_as_on_the_page_of_deliveries() -> None:
    owed = DeliveryOwed(1, "dlv_1", "payment.created", "ep_1", "pending", None, 5)
    [found] = deliveries_of((owed, tried(1, None, "connection_refused")), None)
    assert found.last == last_word(None, "connection_refused") == "the connection was refused"


def test_a_payment_that_failed_has_webhooks_that_were_delivered_and_not_such_that_succeeded() -> None:
    owed = DeliveryOwed(1, "dlv_1", "payment.failed", "ep_1", "succeeded", None, None)
    [found] = deliveries_of((owed, tried(1, 200)), None)
    assert (found.state, found.kind) == ("Delivered", "good")
