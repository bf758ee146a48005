"""The live chains' part of the metrics page: how far each is read, how its nodes do, what the relayer has.

Each text says what a number means and from when on to worry, because who reads it was woken by it. Nothing
here imports what signs: a server without live chains does not have it.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from payd.actors.relay_alarms import WORDS
from payd.chains.defaults import coin_decimals_of
from payd.core.errors import StoreUnavailable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from payd.actors.live_chain import LiveChain
    from payd.actors.relay_stats import RelayerStats
    from payd.actors.watcher import WatcherStats
    from payd.chains.defaults import DepthPolicy
    from payd.chains.market.source import SourceHealth


class SeenNode(NamedTuple):
    """A node; `name` is its scheme and host alone."""

    name: str
    is_up: bool
    failures: int
    behind: int


class SeenChain(NamedTuple):
    """What the page shows of a chain; `relayer` is None where there is none, or it cannot be read now."""

    name: str
    watcher: WatcherStats
    nodes: Sequence[SeenNode]
    calls: Mapping[str, int]
    disagreements: int
    relayer: RelayerStats | None
    depth: DepthPolicy


class _Number(NamedTuple):
    """One number of a chain, or None where it is not known: then it is absent, which is no zero."""

    name: str
    words: str
    value: Callable[[SeenChain, int], float | None]


class _Purse(NamedTuple):
    """One number of a relayer; an amount is in the smallest unit of the chain's coin, and shown in coins."""

    name: str
    words: str
    value: Callable[[RelayerStats, int], float | None]
    is_amount: bool = False


GAUGES: Final = (
    _Number(
        "payd_chain_head",
        "Number of the newest block (on Solana, slot) that a node named; absent before the first.",
        lambda one, now_ms: one.watcher.head,
    ),
    _Number(
        "payd_chain_blocks_behind",
        "Blocks (on Solana, slots) that are there and not read. Worry when it stays above a few dozen: nodes"
        " are slow or refuse, see payd_chain_node_up.",
        lambda one, now_ms: one.watcher.blocks_behind,
    ),
    _Number(
        "payd_chain_read_lag_seconds",
        "Age of the newest block that was read, by this machine's clock; absent before the first of all."
        " Worry above 300: nothing is seen of what buyers pay, and nothing expires. The nodes are down, the"
        " chain has stopped, or this clock is wrong.",
        lambda one, now_ms: _lag_s(one.watcher, now_ms),
    ),
    _Number(
        "payd_chain_not_final_blocks",
        "Blocks that were read once, and not yet a second time, which is done when they are final; absent"
        " before the first. Worry when it is several times the usual: payments do not settle, and what one"
        " node hid is not found by another.",
        lambda one, now_ms: _not_final(one.watcher),
    ),
    _Number(
        "payd_chain_deepest_reorg_blocks",
        "The deepest reorganisation since the start. Worry when it comes near the chain's depth: raise that.",
        lambda one, now_ms: one.watcher.deepest_reorg,
    ),
    _Number(
        "payd_chain_transactions_skipped",
        "Transactions that were read past because no node could tell of them, and that none can tell of yet."
        " Each is read again for a day. Worry when one stays: have `payd payment match` read it once a node"
        " can.",
        lambda one, now_ms: one.watcher.skipped,
    ),
)

COUNTERS: Final = (
    _Number(
        "payd_chain_ticks",
        "Readings of the chain that were begun.",
        lambda one, now_ms: one.watcher.ticks,
    ),
    _Number(
        "payd_chain_ticks_failed",
        "Readings that failed and are repeated with another node. Worry when it grows as fast as"
        " payd_chain_ticks: no node can be read, and the log says why (chain.unread).",
        lambda one, now_ms: one.watcher.failures,
    ),
    _Number(
        "payd_chain_reorgs",
        "Reorganisations that were followed. Some are the way of most chains.",
        lambda one, now_ms: one.watcher.reorgs,
    ),
    _Number(
        "payd_chain_payments_lost",
        "Payments that were told to have succeeded by a transfer which a reorganisation then took. Worry at"
        " the first one: the log names each (chain.reorg_after_success). Hold back what was sold, and raise"
        " depth.",
        lambda one, now_ms: one.watcher.lost,
    ),
    _Number(
        "payd_chain_disagreements",
        "Proofs of a transfer on which too few nodes agreed at that moment. Worry when it keeps growing: a"
        " node is far behind, or lies.",
        lambda one, now_ms: one.disagreements,
    ),
)

