"""What a chain says at this moment about accounts: many facts read in one go, each kept for a while.

Only offers rest on these. What a wallet is to sign is made from a fresh look, and what pays is proven.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from solders.pubkey import Pubkey

from payd.chains.asking import answered, read, unavailable
from payd.chains.rpc import Call as RpcCall
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Account, decode_accounts, decode_count
from payd.chains.solana.asking import ACCOUNTS_MAX, account_calls, priority_fees_call, rent_call
from payd.chains.solana.priority import PRICE_MIN, price_of
from payd.core.errors import ChainUnavailable

KEPT_MS: Final = 5_000
# A mint changes seldom, and is read anew for what a wallet is to sign.
STEADY_KEPT_MS: Final = 60_000
PRICE_KEPT_MS: Final = 20_000
# Rent follows from the size alone, by a rule that validators vote about.
RENT_KEPT_MS: Final = 3_600_000
# Some hundred buyers with their accounts and assets, all within those seconds.
KEPT_MAX: Final = 20_000
# Of a wallet it matters whether there is data at all. Anybody may name an account that has ten megabytes.
WALLET_DATA_BYTES: Final = 1


class Wallet(msgspec.Struct, frozen=True):
    """The account at the address of a wallet, with the beginning of its data; None: there is none."""

    address: Pubkey


class TokenAccount(msgspec.Struct, frozen=True):
    """A token account whole; None: there is none."""

    address: Pubkey


class Steady(msgspec.Struct, frozen=True):
    """A mint, or the clock, whole; None: there is none."""

    address: Pubkey


class Rent(msgspec.Struct, frozen=True):
    """The lamports that an account with so much data has to hold."""

    data_bytes: int


class Price(msgspec.Struct, frozen=True):
    """What a unit of compute that writes to an account costs now, in micro-lamports."""

    address: Pubkey


At: TypeAlias = Wallet | TokenAccount | Steady
Fact: TypeAlias = At | Rent | Price
Value: TypeAlias = Account | int | None

_KEPT_MS: Final[dict[type, int]] = {
    Wallet: KEPT_MS,
    TokenAccount: KEPT_MS,
    Steady: STEADY_KEPT_MS,
    Rent: RENT_KEPT_MS,
    Price: PRICE_KEPT_MS,
}


class Facts:
    """The facts of one chain.

    Args:
        rpc: Its nodes.
    """

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._kept: dict[Fact, tuple[int, Value]] = {}

    async def read(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Read those that are not known, in one POST where a node allows it; prices in one of their own.

        Raises:
            ChainUnavailable: No node answers.
        """
        missing = [fact for fact in dict.fromkeys(facts) if not self._knows(fact, now_ms)]
        places = [fact for fact in missing if isinstance(fact, At)]
        rents = [fact for fact in missing if isinstance(fact, Rent)]
        prices = [fact for fact in missing if isinstance(fact, Price)]
        if places or rents:
            await self._read(places, rents, now_ms)
        if prices:
            await self._read_prices(prices, now_ms)

    async def account(self, fact: At, now_ms: int) -> Account | None:
        """See `Wallet`, `TokenAccount` and `Steady`."""
        value = await self._get(fact, now_ms)
        assert not isinstance(value, int)
        return value

    async def number(self, fact: Rent | Price, now_ms: int) -> int:
        """See `Rent` and `Price`."""
        value = await self._get(fact, now_ms)
        assert isinstance(value, int)
        return value

    async def _get(self, fact: Fact, now_ms: int) -> Value:
        await self.read([fact], now_ms)
        return self._kept[fact][1]

    def _knows(self, fact: Fact, now_ms: int) -> bool:
        kept = self._kept.get(fact)
        # The wall clock may have been set back since.
        return kept is not None and 0 <= now_ms - kept[0] < _KEPT_MS[type(fact)]

    async def _read(self, places: Sequence[At], rents: Sequence[Rent], now_ms: int) -> None:
        calls = calls_for(places)
        results = await read(self._rpc, [*calls, *(rent_call(rent.data_bytes) for rent in rents)])
        try:
            accounts = accounts_in(places, results[: len(calls)])
            numbers = [decode_count(answered(result), "the rent") for result in results[len(calls) :]]
        except BadAnswer as bad:
            raise unavailable(bad) from bad
        for place in places:
            self._keep(place, accounts[place], now_ms)
        for rent, number in zip(rents, numbers, strict=True):
            self._keep(rent, number, now_ms)

    async def _read_prices(self, prices: Sequence[Price], now_ms: int) -> None:
        """Prices are a courtesy of nodes: where none can tell them, the least is paid."""
        try:
            results = await read(self._rpc, [priority_fees_call([price.address]) for price in prices])
        except ChainUnavailable:
            results = [None] * len(prices)
        for price, result in zip(prices, results, strict=True):
            try:
                number = PRICE_MIN if result is None else price_of(answered(result))
            except BadAnswer:
                number = PRICE_MIN
            self._keep(price, number, now_ms)

    def _keep(self, fact: Fact, value: Value, now_ms: int) -> None:
        self._kept.pop(fact, None)
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[fact] = (now_ms, value)


def calls_for(places: Sequence[At]) -> list[RpcCall]:
    """The calls that read these accounts."""
    wallets, others = _sorted(places)
    short = account_calls([one.address for one in wallets], data_max=WALLET_DATA_BYTES)
    return [*short, *account_calls([one.address for one in others])]


def accounts_in(places: Sequence[At], results: Sequence[object]) -> dict[At, Account | None]:
    """The accounts in the results of `calls_for` the same.

    Raises:
        BadAnswer: They are not.
    """
    found: dict[At, Account | None] = {}
    left = iter(results)
    for group in _sorted(places):
        for at in range(0, len(group), ACCOUNTS_MAX):
            chunk = group[at : at + ACCOUNTS_MAX]
            _, accounts = decode_accounts(answered(next(left)), len(chunk))
            found.update(zip(chunk, accounts, strict=True))
    return found


def _sorted(places: Sequence[At]) -> tuple[list[At], list[At]]:
    """Wallets, and all others."""
    wallets: list[At] = [place for place in places if isinstance(place, Wallet)]
    return wallets, [place for place in places if not isinstance(place, Wallet)]
