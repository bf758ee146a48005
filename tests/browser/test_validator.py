"""A wallet that others wrote pays in the page, on a Solana node that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.page_wallets import (
    PAID_MS,
    SOLANA_SIGN,
    THEY_SAY,
    Wallets,
    bundles,
    connect,
    pay_button,
)
from tests.browser.test_checkout import heading
from tests.browser.wallet_shop import PaidShop, running_server
from tests.live.solana import BUYER, MERCHANT, pubkey
from tests.live.validator import running_validator
from tests.live.validator_chain import USDC_KEY, ValidatorChain, prepare_shop

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]
BURNER = "Burner Wallet"


@dataclass
class ValidatorShop(PaidShop):
    """A shop on a validator's chain alone.

    Attributes:
        chain: It.
    """

    chain: ValidatorChain


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValidatorShop]:
    folder = tmp_path_factory.mktemp("validator") / "house"
    with running_validator() as validator:
        chain = ValidatorChain(validator)
        headers = trio.run(furnish, folder, chain)
        with running_server(folder) as server:
            yield ValidatorShop(server, headers, chain)


async def furnish(folder: Path, chain: ValidatorChain) -> dict[str, str]:
    await chain.furnish()
    return await prepare_shop(folder, chain)


def test_a_wallet_in_the_page_pays_in_a_token_and_in_sol(
    shop: ValidatorShop, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = THEY_SAY
    wallets = Wallets(0, bundles(), cluster="localnet")
    merchant = pubkey(MERCHANT)
    had = trio.run(shop.chain.lamports, merchant)
    for asset in ("USDC", "SOL"):
        page = open_page()
        wallets.install(page, "burner")
        page.goto(link := shop.pay())
        connect(page, BURNER, asset)
        pay_button(page).click()
        expect(heading(page)).to_have_text("Paid", timeout=PAID_MS)
        [transfer] = shop.detail(link)["transfers"]
        assert (transfer["kind"], transfer["amount"]["display"]["assetSymbol"]) == ("matched", asset)
        assert transfer["from"] == shop.chain.account_id(BUYER)
    assert wallets.methods().count(SOLANA_SIGN) == 2
    assert trio.run(shop.chain.tokens, merchant, USDC_KEY.pubkey()) == 25_000_000
    assert trio.run(shop.chain.lamports, merchant) == had + 250_000_000