RELAYER_GAUGES: Final = (
    _Purse(
        "payd_relayer_balance_coins",
        "Native coins that the relayer's account holds; absent before the first look. Worry when"
        " payd_relayer_alarm is 1 for balance_low: send it some.",
        lambda one, now_ms: one.balance,
        is_amount=True,
    ),
    _Purse(
        "payd_relayer_spent_day_coins",
        "Native coins that the relayer spent in the last 24 hours; gas_per_day ends it.",
        lambda one, now_ms: one.spent_today,
        is_amount=True,
    ),
    _Purse(
        "payd_relayer_budget_day_coins",
        "Native coins that the relayer may spend in 24 hours (gas_per_day); absent where buyers pay. Worry"
        " when payd_relayer_spent_day_coins comes near it: from then on buyers pay gas themselves.",
        lambda one, now_ms: one.per_day if one.address else None,
        is_amount=True,
    ),
    _Purse(
        "payd_relayer_in_flight",
        "Transactions that were sent and are not known to have landed. Worry when it stays up: see"
        " payd_relayer_alarm for stuck.",
        lambda one, now_ms: one.in_flight,
    ),
    _Purse(
        "payd_relayer_queued",
        "Signed payments that wait to be sent; at 200 buyers pay the fee themselves.",
        lambda one, now_ms: one.queued,
    ),
    _Purse(
        "payd_relayer_oldest_queued_seconds",
        "How long the one that waits longest has waited; 0 when none does. Worry above 300: buyers have"
        " signed and wait, and their signatures run out.",
        lambda one, now_ms: 0.0 if one.oldest_queued_ms is None else _age_s(one.oldest_queued_ms, now_ms),
    ),
)

RELAYER_COUNTERS: Final = (
    _Purse(
        "payd_relayer_bumps",
        "Transactions that were sent again with a higher fee, on Solana as they were. Many at once mean that"
        " gas became dear, and on Solana that nodes drop them.",
        lambda one, now_ms: one.bumps,
    ),
    _Purse(
        "payd_relayer_reverts",
        "Transactions that landed and failed: a fee for nothing. Worry when it grows: somebody takes"
        " signatures back, or spends what was promised.",
        lambda one, now_ms: one.reverts,
    ),
    _Purse(
        "payd_relayer_lost",
        "Nonces that something else used; on Solana, transactions that were confirmed and then gone. Worry at"
        " the first one: is the key used by another program? On Solana a fork took it; it is sent again.",
        lambda one, now_ms: one.lost,
    ),
    _Purse(
        "payd_relayer_fillers",
        "Empty transactions that were sent to use a nonce which held up those after it; none on Solana. Worry"
        " when it grows.",
        lambda one, now_ms: one.fillers,
    ),
)


def see_chain(live: LiveChain) -> SeenChain:
    """A chain as it is now. Reads memory, and of the relayer's rows a few."""
    rpc = live.rpc
    nodes = [SeenNode(node.name, node.is_healthy, node.failures_ever, rpc.lag(node)) for node in rpc.nodes]
    stats, evidence = live.reading(), live.chain.evidence
    return SeenChain(
        live.name, stats, nodes, rpc.calls, evidence.disagreements, _relayer_of(live), live.depth
    )


def sources_of(chains: Sequence[LiveChain], now_ms: int) -> list[SourceHealth]:
    """How the sources of prices do; none where the operator wrote the prices down."""
    from payd.chains.market.prices import MarketPrices

    prices = chains[0].prices if chains else None
    return prices.health(now_ms) if isinstance(prices, MarketPrices) else []


def chain_families(
    chains: Sequence[SeenChain], sources: Sequence[SourceHealth], now_ms: int
) -> Iterator[Metric]:
    """Every family that has something to show, with the chain as a label.

    Args:
        chains: Of the live realm.
        sources: Of prices.
        now_ms: The live realm's time.
    """
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    relayers = {one.name: one.relayer for one in chains if one.relayer is not None}
    for numbers, purses, kind in (
        (GAUGES, RELAYER_GAUGES, GaugeMetricFamily),
        (COUNTERS, RELAYER_COUNTERS, CounterMetricFamily),
    ):
        for number in numbers:
            values = {one.name: number.value(one, now_ms) for one in chains}
            yield from _family(kind, number.name, number.words, values)
        for purse in purses:
            values = {name: _shown(purse, name, one, now_ms) for name, one in relayers.items()}
            yield from _family(kind, purse.name, purse.words, values)
    yield from _alarms(relayers)
    yield from _nodes(chains)
    yield from _sources(sources)


