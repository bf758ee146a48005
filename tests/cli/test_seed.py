"""What a newcomer starts with works as it is printed."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trio

from payd.cli import seed
from payd.config import Config, load
from payd.core.caip import destination_problem, parse_account, parse_asset
from payd.server import open_house
from payd.web.call import Request
from payd.web.dispatch import answer
from payd.web.house import House
from tests.terminal import Terminal
from tests.virtual_wall import VirtualWall


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    config = load(None, {"PAYD_DATA_DIR": str(tmp_path / "data")})
    async with open_house(config, inline=True, wall=VirtualWall()) as opened:
        yield opened


@pytest.mark.parametrize(("asset", "destination"), seed.DESTINATIONS)
def test_the_demo_destinations_could_be_real(asset: str, destination: str) -> None:
    assert destination_problem(parse_asset(asset), parse_account(destination)) is None


async def test_the_seeded_shop_takes_payments_by_the_printed_line(house: House) -> None:
    seeded = await seed.seed_house(house)
    words = shlex.split(seed.curl_line("http://127.0.0.1:8420", seeded))
    assert words[:2] == ["curl", "-s"]
    headers = dict(
        (name.lower(), value)
        for flag, text in itertools.pairwise(words)
        if flag == "-H"
        for name, value in [text.split(": ", 1)]
    )
    body = words[words.index("-d") + 1].encode()
    path = words[2].removeprefix("http://127.0.0.1:8420")
    made = await answer(house, Request("POST", path, headers=headers, body=body, client_ip="127.0.0.1"))
    assert made.status == 201
    assert msgspec.json.decode(made.body)["status"] in ("pending", "requires_action")


async def test_the_demo_payment_has_a_link_of_this_server(house: House) -> None:
    seeded = await seed.seed_house(house)
    link = await seed.create_payment(house, seeded)
    assert link.startswith(f"{house.base_url}/")
    assert "pay_t" in link


def test_the_laptops_file_is_valid_and_opens_test_webhooks_to_this_machine_alone(tmp_path: Path) -> None:
    file = tmp_path / "payd.toml"
    file.write_text(seed.LAPTOP_TOML)
    config = load(file)
    assert config.data_dir == tmp_path
    assert config.webhooks.test.allow_http
    assert all(network.is_loopback for network in config.webhooks.test.allow_networks)
    assert config.webhooks.live == Config().webhooks.live


@pytest.mark.real_time
def test_a_directory_with_databases_alone_has_no_account(payd: Terminal) -> None:
    assert not seed.has_account(load())
    assert os.listdir() == [], "asking makes nothing"
    trio.run(open_and_close, load())
    assert Path("data/office.db").exists()
    assert not seed.has_account(load())
    payd("account", "create", "main")
    assert seed.has_account(load())


async def open_and_close(config: Config) -> None:
    async with open_house(config):
        pass
