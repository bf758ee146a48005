"""Findings: the worst of them decides."""

from __future__ import annotations

import pytest

from payd.cli.finding import Finding, Level, worst


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((), "ok"),
        (("ok", "ok"), "ok"),
        (("ok", "warning"), "warning"),
        (("error", "ok", "warning"), "error"),
    ],
)
def test_the_worst_finding_is_the_whole_one(levels: tuple[Level, ...], expected: Level) -> None:
    assert worst([Finding(level, "subject", "words") for level in levels]) == expected
