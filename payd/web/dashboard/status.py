"""How the house does: chains, nodes, prices, who pays for gas, webhooks that are due, stores, version.

What `/metrics` and `payd doctor` say, for people. Nodes are named by their host alone.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from payd import __version__
from payd.actors.relay_alarms import WORDS
from payd.chains.assets import AssetBook
from payd.chains.defaults import DepthPolicy, coin_decimals_of
from payd.core.attention import BEHIND_MAX, SPACE_LOW, worst_first
from payd.core.caip import parse_chain
from payd.core.errors import StoreUnavailable
from payd.core.money import short_units
from payd.core.span import span
from payd.web.attention import house_matters
from payd.web.call import Answer
from payd.web.command import real_ms
from payd.web.dashboard.visit import Visit
from payd.web.house import House, Realm
from payd.web.metrics_chains import SeenChain, see_chain, sources_of
from payd.web.metrics_machine import free_bytes

LEVELS: Final = {"error": "bad", "warning": "wait", "notice": "soft"}
UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Node(msgspec.Struct, frozen=True):
    """A node of a chain."""

    name: str
    up: bool
    behind: int
    failures: int


class Purse(msgspec.Struct, frozen=True):
    """Who brings transactions to a chain and pays for them; amounts in the chain's coin."""

    address: str
    balance: str
    spent: str
    per_day: str
    queued: int
    in_flight: int
    alarms: tuple[str, ...]


class ChainView(msgspec.Struct, frozen=True):
    """A chain as it is read."""

    id: str
    name: str
    kind: str
    word: str
    head: str
    behind: int
    age: str
    depth: str
    trouble: str
    nodes: tuple[Node, ...]
    purse: Purse | None


class Source(msgspec.Struct, frozen=True):
    """A source of prices; whether it `works` is not known before it was asked."""

    name: str
    works: bool | None
    words: str


class Queue(msgspec.Struct, frozen=True):
    """The webhooks of a mode."""

    mode: str
    in_flight: str
    oldest: str
    canary: str


class Store(msgspec.Struct, frozen=True):
    """A database file with its log."""

    name: str
    healthy: bool
    words: str
    size: str
    log: str


async def page(visit: Visit) -> Answer:
    """GET /status: everything; asked again by the page itself, its parts alone."""
    house = visit.house
    # What concerns both modes is said once.
    matters = [one for realm in house.realms.values() for one in house_matters(house, realm)]
    live, free = house.realms.get("live"), free_bytes(house.data_dir)
    return visit.page(
        "status_parts.html" if visit.is_fragment else "status.html",
        matters=tuple(
            (LEVELS[one.level], one.subject, one.words) for one in worst_first(dict.fromkeys(matters))
        ),
        chains=()
        if live is None
        else tuple(chain_view(see_chain(one), live.assets, live.clock.now_ms()) for one in live.live_chains),
        sources=() if live is None else tuple(_sources(live)),
        queues=tuple(_queue(realm) for realm in house.realms.values()),
        stores=tuple(_stores(house)),
        free="–" if free is None else size_words(free),
        space_low=free is not None and free < SPACE_LOW,
        version=__version__,
        api_version=house.default_version,
        up=span(real_ms(house) - house.started_ms),
        at_ms=real_ms(house),
        href=visit.to("/status"),
    )


def chain_view(seen: SeenChain, book: AssetBook, now_ms: int) -> ChainView:
    """What a chain's numbers say to people.

    Args:
        seen: As the metrics see it.
        book: Knows the chain's name.
        now_ms: The live realm's time.
    """
    stats = seen.watcher
    kind, word = "good", "read"
    if stats.trouble:
        kind, word = "bad", "cannot be read"
    elif stats.head is None:
        kind, word = "wait", "not read yet"
    elif stats.blocks_behind > BEHIND_MAX:
        kind, word = "wait", "behind"
    age_ms = None if stats.read_time_s is None else max(0, now_ms - stats.read_time_s * 1000)
    return ChainView(
        id=seen.name,
        name=book.network(parse_chain(seen.name)) or seen.name,
        kind=kind,
        word=word,
        head="–" if stats.head is None else str(stats.head),
        behind=stats.blocks_behind,
        age="–" if age_ms is None else f"{span(age_ms)} ago",
        depth=depth_words(seen.depth),
        trouble=stats.trouble,
        nodes=tuple(Node(one.name, one.is_up, one.behind, one.failures) for one in seen.nodes),
        purse=_purse(seen),
    )


def depth_words(policy: DepthPolicy) -> str:
    """`2`; by amounts `1, from 100 USD 5, from 10000 USD finalized`."""
    first, *more = policy.steps
    return ", ".join([str(first.depth), *(f"from {step.from_usd} USD {step.depth}" for step in more)])


def size_words(size: int) -> str:
    """So many bytes, as people say it."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def _purse(seen: SeenChain) -> Purse | None:
    stats = seen.relayer
    if stats is None:
        return None
    decimals = coin_decimals_of(seen.name)
    return Purse(
        stats.address,
        "–" if stats.balance is None else short_units(stats.balance, decimals),
        short_units(stats.spent_today, decimals),
        short_units(stats.per_day, decimals),
        stats.queued,
        stats.in_flight,
        tuple(WORDS[alarm] for alarm in sorted(stats.alarms)),
    )


def _sources(realm: Realm) -> Iterator[Source]:
    for one in sources_of(realm.live_chains, realm.clock.now_ms()):
        if one.error:
            yield Source(one.source, False, f"failed: {one.error}")
        elif one.ok_age_ms is None:
            yield Source(one.source, None, "it is asked when somebody wants to pay")
        else:
            yield Source(one.source, True, f"answered {span(one.ok_age_ms)} ago")


def _queue(realm: Realm) -> Queue:
    deliveries = realm.deliveries
    try:
        due_ms = deliveries.next_due_ms()
    except StoreUnavailable:
        due_ms = None
    late_ms = 0 if due_ms is None else realm.clock.now_ms() - due_ms
    oldest = "nothing is owed" if due_ms is None else f"next in {span(-late_ms)}"
    if late_ms >= 0 and due_ms is not None:
        oldest = f"the oldest is due for {span(late_ms)}"
    return Queue(
        realm.name.capitalize(),
        str(deliveries.in_flight),
        oldest,
        "; ".join((*deliveries.problems(), *realm.canary.problems())),
    )


def _stores(house: House) -> Iterator[Store]:
    for name, db in house.stores.items():
        stats = db.stats()
        size = "–" if stats.file_bytes is None else size_words(stats.file_bytes)
        words = db.failure or "takes writes"
        yield Store(f"{name}.db", db.healthy, words, size, size_words(stats.log_bytes))
