"""What is asked for on the command line is what is measured, at that size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.__main__ import ALL_PARTS, Asked, read_arguments
from tests.bench.parts import QUICK, RATES, Size


def names(*given: str) -> list[str]:
    return [part.name for part in read_arguments(given).parts]


def test_without_a_name_everything_is_measured_and_nothing_is_written() -> None:
    asked = read_arguments([])

    assert {part.name for part in asked.parts} == {*ALL_PARTS, "rates"} - set(RATES)
    assert asked.to is None


def test_rates_share_a_table() -> None:
    assert names("status", "confirm", "growth") == ["rates", "growth"]
    assert names("--parts", "limits,memory") == ["memory", "limits"]


def test_a_report_goes_to_its_folder_with_the_parts_that_are_named() -> None:
    asked = read_arguments(["report", "restart", "--to", "there"])

    assert [part.name for part in asked.parts] == ["restart"]
    assert asked.to == Path("there")
    assert [part.name for part in read_arguments(["report"]).parts] == names()


def test_a_first_walk_is_asked_for_alone() -> None:
    assert read_arguments(["first"]) == Asked([], None, first=True)
    assert not read_arguments([]).first
    with pytest.raises(SystemExit):
        read_arguments(["first", "status"])


def test_a_part_that_is_unknown_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_arguments(["status", "weather"])
    assert "no such part: weather" in capsys.readouterr().err


def test_what_is_chosen_changes_every_plan_that_has_it_and_no_other() -> None:
    size = QUICK.chosen({"rounds": 7, "connections": (3,)})

    assert (size.plan.rounds, size.plan.connections) == (7, (3,))
    assert size.sends.rounds == size.restarts.rounds == size.bounds.rounds == 7
    assert size.plan.seconds == QUICK.plan.seconds
    assert size.walks == QUICK.walks
    assert QUICK.chosen({}) == QUICK != Size()
