"""What must be true after any deaths, whoever died: a process on real files, or a house under a seed.

Each function gives what is wrong; nothing is as it should be.

Source: DESIGN.md, "1. What payd is for"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.crash.aftermath import Aftermath
from tests.crash.backups import Restored
from tests.crash.endpoint_truths import broken_endpoint
from tests.crash.shoppers import HELD, Told

FINAL: Final = {"succeeded", "failed", "expired", "cancelled"}

Truth = Callable[[Aftermath], Sequence[Any]]


def nothing_was_refused_or_failed_for_a_reason_of_our_own(left: Aftermath) -> Sequence[Any]:
    return [*left.ledger.problems, *left.complaints, *([left.exit_code] if left.exit_code else [])]


def the_file_is_whole(left: Aftermath) -> Sequence[Any]:
    return [] if left.rows.integrity == ["ok"] else left.rows.integrity


def every_acknowledged_payment_is_there_with_what_was_acknowledged(left: Aftermath) -> Sequence[Any]:
    return [told for told in left.ledger.payments.values() if not _is_as_told(left, told)]


def _is_as_told(left: Aftermath, told: Told) -> bool:
    detail = left.details[told.payment_id]
    row = left.rows.payments.get(told.payment_id)
    return (
        row is not None
        and (row["reference_id"], row["value"]) == (told.reference, int(told.value))
        and (detail.get("referenceId"), detail.get("expiresAt")) == (told.reference, told.expires_at)
        and detail.get("status") == row["status"]
    )


def no_payment_exists_that_nobody_asked_for_and_none_twice(left: Aftermath) -> Sequence[Any]:
    references = Counter(row["reference_id"] for row in left.rows.payments.values())
    asked = {told.reference for told in left.ledger.payments.values()}
    unasked = set(references) - asked - left.ledger.doubtful
    return [*unasked, *(reference for reference, count in references.items() if count != 1)]


def repeats_under_one_idempotency_key_were_given_one_answer(left: Aftermath) -> Sequence[Any]:
    return [answers for answers in left.ledger.answers.values() if len(set(answers)) > 1]


def every_acknowledged_status_happened_and_in_that_order(left: Aftermath) -> Sequence[Any]:
    return [
        (told.statuses, left.chain(told.payment_id))
        for told in left.ledger.payments.values()
        if not is_in_order(told.statuses, [status for _, status in left.chain(told.payment_id)])
    ]


def is_in_order(seen: list[str], happened: list[str]) -> bool:
    """Whether the statuses were read in an order in which they happened."""
    place = 0
    for status in seen:
        while place < len(happened) and happened[place] != status:
            place += 1
        if place == len(happened):
            return False
    return True


def a_cancel_that_was_acknowledged_is_the_one_that_is_stored(left: Aftermath) -> Sequence[Any]:
    cancelled = {
        row["payment_id"]: msgspec.json.decode(row["body"])["data"]["cancelled"]["cancelled_at"]
        for row in left.rows.events
        if row["type"] == "payment.cancelled"
    }
    told = left.ledger.payments.values()
    other = [one for one in told if one.cancelled_at and cancelled.get(one.payment_id) != one.cancelled_at]
    return [*other, *(one for one in told if one.cancel_refused and one.payment_id in cancelled)]


def a_payment_whose_wallet_was_told_yes_is_paid(left: Aftermath) -> Sequence[Any]:
    ends = {key: row["status"] for key, row in left.rows.payments.items()}
    return [
        told
        for told in left.ledger.payments.values()
        if told.paid_by and ends[told.payment_id] != ("expired" if told.paid_by == HELD else "succeeded")
    ]


def every_payment_has_its_versions_from_zero_without_gap_or_repeat(left: Aftermath) -> Sequence[Any]:
    return [
        (payment_id, versions)
        for payment_id in left.rows.chains.keys() | left.rows.payments.keys()
        if (versions := [version for version, _ in left.rows.chains.get(payment_id, [])])
        != list(range(left.rows.payments.get(payment_id, {"version": -2})["version"] + 1))
    ]


def an_event_says_what_its_row_says(left: Aftermath) -> Sequence[Any]:
    wrong = []
    for row in left.rows.events:
        said = msgspec.json.decode(row["body"])
        data = said["data"]
        about = (said["id"], said["type"], data["payment_id"], data["payment_state_version"])
        if about != (row["id"], row["type"], row["payment_id"], row["version"]):
            wrong.append((about, row))
    return wrong


def the_api_shows_the_events_of_the_file(left: Aftermath) -> Sequence[Any]:
    shown = [(event["id"], event["envelope"]) for event in left.events]
    stored = [(row["id"], msgspec.json.decode(row["body"])) for row in left.rows.events]
    return [] if shown == stored else [shown, stored]


def no_payment_is_stuck(left: Aftermath) -> Sequence[Any]:
    last = {row["payment_id"]: row["type"] for row in left.rows.events}
    return [
        row
        for row in left.rows.payments.values()
        if row["status"] not in FINAL
        or row["due_at_ms"] is not None
        or row["parked_at_ms"] is not None
        or (row["status"] == "succeeded") != (last[row["id"]] == "payment.settled")
    ]


def every_event_was_received_at_least_once(left: Aftermath) -> Sequence[Any]:
    received = {delivered.event for delivered in left.received}
    return [row["id"] for row in left.rows.events if row["id"] not in received]


def every_event_has_one_delivery_and_it_succeeded(left: Aftermath) -> Sequence[Any]:
    """Of the endpoint that is there: one that was deleted is owed nothing."""
    deliveries = [row for row in left.rows.deliveries if row["endpoint_id"] == left.rows.endpoint_id]
    owed = Counter(row["event_seq"] for row in deliveries)
    unsent = [row for row in deliveries if row["state"] != "succeeded"]
    return [*unsent, *(row for row in left.rows.events if owed[row["seq"]] != 1)]


def nothing_was_received_that_is_not_stored_byte_for_byte(left: Aftermath) -> Sequence[Any]:
    stored = {row["id"]: bytes(row["body"]) for row in left.rows.events}
    return [one for one in left.received if stored.get(one.event) != one.body]


def every_repeat_of_a_webhook_has_its_message_id(left: Aftermath) -> Sequence[Any]:
    messages = {row["message_id"]: row["event_seq"] for row in left.rows.deliveries}
    events = {row["id"]: row["seq"] for row in left.rows.events}
    return [one for one in left.received if messages.get(one.headers["webhook-id"]) != events.get(one.event)]


def pages_were_shown_only_what_is_stored(left: Aftermath) -> Sequence[Any]:
    stored = {(key, version, status) for key, chain in left.rows.chains.items() for version, status in chain}
    return [*(left.ledger.frames - stored)]


def nobody_read_a_status_that_is_not_stored(left: Aftermath) -> Sequence[Any]:
    stored = {(key, status) for key, chain in left.rows.chains.items() for _, status in chain}
    return [*(left.ledger.glimpses - stored)]


def the_account_feed_resumes_after_each_death_without_gap_or_repeat(left: Aftermath) -> Sequence[Any]:
    """After a restore some come again, and none is left out."""
    stored = [bytes(row["body"]) for row in left.rows.events]
    heard = left.ledger.heard
    if left.ledger.restores:
        heard = list(dict.fromkeys(heard))
    return [] if heard == stored else [heard, stored]


def every_backup_is_whole_or_not_there(left: Aftermath) -> Sequence[Any]:
    wrong = [one for one in left.backups if one.unusable or one.unowed or (one.backup.made and not one.there)]
    return [*wrong, *(["a draft is left"] if left.draft_left else [])]


def a_backup_has_all_that_was_acknowledged_before_it_was_asked_for(left: Aftermath) -> Sequence[Any]:
    return [
        (one.backup.dest, told)
        for one in left.backups
        if one.is_usable
        for payment_id, count in one.backup.before.items()
        if not _is_in(one, told := left.ledger.payments[payment_id], count)
    ]


def _is_in(restored: Restored, told: Told, count: int) -> bool:
    chain = restored.chains.get(told.payment_id)
    return chain is not None and is_in_order(told.statuses[:count], [status for _, status in chain])


def a_backup_has_nothing_that_did_not_happen(left: Aftermath) -> Sequence[Any]:
    return [
        (one.backup.dest, payment_id, chain)
        for one in left.backups
        for payment_id, chain in one.chains.items()
        if left.rows.chains.get(payment_id, [])[: len(chain)] != chain
    ] + [(one.backup.dest, one.untrue) for one in left.backups if one.untrue]


TRUTHS: Final[tuple[Truth, ...]] = (
    nothing_was_refused_or_failed_for_a_reason_of_our_own,
    the_file_is_whole,
    every_acknowledged_payment_is_there_with_what_was_acknowledged,
    no_payment_exists_that_nobody_asked_for_and_none_twice,
    repeats_under_one_idempotency_key_were_given_one_answer,
    every_acknowledged_status_happened_and_in_that_order,
    a_cancel_that_was_acknowledged_is_the_one_that_is_stored,
    a_payment_whose_wallet_was_told_yes_is_paid,
    every_payment_has_its_versions_from_zero_without_gap_or_repeat,
    an_event_says_what_its_row_says,
    the_api_shows_the_events_of_the_file,
    no_payment_is_stuck,
    every_event_was_received_at_least_once,
    every_event_has_one_delivery_and_it_succeeded,
    nothing_was_received_that_is_not_stored_byte_for_byte,
    every_repeat_of_a_webhook_has_its_message_id,
    pages_were_shown_only_what_is_stored,
    nobody_read_a_status_that_is_not_stored,
    the_account_feed_resumes_after_each_death_without_gap_or_repeat,
    every_backup_is_whole_or_not_there,
    a_backup_has_all_that_was_acknowledged_before_it_was_asked_for,
    a_backup_has_nothing_that_did_not_happen,
)


def broken(left: Aftermath) -> dict[str, Sequence[Any]]:
    """The truths that do not hold, by name, with what is wrong."""
    found = {truth.__name__: wrong for truth in TRUTHS if (wrong := truth(left))}
    return found | broken_endpoint(left)
