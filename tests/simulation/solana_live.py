"""The live realm of a house under a seed, on Solana: its nodes, and wallets that pay on it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
from solders.hash import Hash

from payd.chains.solana.binding import memo_of, reference_key
from payd.chains.solana.fee_payer import fee_payer_from
from payd.chains.solana.keys import MEMO, MEMO_V1, token_account
from payd.config import Config
from tests.crash.aftermath import Aftermath
from tests.crash.live_truths import LiveAftermath, read_live_rows
from tests.crash.onchain import Moved, Onchain
from tests.crash.process import Furnished
from tests.live.solana import (
    ASSETS,
    BUYER,
    BUYER_2,
    CHAIN,
    ISSUER,
    LAMPORTS,
    MERCHANT,
    MINTS,
    OPERATOR,
    POOR,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    LocalSolana,
    account_id,
    address,
    keypair,
    memo,
    pay_token,
    pubkey,
)
from tests.live.svm_ledger import Landing
from tests.live.svm_methods import SvmNode
from tests.shop import START_MS
from tests.simulation.chain_world import (
    ChainWorld,
    LiveHistory,
    furnish_live,
    live_through,
    lives_of,
    nodes_of,
    run_live,
    shop_with,
)
from tests.simulation.chance import Chance
from tests.simulation.relayed import RELAYER_KEY
from tests.simulation.settings import Settings, settings_of, with_delays
from tests.simulation.shopkeeper import Shopkeeper
from tests.simulation.slot_buyers import OWN_WALLETS, transaction
from tests.simulation.slot_composed import OTHER_PLACES
from tests.simulation.slot_composers import SlotComposer
from tests.simulation.slot_merchant import SlotMerchant
from tests.simulation.slot_nodes import SlotNode
from tests.simulation.slot_trouble import SlotTrouble
from tests.simulation.slots import CONFIRMED, FINAL, SLOT_S, Slots
from tests.simulation.world import Steps

DEPTHS: Final = ("confirmed", "confirmed", "finalized")
# Nobody waits for windows to close: with a short one, many do before all is calm.
LIFETIMES_S: Final = ("120", "240", "900")
# Enough for anything that anybody buys.
TOKENS: Final = 10**15
COINS: Final = 10**6 * LAMPORTS
# How far the machine's clock is from the chain's while a house runs, and for how long.
CLOCKS_MS: Final = (-30_000, -2000, 0, 0, 3000, 30_000)
CLOCK_MAX_S: Final = 600.0
# What came late is read a while after the last payment has ended.
READ_S: Final = 300.0

CONFIGURATION: Final = """
[rates]
source = "table"
table = { @rates }

[webhooks]
canary = false

[settlements]
change_delay_s = @delay

[notify]
url = "@notify"

[payments]
lifetime_s = @lifetime

[fee]
percent = "@percent"

