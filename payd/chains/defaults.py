"""What payd knows of an EVM chain before anyone configures it: pace, depth, fees, limits; `data/chains.json`.

The depths are our judgement: how much a chain has taken back so far, against how long a buyer waits.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from payd.chains.assets import shipped_table

Tag = Literal["safe", "finalized"]
Depth = int | Tag
"""Blocks up to the head, of which the transfer's own is the first; or the tag that has reached it."""

DEPTH_MAX: Final = 1000  # blocks; who wants more wants "finalized"
STEPS_MAX: Final = 16

_TABLE: Final = Path(__file__).with_name("data") / "chains.json"
_USD_DIGITS_MAX: Final = 12
_TAGS: Final[tuple[Tag, ...]] = ("safe", "finalized")


class DepthStep(msgspec.Struct, frozen=True):
    """From payments of this many US dollars on, this depth."""

    from_usd: int
    depth: Depth


class DepthPolicy(msgspec.Struct, frozen=True):
    """How deep a transfer must lie before its payment has succeeded, by what it is worth.

    Attributes:
        steps: The first from 0 on; a larger payment never has less to wait for than a smaller one.
    """

    steps: tuple[DepthStep, ...]

    @classmethod
    def of(cls, written: Any) -> DepthPolicy:
        """The policy as it is written in a file.

        Args:
            written: A depth for every payment, or a table from US dollars, as text, to depths.

        Raises:
            ValueError: It is neither, has no depth for the smallest payments, or asks less of larger ones.
        """
        table = written if isinstance(written, Mapping) else {"0": written}
        steps = sorted(
            (DepthStep(_dollars(usd), _depth(depth)) for usd, depth in table.items()),
            key=lambda step: step.from_usd,
        )
        ranks = [_rank(step.depth) for step in steps]
        amounts = {step.from_usd for step in steps}
        if 0 not in amounts or len(amounts) < len(steps) or len(steps) > STEPS_MAX or ranks != sorted(ranks):
            raise ValueError("a depth for 0 dollars, and none smaller for more")
        return cls(tuple(steps))

    def written(self) -> Depth | dict[str, Depth]:
        """As a file has it: what `of` makes this policy from."""
        if len(self.steps) == 1:
            return self.steps[0].depth
        return {str(step.from_usd): step.depth for step in self.steps}

    def depth_for(self, usd_cents: int | None) -> Depth:
        """The depth for a payment worth so many US cents; the deepest for one whose worth is not known."""
        if usd_cents is None:
            return self.steps[-1].depth
        return next(step.depth for step in reversed(self.steps) if step.from_usd * 100 <= usd_cents)


class ChainDefaults(msgspec.Struct, frozen=True):
    """What holds for a chain where its configuration says nothing.

    Attributes:
        name: For people.
        symbol: Of the native coin.
        block_ms: From block to block, about.
        poll_ms: How often the head is asked for where no websocket tells it.
        depth: When a payment has succeeded.
        final: When it has settled: at the tag, or so many blocks deep where nodes do not have the tag.
        max_fee_gwei: The most that the relayer offers for a unit of gas.
        gas_per_day: What the relayer may spend in 24 hours, in native coins.
        relays_per_buyer: How many payments of one account it carries in 24 hours.
        bump_after_ms: How long a transaction waits before it is sent again with a higher fee.
        sponsor: Whether the relayer carries signed payments, so that buyers need no native coins.
    """

    name: str
    symbol: str
    block_ms: int
    poll_ms: int
    depth: DepthPolicy
    final: int | Literal["finalized"]
    max_fee_gwei: Decimal
    gas_per_day: Decimal
    relays_per_buyer: int
    bump_after_ms: int
    sponsor: bool


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chain in the file: names stand in the table of assets."""

    block_ms: int
    poll_ms: int
    depth: Depth | dict[str, Depth]
    final: int | Literal["finalized"]
    max_fee_gwei: Decimal
    gas_per_day: Decimal
    relays_per_buyer: int
    bump_after_ms: int
    sponsor: bool


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chains by CAIP-2, and what holds for any other."""

    chains: Mapping[str, _Row]
    other: _Row


def defaults_of(chain: str) -> ChainDefaults:
    """The defaults of a chain; careful ones for a chain that payd knows nothing of.

    Args:
        chain: Canonical CAIP-2, `eip155:…`.
    """
    table = _table()
    row = table.chains.get(chain, table.other)
    return ChainDefaults(
        name=shipped_table().networks.get(chain, f"Chain {chain.rpartition(':')[2]}"),
        symbol=_native_symbol(chain),
        block_ms=row.block_ms,
        poll_ms=row.poll_ms,
        depth=DepthPolicy.of(row.depth),
        final=row.final,
        max_fee_gwei=row.max_fee_gwei,
        gas_per_day=row.gas_per_day,
        relays_per_buyer=row.relays_per_buyer,
        bump_after_ms=row.bump_after_ms,
        sponsor=row.sponsor,
    )


def described_chains() -> tuple[str, ...]:
    """The chains with a row of their own, CAIP-2."""
    return tuple(_table().chains)


@cache
def _table() -> _Table:
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Table)


def _native_symbol(chain: str) -> str:
    rows = (row for row in shipped_table().assets if row.kind == "native")
    return next((row.symbol for row in rows if row.asset.startswith(f"{chain}/")), "native coin")


def _dollars(text: Any) -> int:
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _USD_DIGITS_MAX):
        raise ValueError("dollars are digits")
    return int(text)


def _depth(value: Any) -> Depth:
    if type(value) is int and 1 <= value <= DEPTH_MAX:
        return value
    for tag in _TAGS:
        if value == tag:
            return tag
    raise ValueError("a depth is a number of blocks or a tag")


def _rank(depth: Depth) -> tuple[int, int]:
    """What orders depths. Blocks and tags are not of one measure; a tag is always the later wish."""
    return (0, depth) if isinstance(depth, int) else (1 + _TAGS.index(depth), 0)
