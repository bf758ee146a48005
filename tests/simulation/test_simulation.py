"""A bounded set of seeds; `scripts/simulate` goes on where this ends.

A short run has a third of them: some in a row in which all happens that can.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from payd.core.endpoint import EndpointState, Secret
from payd.store.deliveries import endpoint_wanting
from payd.store.endpoints import find_endpoint
from payd.store.keys import find_made_key
from tests.crash.live_truths import SLOT_TRUTHS, broken_live
from tests.crash.truths import broken
from tests.short import IS_SHORT
from tests.simulation.__main__ import Verdict
from tests.simulation.disk import DEATHS, REFUSALS
from tests.simulation.live import LiveWorld, simulate_live
from tests.simulation.settings import SETTINGS_CHANGES
from tests.simulation.shopkeeper import MERCHANT_CHANGES, RESTORED
from tests.simulation.slot_merchant import MERCHANT_TROUBLES
from tests.simulation.slot_trouble import SLOT_TROUBLES
from tests.simulation.solana_live import SolanaWorld, simulate_solana
from tests.simulation.trouble import TROUBLES
from tests.simulation.world import simulate

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = range(16, 24) if IS_SHORT else range(24)
# Each takes as long as four of the others.
LIVE_SEEDS: Final = range(23, 27) if IS_SHORT else range(20, 28)
SOLANA_SEEDS: Final = range(28, 34) if IS_SHORT else range(26, 34)
# `test_shopkeeper.py` has all that becomes of a change that is held back.
HELD: Final = {"change is held back", "held change is taken back"}
# In which much is done.
BUSY_SEED: Final = 20
DONE_TO_ENDPOINT: Final = (
    "put",
    "move",
    "choose",
    "pause",
    "resume",
    "disable",
    "enable",
    "delete",
    "rotate",
    "test",
    "resend",
    "replay-missing",
    "recover",
    "job is cancelled",
)


def judged(*arguments: str) -> list[Verdict]:
    """What `scripts/simulate` says of some seeds, in a process of its own: sets have one order there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--json", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return [msgspec.json.decode(line, type=Verdict) for line in done.stdout.splitlines()]


def happened_in(realm: str, seeds: range, again: int) -> Counter[str]:
    """What happened in all these seeds, in which every promise held, and each of which is one history."""
    where = ("--realm", realm, "--first", str(seeds[0]))
    verdicts = judged(*where, "--seeds", str(len(seeds)))
    repeated = judged(*where, "--seeds", str(again), "--jobs", "1")

    assert {one.seed: one.wrong for one in verdicts} == {seed: {} for seed in seeds}
    digests = {one.seed: one.digest for one in verdicts}
    assert {one.seed: one.digest for one in repeated} == {seed: digests[seed] for seed in seeds[:again]}
    assert len(set(digests.values())) == len(seeds)
    happened: Counter[str] = Counter()
    for one in verdicts:
        happened.update({name.removeprefix(f"{realm}: "): number for name, number in one.counts.items()})
    assert happened["answers lost"]
    assert happened["restores"]
    assert happened["webhooks received"] > happened["events"], "deaths and moods repeat some"
    return happened


@pytest.mark.crash
def test_every_promise_holds_whatever_happens_and_a_seed_is_one_history() -> None:
    happened = happened_in("test", SEEDS, again=1 if IS_SHORT else 3)

    assert {f"disk {fault}" for fault in (*DEATHS, *REFUSALS)} <= happened.keys()
    assert {f"endpoint: {what}" for what in DONE_TO_ENDPOINT} <= happened.keys()


@pytest.mark.crash
def test_no_money_is_missed_or_made_up_whatever_chains_and_nodes_do() -> None:
    happened = happened_in("live", LIVE_SEEDS, again=1 if IS_SHORT else 2)

    happens = TROUBLES | MERCHANT_CHANGES | SETTINGS_CHANGES | HELD | {RESTORED}
    assert happened.keys() >= happens


@pytest.mark.crash
def test_no_money_is_missed_or_made_up_whatever_forks_and_nodes_of_solana_do() -> None:
    happened = happened_in("solana", SOLANA_SEEDS, again=1 if IS_SHORT else 2)

    happens = SLOT_TROUBLES | MERCHANT_TROUBLES | MERCHANT_CHANGES | SETTINGS_CHANGES | HELD | {RESTORED}
    assert happened.keys() >= happens


def test_a_house_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is stored and never told is what the promises are there to find."""
    monkeypatch.setattr("payd.store.outbox.endpoint_wanting", lambda *_args: None, raising=True)

    assert "every_event_is_owed_to_the_endpoint_that_wanted_it" in broken(simulate(tmp_path, BUSY_SEED).left)


def test_a_house_that_owes_a_paused_endpoint_nothing_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_enabled(tx: Any, account_id: str, event_type: str) -> str | None:
        endpoint = find_endpoint(tx, account_id)
        is_on = endpoint is not None and endpoint.state is EndpointState.ENABLED
        return endpoint_wanting(tx, account_id, event_type) if is_on else None

    monkeypatch.setattr("payd.store.outbox.endpoint_wanting", only_enabled, raising=True)

    assert "every_event_is_owed_to_the_endpoint_that_wanted_it" in broken(simulate(tmp_path, BUSY_SEED).left)


def test_a_rotation_that_drops_the_secret_before_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_fresh(_: Any, fresh: str, now_ms: int) -> tuple[Secret, ...]:
        return (Secret(fresh, now_ms),)

    monkeypatch.setattr("payd.core.endpoint.rotate", only_fresh, raising=True)

    found = broken(simulate(tmp_path, BUSY_SEED).left)
    assert "every_request_is_signed_by_the_secrets_that_are_valid_and_no_other" in found


def test_a_house_to_which_a_revoked_key_is_good_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.web.auth.find_key", find_made_key, raising=True)

    found = broken(simulate(tmp_path, BUSY_SEED).left)
    assert "nothing_was_refused_or_failed_for_a_reason_of_our_own" in found


def test_a_feed_that_goes_on_in_a_history_that_is_no_more_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored house gives numbers anew that a listener has seen on other events."""
    monkeypatch.setattr("payd.web.feed.seq_in_history", lambda *args: args[2], raising=True)

    left = simulate(tmp_path, 16).left

    assert left.ledger.restores
    assert "the_account_feed_resumes_after_each_death_without_gap_or_repeat" in broken(left)


def test_a_watcher_that_loses_what_it_reads_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money that came and is not stored is what the promises on the chain are there to find."""
    monkeypatch.setattr("payd.actors.block_walk.record", lambda *_args: [], raising=True)
    monkeypatch.setattr(LiveWorld, "rest_max_s", 1800.0)  # it never comes to rest

    found = broken_live(simulate_live(tmp_path, 1).left)

    assert "every_transfer_to_the_merchant_is_stored_as_the_chain_shows_it" in found
    assert "a_payment_that_was_paid_in_time_has_succeeded" in found


def test_a_walk_along_accounts_that_loses_what_it_reads_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.actors.account_walk.record", lambda *_args: [], raising=True)
    monkeypatch.setattr(SolanaWorld, "rest_max_s", 1800.0)

    found = broken_live(simulate_solana(tmp_path, 1).left, SLOT_TRUTHS)

    assert "every_transfer_that_names_a_payment_is_stored_as_the_chain_shows_it" in found
    assert "a_payment_that_was_paid_in_time_has_succeeded" in found