[[chains]]
id = "@id"
rpc = @rpc
depth = "@depth"
sponsor = @sponsor
fee_address = "@operator"
"""


RATES: Final = '"USDC/USD" = "1", "USDT/USD" = "1", "PYUSD/USD" = "1", "SOL/USD" = "100"'
KNOBS: Final = {
    "depth": DEPTHS,
    "sponsor": ("true", "true", "false"),
    "percent": ("0", "2.5"),
    "lifetime": LIFETIMES_S,
    "rates": (RATES, RATES, RATES.replace("100", "104"), RATES.partition(', "PYUSD')[0]),
    "id": (CHAIN,),
    "operator": (address(OPERATOR),),
}
"""What an operator may set."""
ACCOUNTS: Final = tuple(map(account_id, OWN_WALLETS))


class SolanaWorld(ChainWorld):
    """A world whose house takes payments on Solana.

    Attributes:
        chain: What is true.
        nodes: What is said of it.
        merchant: Who is paid.
    """

    trouble: SlotTrouble
    rest_max_s = 4 * 3600.0
    # A blockhash is good for a minute.
    gaps_s = (5.0, 300.0, 600.0, 7200.0)

    def __init__(
        self,
        folder: Path,
        seed: int,
        at: Furnished,
        steps: Steps,
        nursery: trio.Nursery,
        settings: Sequence[Settings],
    ) -> None:
        super().__init__(folder, seed, at, steps, nursery, settings, CONFIGURATION)
        self.chain = Slots(self.chance.of("chain"), self.true_s)
        self.nodes = [
            SlotNode(self.chain, self.chance.of(f"node{place}"))
            for place in range(nodes_of(self.chance.of("nodes")))
        ]
        draws = self.chance.of("trouble")
        self.trouble = SlotTrouble(self.chain, self.nodes, draws, depths_to(FINAL), self._payments)
        self.merchant = SlotMerchant(self.chain, self.chance.of("merchant"), self.trouble.happened)
        self.put_up(self.nodes)

    def believe(self, config: Config) -> None:
        """How deep what has happened is believed from now on."""
        for chain in config.chains:
            confirmed = chain.depth.depth_for(None) == "confirmed"
            self.trouble.believe(depths_to(CONFIRMED if confirmed else FINAL))

    def become_calm(self) -> None:
        """From now on the nodes are well, and what is sent arrives."""
        super().become_calm()
        self.chain.is_calm = True

    def _payments(self) -> list[bytes]:
        """What would pay the newest payments, in USDC."""
        fresh = Hash.from_string(self.chain.tip.hash)
        made = []
        for one in list(self.ledger.payments.values())[-4:]:
            reference, payer = reference_key(one.payment_id), pubkey(BUYER)
            told = self.ledger.changes.wallet_of(one.payment_id, USDC)
            wallet = next((place for place in OWN_WALLETS if address(place).lower() == told), MERCHANT)
            paid = pay_token(payer, pubkey(wallet), USDC_MINT, int(one.value) * 10**4, reference)
            asked = [memo(memo_of(bytes(reference))), paid]
            made.append(transaction(asked, keypair(BUYER), fresh=fresh))
        return made

    async def go_on(self) -> None:
        """Blocks, for ever."""
        while True:
            await trio.sleep(SLOT_S)
            self.chain.tick()

    async def turn(self) -> None:
        """And with the merchant's accounts, and the machine's clock."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.merchant.live)
            nursery.start_soon(self._set_clocks)
            await super().turn()

    async def _set_clocks(self) -> None:
        rng = self.chance.of("clocks")
        while True:
            await trio.sleep(rng.random() * CLOCK_MAX_S)
            if self.calm:
                return
            self.set_clock(rng.choice(CLOCKS_MS))
            self.trouble.happened["clock is set"] += 1

    async def shop(self, calm: trio.Event) -> None:
        """People, until all is calm and what they began is finished."""
        rng, happened = self.chance.of("shopkeeper"), self.trouble.happened
        keeper = Shopkeeper(
            self.door,
            self.at,
            self.ledger,
            rng,
            ASSETS,
            ACCOUNTS,
            happened,
            fickle=ACCOUNTS,
            holds_back=self.holds_back,
        )

        def buyer(name: str, rng: Random) -> SlotComposer:
            return SlotComposer(name, self.door, self.ledger, rng, keeper.shops, self.chain, self.cut_power)

        await shop_with(self, calm, keeper, buyer)

    async def rest(self, path: Path) -> None:
        """As in any realm; and what came late is read."""
        await super().rest(path)
        await trio.sleep(READ_S)

    def left(self, common: Aftermath, path: Path) -> LiveAftermath:
        """What is left, of this file among all."""
        landed = self.chain.landed.values()
        moved = [one for landing in landed for place in OWN_WALLETS for one in moved_by(landing, place)]
        onchain = Onchain((), (), {one.place: one for one in moved})
        destinations = self.destinations(path)
        return LiveAftermath(common, read_live_rows(path), onchain, frozenset(), destinations)


def depths_to(deepest: int) -> tuple[int, ...]:
    """Of forks that are no deeper."""
    return tuple(one for one in (1, 1, CONFIRMED, 5, 12, FINAL - 1) if one <= deepest)


