"""What every node says is refused for so long, and then it is over until something else was heard."""

from __future__ import annotations

import trio

from payd.actors.patience import Patience
from payd.actors.walk import GONE_S


async def test_it_counts_from_the_first_time_since_something_else_was_heard() -> None:
    patience = Patience()
    await trio.sleep(GONE_S)
    assert not patience.is_over()
    await trio.sleep(GONE_S - 1)
    assert not patience.is_over()
    await trio.sleep(1)
    assert patience.is_over()
    assert patience.is_over()
    patience.restore()
    assert not patience.is_over()
