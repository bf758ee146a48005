"""The merchant of a seed of Solana: whatever becomes of their token accounts, in the end they are good."""

from __future__ import annotations

from collections import Counter
from random import Random

import trio
from trio.testing import MockClock

from payd.chains.solana.keys import token_account
from tests.live.solana import MERCHANT, MINTS, pubkey
from tests.shop import START_MS
from tests.simulation.slot_merchant import MERCHANT_TROUBLES, SlotMerchant
from tests.simulation.slots import SLOT_S, Slots
from tests.simulation.solana_live import furnish_chain

HOUR_S = 3600.0


async def test_all_happens_and_ends_well(autojump_clock: MockClock) -> None:
    chain = Slots(Random(1), lambda: START_MS // 1000 + round(trio.current_time()))
    await furnish_chain(chain)
    happened: Counter[str] = Counter()
    merchant = SlotMerchant(chain, Random(2), happened)
    ways: set[tuple[str, str]] = set()
    began_s = trio.current_time()

    async def go_on() -> None:
        while True:
            await trio.sleep(SLOT_S)
            chain.tick()
            ways.update(states(chain))
            chain.is_calm = trio.current_time() - began_s > HOUR_S

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        await merchant.live()
        nursery.cancel_scope.cancel()
    assert set(states(chain)) == {("initialized", str(pubkey(MERCHANT)))}
    assert happened.keys() == MERCHANT_TROUBLES
    owners = {owner for _, owner in ways}
    assert {state for state, _ in ways} == {"none", "initialized", "frozen"}
    assert len(owners) == 3, "nobody, the merchant, and who was given it"


def states(chain: Slots) -> list[tuple[str, str]]:
    """Of each of the merchant's token accounts, its state and its owner."""
    found = []
    for mint, program in MINTS.items():
        account = chain.account(token_account(pubkey(MERCHANT), mint, program))
        held = chain.holding(account) if account is not None and account.data else None
        found.append(("none", "nobody") if held is None else (held["state"], held["owner"]))
    return found
