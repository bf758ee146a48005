"""What payd knows of a chain before anyone configures it: pace, depth, fees, limits; `data/chains.json`.

The depths are our judgement: how much a chain has taken back so far, against how long a buyer waits.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from payd.chains.assets import shipped_table

Tag = Literal["safe", "confirmed", "finalized"]
Depth = int | Tag
"""Blocks up to the head, of which the transfer's own is the first; or the tag that has reached it.

EVM chains have blocks, "safe" and "finalized"; Solana has "confirmed" and "finalized"."""

SOLANA: Final = "solana:"
"""What the CAIP-2 ids of Solana chains begin with."""

EVM_COIN_DECIMALS: Final = 18
SOL_DECIMALS: Final = 9

DEPTH_MAX: Final = 1000  # blocks; who wants more wants "finalized"
STEPS_MAX: Final = 16

_TABLE: Final = Path(__file__).with_name("data") / "chains.json"
_USD_DIGITS_MAX: Final = 12
_TAGS: Final[tuple[Tag, ...]] = ("safe", "confirmed", "finalized")

_Defaults = TypeVar("_Defaults", bound="ChainDefaults")


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


class ChainDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a chain where its configuration says nothing.

    Attributes:
        name: For people.
        symbol: Of the native coin.
        block_ms: From block to block, or from slot to slot, about.
        poll_ms: How often the head is asked for where no websocket tells it.
        depth: When a payment has succeeded.
        gas_per_day: What may be spent on other people's transactions in 24 hours, in native coins.
        relays_per_buyer: How many payments of one account are paid for in 24 hours.
        sponsor: Whether that is done at all, so that buyers need no native coins.
    """

    name: str
    symbol: str
    block_ms: int
    poll_ms: int
    depth: DepthPolicy
    gas_per_day: Decimal
    relays_per_buyer: int
    sponsor: bool


class EvmDefaults(ChainDefaults, frozen=True, kw_only=True):
    """Those of an EVM chain.

    Attributes:
        final: When a payment has settled: at the tag, or so many blocks deep where nodes do not have the tag.
        max_fee_gwei: The most that the relayer offers for a unit of gas.
        bump_after_ms: How long a transaction waits before it is sent again with a higher fee.
    """

    final: int | Literal["finalized"]
    max_fee_gwei: Decimal
    bump_after_ms: int


class SolanaDefaults(ChainDefaults, frozen=True, kw_only=True):
    """Those of a Solana chain.

    Attributes:
        unit_price_max: Micro-lamports that a transaction offers for a compute unit at most.
    """

    unit_price_max: int


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A chain in the file: names stand in the table of assets."""

    block_ms: int
    poll_ms: int
    depth: Depth | dict[str, Depth]
    gas_per_day: Decimal
    relays_per_buyer: int
    sponsor: bool


class _EvmRow(_Row, frozen=True, forbid_unknown_fields=True, kw_only=True):
    final: int | Literal["finalized"]
    max_fee_gwei: Decimal
    bump_after_ms: int


class _SolanaRow(_Row, frozen=True, forbid_unknown_fields=True, kw_only=True):
    unit_price_max: int


class _EvmChains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chains by CAIP-2, and what holds for any other."""

    chains: Mapping[str, _EvmRow]
    other: _EvmRow


class _SolanaChains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same."""

    chains: Mapping[str, _SolanaRow]
    other: _SolanaRow


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    evm: _EvmChains
    solana: _SolanaChains


def evm_defaults_of(chain: str) -> EvmDefaults:
    """The defaults of an EVM chain; careful ones for a chain that payd knows nothing of.

    Args:
        chain: Canonical CAIP-2, `eip155:…`.
    """
    table = _table().evm
    return _filled(EvmDefaults, chain, table.chains.get(chain, table.other))


def solana_defaults_of(chain: str) -> SolanaDefaults:
    """The defaults of a Solana chain; careful ones for a cluster of somebody's own.

    Args:
        chain: Canonical CAIP-2, `solana:…`.
    """
    table = _table().solana
    return _filled(SolanaDefaults, chain, table.chains.get(chain, table.other))


def coin_decimals_of(chain: str) -> int:
    """How many decimals the native coin of a chain has: fees and budgets are counted in its smallest unit."""
    return SOL_DECIMALS if chain.startswith(SOLANA) else EVM_COIN_DECIMALS


def described_chains() -> tuple[str, ...]:
    """The chains with a row of their own, CAIP-2."""
    table = _table()
    return (*table.evm.chains, *table.solana.chains)


@cache
def _table() -> _Table:
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Table)


def _filled(kind: type[_Defaults], chain: str, row: _Row) -> _Defaults:
    given = {**msgspec.structs.asdict(row), "depth": DepthPolicy.of(row.depth)}
    return kind(name=_name(chain), symbol=_native_symbol(chain), **given)


def _name(chain: str) -> str:
    reference = chain.rpartition(":")[2]
    # The reference of a Solana chain is the beginning of a hash.
    other = f"Solana {reference[:6]}…" if chain.startswith(SOLANA) else f"Chain {reference}"
    return shipped_table().networks.get(chain, other)


def _native_symbol(chain: str) -> str:
    rows = (row for row in shipped_table().assets if row.kind == "native")
    other = "SOL" if chain.startswith(SOLANA) else "native coin"
    return next((row.symbol for row in rows if row.asset.startswith(f"{chain}/")), other)


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
