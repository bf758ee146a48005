"""Of what happens all the time the log is told now and then."""

from __future__ import annotations

import trio

from payd.web.seldom import COMPLAINTS_S, Seldom


async def test_it_is_due_at_once_and_then_after_a_while() -> None:
    seldom = Seldom()
    assert [seldom.is_due() for _ in range(3)] == [True, False, False]
    await trio.sleep(COMPLAINTS_S - 0.001)
    assert not seldom.is_due()
    await trio.sleep(0.001)
    assert [seldom.is_due() for _ in range(2)] == [True, False]
