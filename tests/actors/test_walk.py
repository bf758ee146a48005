"""How far a step came, and the words for a transaction that was read by hand."""

from __future__ import annotations

from payd.actors.walk import MatchResult, Step
from payd.store.chain_cursors import Cursor
from payd.store.sightings import Sighting

OLD, NEW = Cursor(7, "a", 70), Cursor(8, "b", 71)


def test_there_is_more_to_read_below_the_head_and_where_a_step_was_cut() -> None:
    assert Step(NEW, None, OLD).more
    assert not Step(NEW, None, NEW).more
    assert not Step(OLD, None, NEW).more
    assert Step(NEW, None, NEW, is_cut=True).more


def test_what_pays_nobody_here_is_not_ours() -> None:
    assert MatchResult.recorded([]) == MatchResult.of("not_ours")


def test_what_is_recorded_says_what_it_is() -> None:
    late = Sighting("acct_1", None, "c", "t", 0, "a", 1, "s", "r", "late", 7, "h", 70)
    result = MatchResult.recorded([late, late])
    assert (result.outcome, result.sightings) == ("recorded", (late, late))
    assert result.words.endswith("It is late.")
