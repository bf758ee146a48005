"""The timeline of a demo is told as it happens, or kept for who reads it later."""

from __future__ import annotations

import msgspec
import pytest
import trio

from payd.cli.timeline import Timeline


async def test_the_timeline_is_told_as_it_happens(capsys: pytest.CaptureFixture[str]) -> None:
    timeline = Timeline(quiet=False)
    await trio.sleep(1.5)
    timeline.add("wallet", "pays")
    assert timeline.entries == [{"afterMs": 1500, "who": "wallet", "what": "pays"}]
    assert capsys.readouterr().out.split() == ["1500", "ms", "wallet", "pays"]
    assert msgspec.json.encode(timeline.entries)
