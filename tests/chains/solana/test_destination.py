"""Addresses that merchants register: a wallet or nothing yet is taken, anything else refused in words."""

from __future__ import annotations

import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.destination import (
    IS_MINT,
    IS_NO_WALLET,
    IS_PROGRAM,
    IS_TOKEN_ACCOUNT,
    NOT_ITS_OWN,
    NOT_OFFERED,
)
from payd.chains.solana.keys import SYSTEM, TOKEN, TOKEN_2022, token_account
from payd.core.caip import AccountId, parse_asset
from payd.core.errors import ChainUnavailable
from payd.store.db import Database
from tests.chains.solana.scene import TERMS, Scene, open_scene
from tests.live.solana import (
    BUYER,
    MERCHANT,
    OPERATOR,
    PYUSD_MINT,
    SOL,
    USDC,
    USDC_MINT,
    address,
    pubkey,
)

pytestmark = pytest.mark.real_time


async def problem(scene: Scene, key: Pubkey) -> str | None:
    return await scene.solana.destination_problem(parse_asset(USDC), AccountId(TERMS.chain, str(key)))


async def test_a_wallet_is_taken_and_so_is_one_that_is_not_there_yet(scene: Scene) -> None:
    assert await problem(scene, pubkey(MERCHANT)) is None
    assert await problem(scene, pubkey(OPERATOR)) is None
    # What is off the curve may be the vault of several people.
    assert await problem(scene, token_account(pubkey(OPERATOR), PYUSD_MINT, TOKEN_2022)) is None


@pytest.mark.parametrize(("mint", "program"), [(USDC_MINT, TOKEN), (PYUSD_MINT, TOKEN_2022)])
async def test_a_token_account_is_not_and_its_owner_is_named(
    scene: Scene, mint: Pubkey, program: Pubkey
) -> None:
    place = token_account(pubkey(BUYER), mint, program)

    assert await problem(scene, place) == IS_TOKEN_ACCOUNT.format(address(BUYER))


@pytest.mark.parametrize("mint", [USDC_MINT, PYUSD_MINT])
async def test_a_mint_is_not(scene: Scene, mint: Pubkey) -> None:
    assert await problem(scene, mint) == IS_MINT


@pytest.mark.parametrize("program", [TOKEN, TOKEN_2022])
async def test_a_program_is_not(scene: Scene, program: Pubkey) -> None:
    assert await problem(scene, program) == IS_PROGRAM


async def test_an_account_of_a_program_is_not(scene: Scene) -> None:
    place = Pubkey(bytes(31) + b"\x07")
    await scene.local.put(place, b"\x01" * 80, TOKEN)
    assert await problem(scene, place) == IS_NO_WALLET.format(TOKEN)
    await scene.local.put(place, b"\x01" * 80, SYSTEM)

    assert await problem(scene, place) == IS_NO_WALLET.format(SYSTEM)


async def test_without_a_node_nobody_can_say(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        scene.proxies[0].rewrite = lambda request, result: {"value": []}
        with pytest.raises(ChainUnavailable):
            await problem(scene, pubkey(MERCHANT))


async def test_a_token_that_nobody_would_be_offered_is_told_of(scene: Scene) -> None:
    assert await problem(scene, pubkey(MERCHANT)) is None
    await scene.local.mint(USDC_MINT, decimals=9)
    words = NOT_OFFERED.format("USDC", "it has 9 decimals, and 6 in its row")
    assert await problem(scene, pubkey(MERCHANT)) == words
    # SOL is there all the same, and of an asset that nobody knows there is nothing to say.
    for asset in (SOL, f"{TERMS.chain}/token:{pubkey(BUYER)}"):
        place = AccountId(TERMS.chain, address(MERCHANT))
        assert await scene.solana.destination_problem(parse_asset(asset), place) is None


async def test_a_wallets_token_account_that_takes_nothing_for_it_is_told_of(scene: Scene) -> None:
    place = token_account(pubkey(MERCHANT), USDC_MINT, TOKEN)
    await scene.local.give(pubkey(BUYER), USDC_MINT, 0, at=place)
    assert await problem(scene, pubkey(MERCHANT)) == NOT_ITS_OWN.format("USDC")
    await scene.local.put(place, b"junk", TOKEN)
    assert await problem(scene, pubkey(MERCHANT)) == NOT_ITS_OWN.format("USDC")
    await scene.local.give(pubkey(MERCHANT), USDC_MINT, 0, state=2)
    assert "frozen" in str(await problem(scene, pubkey(MERCHANT)))
    # Somebody sent SOL there before the account was made: it can be made still.
    await scene.local.put(place, b"", SYSTEM, lamports=10**6)

    assert await problem(scene, pubkey(MERCHANT)) is None
