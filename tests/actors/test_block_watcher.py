"""The watcher of an EVM chain: the walk, the repair by hand and the list of what is watched are one."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams
from tests.actors.watching import Watching


async def test_it_reads_by_blocks_and_repairs_what_it_read_past(watching: Watching) -> None:
    payment = await watching.till.sell()
    hidden = watching.pay(payment)
    watching.views[0].hides.add(hidden.hash)
    await watching.watcher.run_once()
    assert watching.till.kinds(hidden.hash) == []
    watching.views[0].hides.clear()
    repaired = await watching.watcher.match(hidden.hash)
    assert (repaired.outcome, watching.told) == ("recorded", [payment])
    assert watching.till.kinds(hidden.hash) == ["matched"]


async def test_what_is_no_id_of_its_chain_is_refused(watching: Watching) -> None:
    with pytest.raises(InvalidParams, match="0x and 64 hex digits"):
        await watching.watcher.match("4" * 88)
