"""The words for a transaction that was read by hand."""

from __future__ import annotations

from payd.actors.walk import UNCERTAIN, WORDS, MatchResult
from payd.store.sightings import Sighting


def test_what_pays_nobody_here_is_not_ours() -> None:
    assert MatchResult.recorded([]) == MatchResult.of("not_ours")


def test_only_what_no_later_reading_changes_is_certain() -> None:
    assert WORDS.keys() - UNCERTAIN == {"recorded", "reverted", "not_ours"}


def test_what_is_recorded_says_what_it_is() -> None:
    late = Sighting("acct_1", None, "c", "t", 0, "a", 1, "s", "r", "late", 7, "h", 70)
    result = MatchResult.recorded([late, late])
    assert (result.outcome, result.sightings) == ("recorded", (late, late))
    assert result.words.endswith("It is late.")
