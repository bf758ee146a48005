"""Which accounts are listed: where each asset arrives, as long as somebody may pay there."""

from __future__ import annotations

import pytest
import trio
from solders.pubkey import Pubkey
from structlog.testing import capture_logs

from payd.actors.account_list import REFRESH_S, AccountList, Lookout, mint_of
from payd.actors.walk import LATE_MS
from payd.chains.assets import AssetBook
from payd.chains.rpc import NodesDown
from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from payd.chains.solana.subscription import Wanted
from payd.core.caip import parse_chain
from payd.core.payment import PaymentCancelled
from payd.store.chain_accounts import account_cursors
from payd.store.db import Tx
from tests.actors.solana_watching import DOWN, WINDOW_S, SolanaWatching, settle
from tests.live.solana import (
    CHAIN,
    MERCHANT,
    MERCHANT_2,
    PYUSD,
    PYUSD_MINT,
    SOL,
    USDC,
    USDC_MINT,
    USDT_MINT,
    pubkey,
)

SHOP = token_account(pubkey(MERCHANT), USDC_MINT, TOKEN)
OTHER_SHOP = token_account(pubkey(MERCHANT_2), USDC_MINT, TOKEN)


def list_of(solana: SolanaWatching, wanted: Wanted | None = None) -> AccountList:
    return AccountList(solana.db, solana.clock, solana.rpc, parse_chain(CHAIN), AssetBook(), wanted)


async def look(solana: SolanaWatching, accounts: AccountList, before_s: int = 0) -> Lookout:
    return await accounts.at(solana.rpc.nodes[0], solana.ledger.tip.time_s - before_s)


async def test_a_token_arrives_in_the_account_of_its_own_program_and_sol_in_the_wallet(
    solana: SolanaWatching,
) -> None:
    payment = await solana.sell()
    for asset in (PYUSD, SOL):
        await solana.offer(payment, asset=asset)
    shown = await look(solana, list_of(solana))
    assert set(shown.open) == {
        SHOP,
        token_account(pubkey(MERCHANT), PYUSD_MINT, TOKEN_2022),
        pubkey(MERCHANT),
    }
    assert shown.quiet == (OTHER_SHOP,)
    assert set(shown.watched.owners) == {pubkey(MERCHANT), pubkey(MERCHANT_2)}
    assert (shown.watched.mints[USDC_MINT], shown.watched.mints[PYUSD_MINT]) == (USDC, PYUSD)
    assert USDT_MINT in shown.watched.mints, "people pay with the wrong token"
    assert shown.watched.native == SOL


async def test_sol_is_looked_for_only_where_somebody_takes_it(solana: SolanaWatching) -> None:
    await solana.sell()
    accounts = list_of(solana)
    assert (await look(solana, accounts)).watched.native is None
    assert (await accounts.now()).native is None
    assert (await accounts.everything()).native == SOL


async def test_an_account_is_open_as_long_as_a_payment_waits_and_quiet_for_a_day(
    solana: SolanaWatching,
) -> None:
    await solana.db.write(lambda tx: tx.execute("DELETE FROM settlements"))
    payment = await solana.sell()
    accounts = list_of(solana)
    assert (await look(solana, accounts)).open == (SHOP,)
    await solana.move(payment, PaymentCancelled("cancelled_by_user"))
    await trio.sleep(WINDOW_S + REFRESH_S)
    solana.ledger.ahead_s += WINDOW_S + 60
    await solana.local.slots()
    shown = await look(solana, accounts)
    assert (shown.open, shown.quiet) == ((), (SHOP,))
    await trio.sleep(LATE_MS / 1000)
    solana.ledger.ahead_s += LATE_MS // 1000
    await solana.local.slots()
    assert (await look(solana, accounts))[:2] == ((), ())


async def test_who_comes_back_after_a_week_looks_for_what_was_open_then(solana: SolanaWatching) -> None:
    await solana.sell()
    await trio.sleep(7 * 24 * 3600)
    accounts = list_of(solana)
    read_s = solana.ledger.tip.time_s
    assert (await accounts.at(solana.rpc.nodes[0], read_s)).open == (SHOP,)


async def test_what_is_offered_now_is_looked_for_now(solana: SolanaWatching) -> None:
    wanted = Wanted()
    accounts = list_of(solana, wanted)
    assert (await look(solana, accounts)).open == ()
    await solana.sell()
    assert (await look(solana, accounts)).open == (SHOP,)
    assert set(wanted.addresses()) == {str(SHOP)}
    assert pubkey(MERCHANT) in (await accounts.now()).owners


async def test_a_token_is_asked_for_once_and_one_that_nobody_knows_is_left_out(
    solana: SolanaWatching,
) -> None:
    strange = f"{CHAIN}/token:{pubkey(77)}"
    await settle(solana.db, 1, strange, MERCHANT)
    await solana.local.fund(pubkey(77))
    await solana.local.slots(2)
    accounts = list_of(solana)
    with capture_logs() as logs:
        for _ in range(3):
            assert set((await look(solana, accounts)).quiet) == {SHOP, OTHER_SHOP}
    calls = sum(post.count("getMultipleAccounts") for post in solana.nodes[0].asked)
    assert [one["mint"] for one in logs if one["event"] == "chain.token_unknown"] == [str(pubkey(77))]
    await solana.local.mint(pubkey(77), TOKEN_2022)
    await solana.local.slots(2)
    await trio.sleep(REFRESH_S + 1)
    place = token_account(pubkey(MERCHANT), pubkey(77), TOKEN_2022)
    assert set((await look(solana, accounts)).quiet) == {SHOP, OTHER_SHOP, place}
    assert sum(post.count("getMultipleAccounts") for post in solana.nodes[0].asked) == calls + 1


async def test_a_node_that_does_not_tell_of_a_token_leaves_all_as_it_was(solana: SolanaWatching) -> None:
    await settle(solana.db, 1, f"{CHAIN}/token:{pubkey(77)}", MERCHANT)
    await solana.local.mint(pubkey(77), TOKEN_2022)
    await solana.local.slots(2)
    accounts = list_of(solana)
    solana.nodes[0].does = DOWN
    with pytest.raises(NodesDown):
        await look(solana, accounts)
    solana.nodes[0].does = None
    await trio.sleep(5)
    place = token_account(pubkey(MERCHANT), pubkey(77), TOKEN_2022)
    assert set((await look(solana, accounts)).quiet) == {SHOP, OTHER_SHOP, place}


async def test_cursors_of_accounts_that_are_looked_for_no_more_are_forgotten(solana: SolanaWatching) -> None:
    assert set(solana.db.point(account_cursors, CHAIN, "head")) == {str(SHOP), str(OTHER_SHOP)}

    def move_out(tx: Tx) -> None:
        tx.execute("DELETE FROM settlements WHERE merchant_id = 'mrch_2'")

    await solana.db.write(move_out)
    await trio.sleep(REFRESH_S + 1)
    await solana.watcher.run_once()
    assert set(solana.db.point(account_cursors, CHAIN, "head")) == {str(SHOP)}


@pytest.mark.parametrize(
    ("asset", "mint"), [(USDC, USDC_MINT), (SOL, None), (f"{CHAIN}/token:nobase58", None)]
)
def test_an_asset_names_its_mint(asset: str, mint: Pubkey | None) -> None:
    assert mint_of(asset) == mint
