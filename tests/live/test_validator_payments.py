"""Payments on a Solana node that others wrote: its RPC, its bank, its programs, and wallets that sign."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from tests.crash.process import Server
from tests.live.conformance import ALL_EVENTS
from tests.live.dying import MARK, VARIABLE
from tests.live.front import PATIENCE_S
from tests.live.solana import (
    BUYER,
    BUYER_2,
    LAMPORTS,
    MERCHANT,
    MERCHANT_2,
    POOR,
    STRANGER,
    create_holding,
    keypair,
    memo,
    pay_by_link,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.solana_street import (
    FEE_PAYER,
    SolanaShopfront,
    SolanaStreet,
    open_solana_street,
    signed,
)
from tests.live.test_solana_kill import DYING, Shop
from tests.live.validator_chain import PYUSD_KEY, USDC_KEY, ValidatorChain, open_validator_chain, prepare_shop

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
SOL_AMOUNT = 250_000_000
# What was signed has to outlive a death, on a busy machine too.
SLOW_SLOT_MS = 400
USDC_MINT, PYUSD_MINT = USDC_KEY.pubkey(), PYUSD_KEY.pubkey()


@pytest.fixture
async def chain() -> AsyncIterator[ValidatorChain]:
    async with open_validator_chain() as opened:
        yield opened


@asynccontextmanager
async def opened(folder: Path, chain: ValidatorChain, **more: Any) -> AsyncIterator[SolanaStreet]:
    async with open_solana_street(folder / "house", chain, lines=chain.lines, **more) as street:
        yield street


async def proven(shop: SolanaShopfront, payment_id: str, asset: str, place: int, to: int = MERCHANT) -> str:
    """The id of the only transfer of a payment that ended well: so much of this from here to there."""
    await shop.until(payment_id, "settled")
    assert await shop.events(payment_id) == ALL_EVENTS
    detail = await shop.detail(payment_id)
    [transfer] = detail["transfers"]
    assert (transfer["kind"], transfer["chain"]) == ("matched", shop.chain.id)
    assert (transfer["from"], transfer["to"]) == (shop.chain.account_id(place), shop.chain.account_id(to))
    amount = SOL_AMOUNT if asset.endswith("slip44:501") else AMOUNT
    assert (transfer["amount"]["unit"], transfer["amount"]["value"]) == (f"caip19/{asset}", str(amount))
    assert detail["settlement"]["txHash"] == detail["info"]["txId"] == transfer["txId"]
    return str(transfer["txId"])


async def test_what_a_wallet_signs_is_paid(tmp_path: Path, chain: ValidatorChain) -> None:
    """To a merchant whose token accounts come to be with the first payments."""
    fresh = pubkey(MERCHANT_2)
    await chain.airdrop(fresh, LAMPORTS)
    async with opened(tmp_path, chain, destination=fresh) as street:
        for asset, place in (
            (chain.sol, BUYER),
            (chain.usdc, POOR),
            (chain.usdc, BUYER),
            (chain.pyusd, POOR),
        ):
            payment_id = await street.payment()
            told = await street.pay(payment_id, asset, place)
            assert told.status_code == 200, told.text
            await proven(street, payment_id, asset, place, MERCHANT_2)

    assert await chain.lamports(fresh) == LAMPORTS + SOL_AMOUNT
    assert await chain.tokens(fresh, USDC_MINT, TOKEN) == 2 * AMOUNT
    assert await chain.tokens(fresh, PYUSD_MINT, TOKEN_2022) == AMOUNT
    assert await chain.lamports(pubkey(POOR)) == 0


async def test_what_a_wallet_sends_by_a_code_of_solana_pay_is_found(
    tmp_path: Path, chain: ValidatorChain
) -> None:
    async with opened(tmp_path, chain) as street:
        for asset in (chain.sol, chain.usdc):
            payment_id = await street.payment()
            tx_id = await street.pay_by_link(payment_id, asset)
            assert await proven(street, payment_id, asset, BUYER) == tx_id
        for asset, place in ((chain.sol, BUYER_2), (chain.usdc, POOR), (chain.pyusd, BUYER_2)):
            payment_id = await street.payment()
            tx_id = await street.pay_by_request(payment_id, asset, place)
            assert await proven(street, payment_id, asset, place) == tx_id


async def test_a_wallet_that_changes_what_it_signs_is_refused(tmp_path: Path, chain: ValidatorChain) -> None:
    """Another amount, or another recipient, and nothing else; the honest one is taken afterwards."""
    merchant, stranger = pubkey(MERCHANT), pubkey(STRANGER)
    await chain.send([create_holding(pubkey(BUYER), stranger, USDC_MINT)], keypair(BUYER))
    paid, stolen = (token_account(one, USDC_MINT, TOKEN) for one in (merchant, stranger))
    async with opened(tmp_path, chain) as street:
        for asset, amount, to, other in (
            (chain.sol, SOL_AMOUNT, merchant, stranger),
            (chain.usdc, AMOUNT, paid, stolen),
        ):
            payment_id = await street.payment()
            option = await street.option(payment_id, asset)
            raw = await street.handed_out(option)
            for old, new in ((units(amount), units(amount - 1)), (bytes(to), bytes(other))):
                assert raw.count(old) == 1
                forged = signed(raw.replace(old, new))
                told = await street.confirm(payment_id, option, base64.b64encode(forged).decode())
                assert (told.status_code, "the wallet changed" in told.text) == (400, True), told.text
                assert await chain.status(tx_id_of(forged)) is None
            assert await street.status(payment_id) == "requires_action"
            honest = await street.confirm(payment_id, option, base64.b64encode(signed(raw)).decode())
            assert honest.status_code == 200, honest.text
            await proven(street, payment_id, asset, BUYER)
        assert await chain.tokens(stranger, USDC_MINT, TOKEN) == 0


def units(amount: int) -> bytes:
    """An amount as instructions have it."""
    return amount.to_bytes(8, "little")


async def test_what_is_paid_otherwise_than_the_link_says_pays_nothing(
    tmp_path: Path, chain: ValidatorChain
) -> None:
    """Too little is recorded, a stranger's money is nothing to us, and what names no payment is a stray."""
    buyer, merchant, stranger = pubkey(BUYER), pubkey(MERCHANT), pubkey(STRANGER)
    await chain.send([create_holding(buyer, stranger, USDC_MINT)], keypair(BUYER))
    async with opened(tmp_path, chain) as street:
        payment_id = await street.payment()
        *memos, honest = pay_by_link((await street.links(payment_id))[chain.usdc], buyer)
        reference = honest.accounts[-1].pubkey

        async def send(*instructions: Instruction) -> str:
            return await chain.send([*memos, *instructions], keypair(BUYER))

        elsewhere = await send(pay_token(buyer, stranger, USDC_MINT, AMOUNT, reference))
        less = await send(pay_token(buyer, merchant, USDC_MINT, AMOUNT - 1, reference))
        stray = await chain.send(
            [memo("hello"), pay_token(buyer, merchant, USDC_MINT, AMOUNT)], keypair(BUYER)
        )

        kinds = await transfers(street, less, stray)
        assert (kinds[less], kinds[stray], elsewhere in kinds) == ("partial", "unmatched", False)
        assert await street.status(payment_id) == "requires_action"
        assert await street.events(payment_id) == ["payment.created"]