def moved_by(landing: Landing, wallet: int) -> list[Moved]:
    """What a transaction has moved to a wallet of a merchant's, read without payd's own reading."""
    if landing.err is not None:
        return []
    merchant, place_of = pubkey(wallet), {key: place for place, key in enumerate(landing.keys)}
    amounts: list[tuple[int, str, int, bool]] = []
    for asset in ASSETS:
        if asset == SOL:
            place = place_of.get(merchant)
            value = 0 if place is None else landing.post[place] - landing.pre[place]
            is_listed = True
        else:
            mint = asset.rpartition(":")[2]
            place, value = _more(landing, mint, wallet)
            is_listed = token_account(merchant, *_mint(mint)) in place_of
        if place is not None and value > 0:
            amounts.append((place, asset.lower(), value, is_listed))
    message = landing.tx.message
    programs = [landing.keys[one.program_id_index] for one in message.instructions]
    said = zip(programs, message.instructions, strict=True)
    memos = {bytes(one.data) for program, one in said if program in (MEMO, MEMO_V1)}
    names = b"".join(bytes(key) for key in landing.keys if memo_of(bytes(key)).encode() in memos)
    block = landing.block
    return [
        Moved(
            (landing.tx_id, place),
            asset,
            value,
            "",
            address(wallet).lower(),
            block.slot,
            "",
            block.time_s,
            block.time_s,
            names,
            is_listed,
        )
        for place, asset, value, is_listed in amounts
    ]


def _mint(mint: str) -> tuple[Any, Any]:
    return next((key, program) for key, program in MINTS.items() if str(key) == mint)


def _more(landing: Landing, mint: str, wallet: int) -> tuple[int | None, int]:
    """What a wallet has more of a token in all accounts, and the first of them that has more."""
    before, after = _held(landing.pre_tokens, mint, wallet), _held(landing.post_tokens, mint, wallet)
    first = min((place for place, amount in after.items() if amount > before.get(place, 0)), default=None)
    return first, sum(after.values()) - sum(before.values())


def _held(balances: Sequence[dict[str, Any]], mint: str, wallet: int) -> dict[int, int]:
    owner = address(wallet)
    return {
        one["accountIndex"]: int(one["uiTokenAmount"]["amount"])
        for one in balances
        if (one["owner"], one["mint"]) == (owner, mint)
    }


async def furnish_chain(chain: Slots) -> None:
    """Dollar tokens where they are on the real chain, buyers who are rich, and one who has no SOL."""
    local = LocalSolana(SvmNode(chain))
    for mint, program in MINTS.items():
        await local.mint(mint, program)
        for place in (BUYER, BUYER_2, POOR):
            await local.give(pubkey(place), mint, TOKENS, program)
        for place in (*OWN_WALLETS[:2], OPERATOR):
            await local.give(pubkey(place), mint, 0, program)
        await local.give(pubkey(MERCHANT), mint, 0, program, at=pubkey(OTHER_PLACES[mint]))
    for owner in (pubkey(BUYER), pubkey(BUYER_2), fee_payer_from(RELAYER_KEY).address):
        await local.fund(owner, COINS)
    for place in (*OWN_WALLETS, OPERATOR, ISSUER, STRANGER):
        await local.fund(pubkey(place), LAMPORTS)


def simulate_solana(folder: Path, seed: int) -> LiveHistory:
    """The whole history of a seed in the live realm on Solana, in an empty folder."""
    return run_live(_simulate, folder, seed)


async def _simulate(folder: Path, seed: int, steps: Steps) -> LiveHistory:
    chance = Chance(seed)
    nodes = nodes_of(chance.of("nodes"))
    settings = settings_of(chance.of("configuration"), lives_of(chance), nodes, KNOBS)
    settings = with_delays(settings, chance.of("delays"))
    before = Slots(chance.of("before"), lambda: START_MS // 1000)
    await furnish_chain(before)
    settled = dict.fromkeys(ASSETS, ACCOUNTS[0])
    text, looked_at = settings[0].text(CONFIGURATION), SlotNode(before, chance.of("node before"))
    at = await furnish_live(folder, seed, text, settled, looked_at)

    async def make(nursery: trio.Nursery) -> SolanaWorld:
        world = SolanaWorld(folder, seed, at, steps, nursery, settings)
        await furnish_chain(world.chain)
        return world

    return await live_through(seed, at, steps, make)