def skew_family(skew_s: float) -> Metric:
    """How far our clock is ahead of the nodes'."""
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(
        "payd_chain_clock_skew_seconds",
        "Seconds that this machine's clock is ahead of the clocks of the chains' nodes, by their median;"
        " absent before the first look. Worry beyond 30 either way, and set the clock: from 120 on,"
        " payments come as late or unmatched transfers.",
        value=skew_s,
    )


def _shown(purse: _Purse, chain: str, stats: RelayerStats, now_ms: int) -> float | None:
    value = purse.value(stats, now_ms)
    return value / 10 ** coin_decimals_of(chain) if purse.is_amount and value is not None else value


def _family(
    kind: Callable[..., Metric], name: str, words: str, values: Mapping[str, float | None]
) -> Iterator[Metric]:
    family = kind(name, words, labels=["chain"])
    for chain, value in values.items():
        if value is not None:
            family.add_metric([chain], value)  # type: ignore[attr-defined]
    if family.samples:
        yield family


def _alarms(relayers: Mapping[str, RelayerStats]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(
        "payd_relayer_alarm",
        "1 while something about the relayer needs a person. Worry at each: "
        + " ".join(f"{alarm}: {words}" for alarm, words in WORDS.items()),
        labels=["chain", "alarm"],
    )
    for chain, stats in relayers.items():
        for alarm in WORDS:
            family.add_metric([chain, alarm], float(alarm in stats.alarms))
    if family.samples:
        yield family


def _nodes(chains: Sequence[SeenChain]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    up = GaugeMetricFamily(
        "payd_chain_node_up",
        "1 while a node is asked like any other, 0 while it is put aside after a failure. Worry when all of a"
        " chain are 0, or all but one for long: one alone decides what was paid.",
        labels=["chain", "node"],
    )
    behind = GaugeMetricFamily(
        "payd_chain_node_behind_blocks",
        "Blocks (on Solana, slots) that a node is behind the others, as they were named last. Worry when it"
        " stays above 30, on Solana above 150.",
        labels=["chain", "node"],
    )
    failures = CounterMetricFamily(
        "payd_chain_node_failures",
        "Times that a node did not answer, or with nothing usable; the log says what (rpc.node_down).",
        labels=["chain", "node"],
    )
    calls = CounterMetricFamily(
        "payd_chain_rpc_calls",
        "Calls to nodes by method, those of batches and retries each for itself: what providers count.",
        labels=["chain", "method"],
    )
    for one in chains:
        for node in one.nodes:
            up.add_metric([one.name, node.name], float(node.is_up))
            behind.add_metric([one.name, node.name], node.behind)
            failures.add_metric([one.name, node.name], node.failures)
        for method, count in sorted(one.calls.items()):
            calls.add_metric([one.name, method], count)
    yield from (family for family in (up, behind, failures, calls) if family.samples)


def _sources(sources: Sequence[SourceHealth]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    age = GaugeMetricFamily(
        "payd_price_source_age_seconds",
        "Seconds since a source of prices last answered; absent before the first. They are asked when"
        " somebody wants to pay, so it grows while nobody does. Worry when payd_price_source_failures grows"
        " with it: with fewer than two sources, volatile assets are not offered.",
        labels=["source"],
    )
    failures = CounterMetricFamily(
        "payd_price_source_failures",
        "Times that a source of prices did not answer, or not with a price.",
        labels=["source"],
    )
    for one in sources:
        if one.ok_age_ms is not None:
            age.add_metric([one.source], one.ok_age_ms / 1000)
        failures.add_metric([one.source], one.failures)
    yield from (family for family in (age, failures) if family.samples)


def _relayer_of(live: LiveChain) -> RelayerStats | None:
    try:
        return None if live.relayer is None else live.relayer.stats()
    except StoreUnavailable:
        return None


def _not_final(stats: WatcherStats) -> float | None:
    return None if stats.read is None or stats.final is None else max(0, stats.read - stats.final)


def _lag_s(stats: WatcherStats, now_ms: int) -> float | None:
    return None if stats.read_time_s is None else _age_s(stats.read_time_s * 1000, now_ms)


def _age_s(since_ms: int, now_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1000
