"""Kill -9 under webhook load, fifty times: nothing is lost, little is repeated, and nothing comes early.

A short run has twenty. Judged by the receiver's own notes, with the file as the witness of what the server
knew. The moments of death come from `PAYD_CRASH_SEED`, else from a seed that a failure shows.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from random import SystemRandom
from typing import Any, Final

import msgspec
import pytest
from standardwebhooks import Webhook

from tests.crash.hook import Receipt
from tests.crash.webhook_kills import KILLS, Outlived, outlive

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

IN_FLIGHT_MAX: Final = 10
UNRECORDED_MAX: Final = 20
# Before each attempt, after the one before it: SPEC.md's schedule, written down once more on purpose.
STEPS_S: Final = (0, 5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
# Times are whole milliseconds on both sides.
ROUNDING_MS: Final = 2
SIGNED_AGO_MAX_S: Final = 5
# Less than the shortest step, so that it cannot reach the next attempt.
NOTICED_MAX_MS: Final = 2000


class Compared:
    """Each receipt beside the record that the server made of its attempt, or did not live to make."""

    def __init__(self, left: Outlived) -> None:
        self.messages = {row["id"]: row["message_id"] for row in left.rows.deliveries}
        self.records: dict[str, list[dict[str, Any]]] = {one: [] for one in self.messages.values()}
        for row in left.rows.attempts:
            self.records[self.messages[row["delivery_id"]]].append(row)
        self.interrupted: list[Receipt] = []
        """Without a record, because the server died: they have to come again."""
        self.resent: list[Receipt] = []
        """Closed on a connection that had been used before: sent again at once, as one attempt."""
        self.recorded: list[Receipt] = []
        self.misplaced: list[Receipt] = []
        self.unseen: list[dict[str, Any]] = []
        """Records of attempts that never arrived."""
        for message_id, receipts in left.of_message.items():
            records = list(self.records[message_id])
            for receipt, after in zip(receipts, [*receipts[1:], None], strict=True):
                self._kind(receipt, after, records, left).append(receipt)
            self.unseen += records

    def _kind(
        self, receipt: Receipt, after: Receipt | None, records: list[dict[str, Any]], left: Outlived
    ) -> list[Receipt]:
        if after is not None and _is_resent(receipt, after):
            return self.resent
        # Once the clock was moved, only their order and number can be compared.
        if records and (_is_of(records[0], receipt) or receipt.at_ms >= left.moved_at_ms):
            records.pop(0)
            return self.recorded
        if receipt.life < KILLS and (after is None or after.life > receipt.life):
            return self.interrupted
        return self.misplaced


def _is_of(record: dict[str, Any], receipt: Receipt) -> bool:
    # The duration does not count what passes before the request is sent, such as the signing.
    ended_ms = record["at_ms"] + record["duration_ms"] + NOTICED_MAX_MS
    return bool(record["at_ms"] - ROUNDING_MS <= receipt.at_ms <= ended_ms)


def _is_resent(receipt: Receipt, after: Receipt) -> bool:
    was_closed = receipt.reused and receipt.done_at_ms is not None and receipt.answered is None
    at_once = after.life == receipt.life and after.at_ms - receipt.at_ms < 1000 * STEPS_S[1]
    return was_closed and at_once and not after.reused


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Outlived:
    """What is left after the deaths."""
    seed = int(os.environ.get("PAYD_CRASH_SEED") or SystemRandom().randrange(2**32))
    print(f"PAYD_CRASH_SEED={seed}")
    left = outlive(tmp_path_factory.mktemp("webhooks"), seed)
    print(
        f"{len(left.deaths)} deaths in {left.took_s:.1f} s, {len(left.rows.payments)} payments,"
        f" {len(left.rows.events)} events, {len(left.receipts)} receipts, {len(left.rows.attempts)} attempts"
        f" recorded, {len(left.doomed)} deliveries refused seven times;"
        f" ready after {1000 * max(left.ready_after_s):.0f} ms at most"
    )
    return left


@pytest.fixture(scope="module")
def compared(left: Outlived) -> Compared:
    """The receipts and the server's records of them."""
    compared = Compared(left)
    print(
        f"{len(compared.interrupted)} attempts interrupted, {len(accepted_again(left))} accepted again,"
        f" {len(compared.resent)} resent when a used connection was closed"
    )
    return compared


def accepted_again(left: Outlived) -> list[Receipt]:
    """What the receiver accepted although it had accepted the same before."""
    return [
        again
        for receipts in left.of_message.values()
        for again in [receipt for receipt in receipts if receipt.is_ok][1:]
    ]


def test_the_deaths_fell_into_attempts_answers_and_retries(left: Outlived, compared: Compared) -> None:
    assert len(left.deaths) == KILLS
    assert left.ledger.lost
    assert len({receipt.life for receipt in compared.interrupted}) > KILLS // 2
    assert sum(death.held > 0 for death in left.deaths) > KILLS // 2
    assert accepted_again(left), "some died between an answer and its record"
    waited = [
        (one, after) for one, after in repeats(left) if not one.is_ok and one not in compared.interrupted
    ]
    assert [one for one, after in waited if after.life > one.life], "some died while a retry was waited for"
    assert {one.message_id for one in compared.interrupted} & left.doomed


