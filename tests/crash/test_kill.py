"""kill -9 at any moment: what was acknowledged is there, what happened is told, and as one thing only.

A real server on real files, mixed load, a moody webhook receiver, and SIGKILL at random moments. The moments
come from `PAYD_CRASH_SEED`, else from a seed that a failure shows.

Source: DESIGN.md, "1. What payd is for"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest
from standardwebhooks import Webhook

from tests.crash.aftermath import DEATHS_MIN, Aftermath, live_through
from tests.crash.truths import FINAL, TRUTHS, Truth

pytestmark = [pytest.mark.crash, pytest.mark.real_time]


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


def test_the_server_died_under_load_and_answers_were_lost(left: Aftermath) -> None:
    ledger = left.ledger
    assert left.deaths >= DEATHS_MIN
    assert ledger.lost
    assert ledger.repeats
    assert ledger.frames
    statuses = {status for told in ledger.payments.values() for status in told.statuses}
    assert statuses == FINAL | {"processing", "requires_action"}
    assert ledger.glimpses
    assert any(len(answers) > 1 for answers in ledger.answers.values())
    assert any(told.cancelled_at for told in ledger.payments.values())
    assert any(told.paid_by for told in ledger.payments.values())
    assert len(left.received) > len(left.rows.events), "retries and kills repeat some"
    assert left.backups[-1].backup.made
    assert sum(one.is_usable for one in left.backups) > 1, "some were made between the deaths"


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.__name__)
def test_all_is_as_it_was_told(left: Aftermath, truth: Truth) -> None:
    assert truth(left) == []


def test_every_webhook_verifies(left: Aftermath) -> None:
    webhook = Webhook(left.at.secret)
    for received in left.received:
        assert webhook.verify(received.body, received.headers)["id"] == received.event
