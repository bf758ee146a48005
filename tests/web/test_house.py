"""The house as a request sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.actors.feed import Bell
from payd.chains.assets import shipped_book
from payd.core.caip import parse_chain
from payd.core.errors import PaymentNotFound
from payd.core.money import AmountWire
from payd.web.dashboard.payments_view import amount_words
from tests.shop import Shop, open_shop


async def test_a_payment_id_names_its_realm(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        assert shop.house.realm_of_payment("pay_t0") is shop.house.realms["test"]
        assert shop.house.realm_of_payment("pay_l0") is shop.house.realms["live"]


@pytest.mark.parametrize("payment_id", ["pay_l0", "pay_x0", "pay_", "", "nonsense"])
async def test_an_id_of_no_realm_that_runs_reads_like_an_unknown_one(shop: Shop, payment_id: str) -> None:
    with pytest.raises(PaymentNotFound):
        shop.house.realm_of_payment(payment_id)


async def test_a_stop_answers_every_held_poll_and_holds_no_new_one(shop: Shop) -> None:
    bell = Bell()
    shop.house.held.add(bell)
    shop.house.release_polls()

    await bell.wait()
    assert shop.house.stopping


@pytest.mark.parametrize("chain", ["eip155:8453", "eip155:31337"])
async def test_with_a_chain_the_live_realm_runs_and_knows_its_network(tmp_path: Path, chain: str) -> None:
    (tmp_path / "payd.toml").write_text(f'[[chains]]\nid = "{chain}"\nrpc = ["https://node.example"]\n')
    async with open_shop(tmp_path) as shop:
        assert set(shop.house.realms) == {"test", "live"}
        assert shop.house.realms["live"].assets.network(parse_chain(chain)) in ("Base", "Chain 31337")
        assert shop.house.realms["test"].assets is shipped_book()


async def test_without_a_chain_the_live_realm_does_not_run(shop: Shop) -> None:
    assert set(shop.house.realms) == {"test"}


async def test_an_asset_of_the_operators_own_keeps_its_decimals_when_its_chain_is_switched_off(
    tmp_path: Path,
) -> None:
    own = "eip155:8453/erc20:0x1111111111111111111111111111111111111111"
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "payd.toml").write_text(
        f'[[assets]]\nasset = "{own}"\nsymbol = "OWN"\nname = "Own"\ndecimals = 18\nkind = "erc20"\n'
    )
    async with open_shop(folder, live=True) as shop:
        words = shop.house.realms["live"].words
        assert amount_words(AmountWire(f"caip19/{own}", "25" + "0" * 18), words) == "25 OWN"