def repeats(left: Outlived) -> list[tuple[Receipt, Receipt]]:
    """Each receipt with the next one of the same delivery."""
    return [pair for receipts in left.of_message.values() for pair in pairwise(receipts)]


def test_the_server_had_no_trouble_of_its_own(left: Outlived) -> None:
    assert left.ledger.problems == []
    assert left.complaints == []
    assert left.exit_code == 0
    assert left.rows.integrity == ["ok"]


def test_every_committed_event_was_accepted_byte_for_byte(left: Outlived) -> None:
    accepted = {(receipt.event_id, receipt.body) for receipt in left.receipts if receipt.is_ok}
    lost = [row["id"] for row in left.rows.events if (row["id"], bytes(row["body"])) not in accepted]
    assert lost == []
    assert len(left.rows.events) > 5 * KILLS


def test_the_events_are_those_that_the_api_shows(left: Outlived) -> None:
    shown = [(event["id"], event["envelope"]) for event in left.events]
    assert shown == [(row["id"], msgspec.json.decode(row["body"])) for row in left.rows.events]


def test_the_receiver_knows_every_version_of_every_payment(left: Outlived) -> None:
    versions: dict[str, set[int]] = {}
    for receipt in left.receipts:
        if receipt.is_ok:
            data = msgspec.json.decode(receipt.body)["data"]
            versions.setdefault(data["payment_id"], set()).add(data["payment_state_version"])
    assert versions == {key: set(range(row["version"] + 1)) for key, row in left.rows.payments.items()}


def test_no_payment_that_a_client_was_told_of_is_missing(left: Outlived) -> None:
    assert left.ledger.payments.keys() - left.rows.payments.keys() == set()
    assert left.ledger.payments


def test_a_repeat_has_the_same_id_and_the_same_bytes(left: Outlived) -> None:
    stored = {row["seq"]: (row["id"], bytes(row["body"])) for row in left.rows.events}
    owed = {row["message_id"]: stored[row["event_seq"]] for row in left.rows.deliveries}
    assert len(owed) == len(stored), "one delivery for each event"
    wrong = [one for one in left.receipts if owed.get(one.message_id) != (one.event_id, one.body)]
    assert wrong == []


def test_every_signature_verifies_and_is_of_the_real_time(left: Outlived) -> None:
    webhook = Webhook(left.at.secret)
    for receipt in left.receipts:
        assert webhook.verify(receipt.body, receipt.headers)["id"] == receipt.event_id
        assert abs(int(receipt.headers["webhook-timestamp"]) - receipt.at_ms / 1000) < SIGNED_AGO_MAX_S


def test_every_receipt_has_its_record_or_its_death(compared: Compared) -> None:
    assert compared.misplaced == []
    assert compared.unseen == []


def test_a_death_repeats_what_was_in_flight_or_not_on_the_disk_and_no_more(
    left: Outlived, compared: Compared
) -> None:
    of_life = Counter(receipt.life for receipt in compared.interrupted)
    most = IN_FLIGHT_MAX + UNRECORDED_MAX
    assert {life: count for life, count in of_life.items() if count > most} == {}
    assert len(accepted_again(left)) <= len(compared.interrupted)


def test_what_is_known_to_be_accepted_is_never_sent_again(left: Outlived, compared: Compared) -> None:
    last = {receipts[-1] for receipts in left.of_message.values()}
    assert [one for one in compared.recorded if one.is_ok and one not in last] == []


def test_nothing_comes_before_its_step_has_passed(left: Outlived, compared: Compared) -> None:
    """At the receiver and in real time, deaths or not; only what nobody could record comes at once."""
    recorded = set(compared.recorded)
    pauses_ms = [
        after.at_ms - one.done_at_ms
        for one, after in repeats(left)
        if one in recorded and one.done_at_ms is not None and after.at_ms < left.moved_at_ms
    ]
    assert len(pauses_ms) > KILLS
    assert min(pauses_ms) >= 1000 * STEPS_S[1] - ROUNDING_MS


def test_the_whole_schedule_is_kept_in_the_realms_time(compared: Compared) -> None:
    for records in compared.records.values():
        assert [record["n"] for record in records] == list(range(1, len(records) + 1))
        for step_s, (one, after) in zip(STEPS_S[1:], pairwise(records), strict=False):
            due_ms = one["at_ms"] + one["duration_ms"] + 1000 * step_s
            assert after["at_ms"] >= due_ms - ROUNDING_MS


def test_an_interrupted_attempt_costs_nothing_of_the_budget(left: Outlived, compared: Compared) -> None:
    before = {row["message_id"]: (row["state"], row["attempts"]) for row in left.after_seven.deliveries}
    after = {row["message_id"]: (row["state"], row["attempts"]) for row in left.rows.deliveries}
    assert {before[message_id] for message_id in left.doomed} == {("pending", 7)}
    assert {after[message_id] for message_id in left.doomed} == {("succeeded", 8)}
    assert {state for state, _ in after.values()} == {"succeeded"}
    made = {message_id: len(records) for message_id, records in compared.records.items()}
    assert made == {message_id: attempts for message_id, (_, attempts) in after.items()}
