"""The doctor on live payments: the relayer's key, what has a price, and how its sources do."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from payd.chains.keystore import Addresses
from payd.chains.market.prices import MarketPrices
from payd.chains.market.source import FRESH_MS, NoSpot, SourceFailed, Spot
from payd.chains.market.table import TablePrices
from payd.cli.doctor_chains import currencies_of, examine_chain, examine_key, examine_prices
from payd.cli.finding import Finding
from payd.config import Config, load
from payd.live import open_to_look
from tests.live.chain import RELAYER, address
from tests.live.street import PASSWORD, configuration, write_keystore
from tests.live.svm_node import open_svm_node

NOW_MS = 1_780_000_000_000
NOBODY = "http://127.0.0.1:9"
NOBODYS = Addresses(None, None)
SOLANA = f'[[chains]]\nid = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"\nrpc = ["{NOBODY}"]\n'


def configured(folder: Path, text: str = "") -> Config:
    write_keystore(folder)
    (folder / "payd.toml").write_text(text or configuration([NOBODY]))
    return load(folder / "payd.toml", {"PAYD_DATA_DIR": str(folder / "data")})


def levels(findings: list[Finding]) -> dict[str, str]:
    return {one.subject: one.level for one in findings}


def test_a_key_that_opens_says_its_address(tmp_path: Path) -> None:
    [finding], addresses = examine_key(configured(tmp_path), {})
    assert finding.level == "ok"
    assert finding.words.endswith(f"opens: {address(RELAYER)}")
    assert addresses.evm == address(RELAYER).lower()


def test_a_key_that_pays_on_solana_says_its_address_there(tmp_path: Path) -> None:
    [finding], addresses = examine_key(configured(tmp_path, configuration([NOBODY]) + SOLANA), {})
    assert finding.words.endswith(f"opens: {address(RELAYER)}, {addresses.solana} on Solana")
    alone = f'[relayer]\nkeystore = "relayer.json"\npassword_file = "password"\n{SOLANA}'
    (tmp_path / "alone").mkdir()
    [finding], addresses = examine_key(configured(tmp_path / "alone", alone), {})
    assert finding.words.endswith(f"opens: {addresses.solana} on Solana")


def test_a_key_with_another_address_on_solana_than_its_file_says_is_an_error(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY]) + SOLANA)
    content = json.loads((tmp_path / "relayer.json").read_text())
    (tmp_path / "relayer.json").write_text(json.dumps({**content, "solana_address": "1" * 32}))
    [finding], addresses = examine_key(config, {})
    assert (finding.level, addresses) == ("error", NOBODYS)
    assert "holds another key than it says" in finding.words


def test_a_password_may_be_in_the_environment_or_nowhere(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY]).replace('"password"', '""'))
    [opened], _ = examine_key(config, {"PAYD_RELAYER_PASSWORD": PASSWORD})
    assert opened.level == "ok"
    [closed], addresses = examine_key(config, {})
    assert (closed.level, addresses.evm) == ("warning", address(RELAYER).lower())


@pytest.mark.parametrize("broken", ["wrong", "gone", "junk", "open to all"])
def test_a_key_that_cannot_be_used_is_an_error(tmp_path: Path, broken: str) -> None:
    config = configured(tmp_path)
    file = tmp_path / "relayer.json"
    match broken:
        case "wrong":
            (tmp_path / "password").write_text("wrong")
        case "gone":
            file.unlink()
        case "junk":
            file.write_text("junk")
        case _:
            file.chmod(0o644)
    [finding], addresses = examine_key(config, {})
    assert (finding.level, addresses) == ("error", NOBODYS)


def test_where_nobody_pays_gas_for_buyers_no_key_is_looked_for(tmp_path: Path) -> None:
    text = configuration([NOBODY], lines="sponsor = false")
    (tmp_path / "password").write_text("wrong")
    assert examine_key(configured(tmp_path, text), {}) == ([], NOBODYS)
    text = configuration([NOBODY]).replace('keystore = "relayer.json"', 'keystore = ""')
    assert examine_key(configured(tmp_path, text), {}) == ([], NOBODYS)


async def test_an_asset_without_a_price_is_not_offered_and_said(tmp_path: Path) -> None:
    prices = TablePrices({"USDC/USD": "1", "ETH/EUR": "2000"})
    async with open_to_look(configured(tmp_path), NOBODYS) as (chains, _):
        both = await examine_prices(chains, prices, ["EUR", "USD"], NOW_MS)
        pounds = await examine_prices(chains, prices, ["GBP"], NOW_MS)
    assert levels(both) == {"price of USDC": "ok", "price of DAI": "warning", "price of ETH": "ok"}
    assert set(levels(pounds).values()) == {"warning", "error"}
    assert levels(pounds)["prices"] == "error"


def test_prices_are_looked_for_where_they_are_written_down(tmp_path: Path) -> None:
    text = configuration([NOBODY])
    assert currencies_of(configured(tmp_path, text)) == ["USD"]
    written = text.replace('"ETH/USD"', '"ETH/EUR"')
    assert currencies_of(configured(tmp_path, written)) == ["EUR", "USD"]
    market = text.replace('source = "table"', 'source = "market"').replace('"ETH/USD"', '"ETH/EUR"')
    assert currencies_of(configured(tmp_path, market)) == ["USD"]


class Exchange:
    """A source that has a price, none, or a fault."""

    def __init__(self, name: str, answer: Spot | NoSpot | None) -> None:
        self.name = self.provider = name
        self._answer = answer

    async def spot(self, base: str, quote: str, now_ms: int) -> Spot | NoSpot:
        if self._answer is None:
            raise SourceFailed("connection refused")
        return self._answer


async def test_each_source_that_does_not_answer_is_named(tmp_path: Path) -> None:
    spot = Spot(Fraction(1), NOW_MS, NOW_MS + FRESH_MS)
    prices = MarketPrices([Exchange("up", spot), Exchange("down", None)])
    async with open_to_look(configured(tmp_path), NOBODYS) as (chains, _):
        found = await examine_prices(chains, prices, ["USD"], NOW_MS)
    by_subject = {one.subject: one for one in found}
    assert by_subject["prices of up"].level == "ok"
    assert by_subject["prices of down"].level == "warning"
    assert "connection refused" in by_subject["prices of down"].words
    assert by_subject["price of USDC"].level == "ok", "a stablecoin needs one"
    assert by_subject["price of ETH"].level == "warning", "a volatile asset needs two"


@pytest.mark.real_time
async def test_nodes_that_are_down_are_errors_under_the_chains_name(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([f"{NOBODY}/s3cret"]))
    async with open_to_look(config, NOBODYS) as ([chain], _):
        found = await examine_chain(chain, NOW_MS)
    assert found[0].level == "error"
    assert found[0].subject == f"eip155:31337 {NOBODY}"
    assert "s3cret" not in repr(found)


@pytest.mark.real_time
async def test_nodes_of_solana_that_are_down_are_errors_under_the_chains_name(tmp_path: Path) -> None:
    config = configured(tmp_path, SOLANA.replace(NOBODY, f"{NOBODY}/s3cret"))
    async with open_to_look(config, NOBODYS) as ([chain], _):
        found = await examine_chain(chain, NOW_MS)
    assert found[0].level == "error"
    assert found[0].subject == f"solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P {NOBODY}"
    assert "s3cret" not in repr(found)


@pytest.mark.real_time
async def test_the_fee_payer_is_named_as_such(tmp_path: Path) -> None:
    lines = '[relayer]\nkeystore = "relayer.json"\npassword_file = "password"\n'
    async with open_svm_node() as node:
        text = SOLANA.replace(NOBODY, node.url).replace("TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P", "mainnet")
        config = configured(tmp_path, text + lines)
        _, addresses = examine_key(config, {})
        async with open_to_look(config, addresses) as ([chain], _):
            found = await examine_chain(chain, NOW_MS)
    name = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    assert [one.level for one in found if one.subject == f"{name} fee payer {addresses.solana}"] == ["error"]
