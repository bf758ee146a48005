"""What was written is told, also when the client leaves in between."""

from __future__ import annotations

from typing import Any, cast

import trio

from payd.web.call import Call
from payd.web.commit import write_and_tell
from tests.shop import Shop


class Asked:
    """As much of a call as there is to it."""

    def __init__(self, shop: Shop) -> None:
        self.realm = shop.realm


async def test_it_gives_what_was_written_and_tells_of_it(shop: Shop) -> None:
    told: list[int] = []

    async def write() -> int:
        return 7

    assert await write_and_tell(cast(Call, Asked(shop)), write, told.append) == 7
    assert told == [7]


async def test_a_client_that_leaves_takes_only_its_waiting_along(shop: Shop) -> None:
    told: list[Any] = []

    async def write() -> str:
        await trio.sleep(1)
        return "written"

    with trio.move_on_after(0.5) as left:
        await write_and_tell(cast(Call, Asked(shop)), write, told.append)
    assert left.cancelled_caught
    assert told == []
    await trio.sleep(1)
    assert told == ["written"]
