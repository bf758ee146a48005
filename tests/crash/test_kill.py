"""kill -9 at any moment: what was acknowledged is there, what happened is told, and as one thing only.

A real server on real files, mixed load, a moody webhook receiver, and SIGKILL at random moments. The moments
come from `PAYD_CRASH_SEED`, else from a seed that a failure shows.

Source: DESIGN.md, "1. What payd is for"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import os
from collections import Counter
from random import SystemRandom

import msgspec
import pytest
from standardwebhooks import Webhook

from tests.crash.aftermath import DEATHS_MIN, Aftermath, live_through
from tests.crash.shoppers import HELD, Told

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

FINAL = {"succeeded", "failed", "expired", "cancelled"}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """What is left after the deaths."""
    seed = int(os.environ.get("PAYD_CRASH_SEED") or SystemRandom().randrange(2**32))
    print(f"PAYD_CRASH_SEED={seed}")
    left = live_through(tmp_path_factory.mktemp("crash"), seed)
    ready_ms = [round(1000 * seconds) for seconds in left.ready_after_s]
    ledger, rows = left.ledger, left.rows
    print(
        f"{left.deaths} deaths, {ledger.answered} answers, {ledger.lost} lost, {ledger.repeats} repeated,"
        f" {len(rows.payments)} payments, {len(rows.events)} events, {len(left.received)} webhooks received,"
        f" {len(ledger.frames)} frames, {len(ledger.glimpses)} glimpses; ready after {ready_ms} ms"
    )
    return left


def is_in_order(seen: list[str], happened: list[str]) -> bool:
    """Whether the statuses were read in an order in which they happened."""
    place = 0
    for status in seen:
        while place < len(happened) and happened[place] != status:
            place += 1
        if place == len(happened):
            return False
    return True


def test_the_server_died_under_load_and_answers_were_lost(left: Aftermath) -> None:
    ledger = left.ledger
    assert left.deaths >= DEATHS_MIN
    assert ledger.lost
    assert ledger.repeats
    assert ledger.frames
    statuses = {status for told in ledger.payments.values() for status in told.statuses}
    assert statuses == FINAL | {"processing", "requires_action"}


def test_no_request_was_refused_or_failed_for_a_reason_of_our_own(left: Aftermath) -> None:
    assert left.ledger.problems == []
    assert left.complaints == []
    assert left.exit_code == 0


def test_the_file_is_whole(left: Aftermath) -> None:
    assert left.rows.integrity == ["ok"]


def test_every_acknowledged_payment_is_there_with_what_was_acknowledged(left: Aftermath) -> None:
    wrong = [told for told in left.ledger.payments.values() if not _is_as_told(left, told)]
    assert wrong == []


def _is_as_told(left: Aftermath, told: Told) -> bool:
    detail = left.details[told.payment_id]
    row = left.rows.payments.get(told.payment_id)
    return (
        row is not None
        and (row["reference_id"], row["value"]) == (told.reference, int(told.value))
        and (detail.get("referenceId"), detail.get("expiresAt")) == (told.reference, told.expires_at)
        and detail.get("status") == row["status"]
    )


def test_no_payment_exists_that_nobody_asked_for_and_none_twice(left: Aftermath) -> None:
    references = Counter(row["reference_id"] for row in left.rows.payments.values())
    asked = {told.reference for told in left.ledger.payments.values()}
    assert set(references) - asked <= left.ledger.doubtful
    assert [reference for reference, count in references.items() if count != 1] == []


def test_repeats_under_one_idempotency_key_were_given_one_answer(left: Aftermath) -> None:
    assert any(len(answers) > 1 for answers in left.ledger.answers.values())
    assert [answers for answers in left.ledger.answers.values() if len(set(answers)) > 1] == []


def test_every_acknowledged_status_happened_and_in_that_order(left: Aftermath) -> None:
    wrong = [
        (told.statuses, left.chain(told.payment_id))
        for told in left.ledger.payments.values()
        if not is_in_order(told.statuses, [status for _, status in left.chain(told.payment_id)])
    ]
    assert wrong == []


def test_a_cancel_that_was_acknowledged_is_the_one_that_is_stored(left: Aftermath) -> None:
    cancelled = {
        row["payment_id"]: msgspec.json.decode(row["body"])["data"]["cancelled"]["cancelled_at"]
        for row in left.rows.events
        if row["type"] == "payment.cancelled"
    }
    acknowledged = {
        told.payment_id: told.cancelled_at
        for told in left.ledger.payments.values()
        if told.cancelled_at is not None
    }
    assert acknowledged
    assert acknowledged.items() <= cancelled.items()
    refused = {told.payment_id for told in left.ledger.payments.values() if told.cancel_refused}
    assert refused.isdisjoint(cancelled)


def test_a_payment_whose_wallet_was_told_yes_is_paid(left: Aftermath) -> None:
    paid = {told.payment_id: told.paid_by for told in left.ledger.payments.values() if told.paid_by}
    assert paid
    ends = {key: left.rows.payments[key]["status"] for key in paid}
    assert {
        key for key, end in ends.items() if end != ("expired" if paid[key] == HELD else "succeeded")
    } == set()


def test_every_payment_has_its_versions_from_zero_without_gap_or_repeat(left: Aftermath) -> None:
    assert left.rows.chains.keys() == left.rows.payments.keys()
    wrong = {
        payment_id: versions
        for payment_id, chain in left.rows.chains.items()
        if (versions := [version for version, _ in chain])
        != list(range(left.rows.payments[payment_id]["version"] + 1))
    }
    assert wrong == {}


def test_an_event_says_what_its_row_says(left: Aftermath) -> None:
    wrong = []
    for row in left.rows.events:
        said = msgspec.json.decode(row["body"])
        data = said["data"]
        about = (said["id"], said["type"], data["payment_id"], data["payment_state_version"])
        if about != (row["id"], row["type"], row["payment_id"], row["version"]):
            wrong.append((about, row))
    assert wrong == []


def test_the_api_shows_the_events_of_the_file(left: Aftermath) -> None:
    shown = [(event["id"], event["envelope"]) for event in left.events]
    assert shown == [(row["id"], msgspec.json.decode(row["body"])) for row in left.rows.events]


def test_no_payment_is_stuck(left: Aftermath) -> None:
    stuck = [
        row
        for row in left.rows.payments.values()
        if row["status"] not in FINAL or row["due_at_ms"] is not None or row["parked_at_ms"] is not None
    ]
    assert stuck == []
    last = {row["payment_id"]: row["type"] for row in left.rows.events}
    succeeded = {key for key, row in left.rows.payments.items() if row["status"] == "succeeded"}
    assert succeeded
    assert {last[payment_id] for payment_id in succeeded} == {"payment.settled"}


def test_every_event_was_received_at_least_once(left: Aftermath) -> None:
    received = {delivered.event for delivered in left.received}
    assert [row["id"] for row in left.rows.events if row["id"] not in received] == []


def test_every_event_has_one_delivery_and_it_succeeded(left: Aftermath) -> None:
    assert sorted(row["event_seq"] for row in left.rows.deliveries) == [
        row["seq"] for row in left.rows.events
    ]
    assert {row["state"] for row in left.rows.deliveries} == {"succeeded"}


def test_nothing_was_received_that_is_not_stored_byte_for_byte(left: Aftermath) -> None:
    stored = {row["id"]: bytes(row["body"]) for row in left.rows.events}
    assert [one for one in left.received if stored.get(one.event) != one.body] == []


def test_every_repeat_of_a_webhook_has_its_message_id(left: Aftermath) -> None:
    messages = {row["message_id"]: row["event_seq"] for row in left.rows.deliveries}
    events = {row["id"]: row["seq"] for row in left.rows.events}
    assert len(left.received) > len(events), "retries and kills repeat some"
    wrong = [one for one in left.received if messages.get(one.headers["webhook-id"]) != events.get(one.event)]
    assert wrong == []


def test_every_webhook_verifies(left: Aftermath) -> None:
    webhook = Webhook(left.at.secret)
    for received in left.received:
        assert webhook.verify(received.body, received.headers)["id"] == received.event


def test_pages_were_shown_only_what_is_stored(left: Aftermath) -> None:
    stored = {(key, version, status) for key, chain in left.rows.chains.items() for version, status in chain}
    assert left.ledger.frames <= stored


def test_nobody_read_a_status_that_is_not_stored(left: Aftermath) -> None:
    stored = {(key, status) for key, chain in left.rows.chains.items() for _, status in chain}
    assert left.ledger.glimpses
    assert left.ledger.glimpses <= stored


def test_the_account_feed_resumes_after_each_death_without_gap_or_repeat(left: Aftermath) -> None:
    assert left.ledger.heard == [bytes(row["body"]) for row in left.rows.events]