async def transfers(street: SolanaStreet, *tx_ids: str) -> dict[str, str]:
    """The kinds of all transfers by their transactions, once these are among them."""

    async def seen() -> dict[str, str] | None:
        listed = (await street.call("GET", "/v1/transfers?limit=100")).json()["data"]
        found = {one["txId"]: one["kind"] for one in listed}
        return found if found.keys() >= set(tx_ids) else None

    return dict(await street.wait_for(seen))


@asynccontextmanager
async def open_shop(folder: Path, chain: ValidatorChain, dies: str) -> AsyncIterator[Shop]:
    """A shop whose server is a process of its own, which does not run yet."""
    headers = await prepare_shop(folder, chain)
    server = Server(folder, {"PAYD_CONFIG": str(folder / "payd.toml"), VARIABLE: dies})
    server.module = DYING
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        try:
            yield Shop("", http, chain, server, headers=headers)
        finally:
            await server.put_away()


@pytest.mark.crash
@pytest.mark.parametrize("moment", ["before_the_broadcast", "after_the_broadcast"])
async def test_a_kill_between_the_hand_in_and_the_landing_costs_nothing(tmp_path: Path, moment: str) -> None:
    async with (
        open_validator_chain(slot_ms=SLOW_SLOT_MS) as chain,
        open_shop(tmp_path / "house", chain, moment) as shop,
    ):
        await shop.start()
        payment_id = await shop.payment()
        option = await shop.offered_to(payment_id, chain.usdc, POOR)
        told = await shop.confirm(payment_id, option, *await shop.execute(option, POOR))
        assert told.status_code == 200

        async def died() -> bool:
            await trio.lowlevel.checkpoint()
            return (shop.server.folder / MARK).exists()

        await shop.wait_for(died)
        await shop.server.kill()
        await shop.start()

        await proven(shop, payment_id, chain.usdc, POOR)
        assert await shop.received(USDC_MINT) == AMOUNT
        assert await paid_by(chain, FEE_PAYER) == 1
        assert shop.server.complaints() == []


async def paid_by(chain: ValidatorChain, payer: Pubkey) -> int:
    """How many transactions it has paid for; the first that names it is the faucet's."""
    found = await chain.rpc("getSignaturesForAddress", str(payer), {"commitment": "confirmed"})
    return len(found) - 1
