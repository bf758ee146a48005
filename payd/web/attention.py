"""What a person should look at: of their own account, and of the house that it lives in.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from payd.actors.relay_alarms import WORDS
from payd.core.attention import ChainState, Matter, of_chain, of_clock, of_prices, of_space, worst_first
from payd.store.attention import account_matters
from payd.web.metrics_chains import SeenChain, see_chain, sources_of
from payd.web.metrics_machine import free_bytes
from payd.web.sealed import closed_words

if TYPE_CHECKING:
    from payd.web.house import House, Realm


async def matters_of(house: House, realm: Realm, account_id: str) -> list[Matter]:
    """Everything to look at, the worst first.

    Raises:
        StoreUnavailable: The realm cannot be read; `house_matters` says why all the same.
    """
    own = await realm.db.read(account_matters, account_id, realm.clock.now_ms())
    return worst_first([*house_matters(house, realm), *own])


def house_matters(house: House, realm: Realm) -> list[Matter]:
    """What of the house concerns everybody in the realm; reads memory, some rows, and the free disk."""
    return worst_first(_house_matters(house, realm))


def _house_matters(house: House, realm: Realm) -> Iterator[Matter]:
    stores = {"office": house.office, realm.name: realm.db}
    for name, db in stores.items():
        if db.failure is not None:
            yield Matter("error", "store", db.failure, name)
        if (words := closed_words(house, db)) is not None:
            yield Matter("error", "store", words, name)
    for words in (*realm.deliveries.problems(), *realm.canary.problems()):
        yield Matter("error", "webhooks", words)
    if (free := free_bytes(house.data_dir)) is not None:
        yield from of_space(free)
    if (off_s := realm.clock_check.off_s) is not None:
        yield of_clock(off_s)
    for live in realm.live_chains:
        yield from of_chain(state_of(see_chain(live)))
    sources = sources_of(realm.live_chains, realm.clock.now_ms())
    yield from of_prices(len(sources), [one.source for one in sources if one.error])


def state_of(seen: SeenChain) -> ChainState:
    """What of a chain's numbers matters to people."""
    alarms = () if seen.relayer is None else sorted(seen.relayer.alarms)
    return ChainState(
        name=seen.name,
        trouble=seen.watcher.trouble,
        behind=seen.watcher.blocks_behind,
        down=[node.name for node in seen.nodes if not node.is_up],
        nodes=len(seen.nodes),
        alarms=[WORDS[alarm] for alarm in alarms],
    )
