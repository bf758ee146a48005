"""The dashboard on a real chain: what the status page says of it, and how what went astray is repaired."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from payd.chains.evm.binding import transfer_call
from payd.entropy import new_id
from tests.live.chain import BUYER, MERCHANT, RELAYER, LocalChain, account, address
from tests.live.street import CHAIN, DAI, SECOND_CONTRACT, Street, furnish_chain, open_street
from tests.visitor import add_session, add_user

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000


@dataclass
class Desk:
    """A merchant's browser without a script, signed in to the dashboard of a shop on a chain."""

    street: Street
    http: httpx.AsyncClient

    async def get(self, path: str) -> httpx.Response:
        """A page, wherever that leads."""
        return await self.http.get(path, follow_redirects=True)

    async def post(self, path: str, **typed: str) -> httpx.Response:
        """A form with what every form carries, and the page that it leads to."""
        [token] = set(re.findall(r'name="form_token" value="(\w+)"', (await self.get("/d/live/")).text))
        sent = {"form_token": token, "once": new_id("", 0), **typed}
        return await self.http.post(path, data=sent, follow_redirects=True)


def text(page: httpx.Response) -> str:
    """What a page says, without its markup."""
    bare = re.sub(r"<(script|style|title).*?</\1>|<[^>]*>", " ", page.text, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(bare)).strip()


@pytest.fixture
async def desk(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Desk]:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, block_s=0.2) as street:
        [account_id] = street.house.accounts
        user_id = await add_user(street.house, account_id, email="ada@example.com")
        token = await add_session(street.house, user_id, account_id)
        cookies = {f"payd-session-{urlsplit(street.house.base_url).port or 80}": token}
        headers = {"origin": street.house.base_url, "sec-fetch-site": "same-origin", "accept": "text/html"}
        async with httpx.AsyncClient(base_url=street.url, cookies=cookies, headers=headers) as http:
            yield Desk(street, http)


async def by_hand(desk: Desk, value: int) -> str:
    """A transfer that a buyer sends without the checkout, mined."""
    data = transfer_call(address(MERCHANT), value)
    receipt = await desk.street.chain.done(account(BUYER), SECOND_CONTRACT, data)
    return str(receipt["transactionHash"])


async def test_the_status_page_says_what_the_chain_says_and_a_stray_transfer_is_repaired(desk: Desk) -> None:
    await _check_status(desk)
    payment, tx = await _check_match(desk)
    assert await desk.street.status(payment) == "requires_action"
    detail = await desk.street.detail(payment)
    assert [(one["kind"], one["txId"]) for one in detail["transfers"]] == [("partial", tx)]


async def _check_status(desk: Desk) -> None:
    before = await desk.street.chain.head()

    async def read() -> str | None:
        said = text(await desk.get("/status"))
        newest = re.search(r"Newest block (\d+) .* Its balance [\d.]+ ", said)
        return said if newest and before <= int(newest[1]) <= await desk.street.chain.head() else None

    said = str(await desk.street.wait_for(read))
    for words in (f"Id {CHAIN}", "Confirmations wanted 2", address(RELAYER), "up"):
        assert words.lower() in said.lower(), words
    assert re.search(r"Spent in 24 h [\d.]+ of at most [\d.]+ ", said)
    assert urlsplit(desk.street.chain.anvil.url).netloc in said


async def _check_match(desk: Desk) -> tuple[str, str]:
    street = desk.street
    payment = await street.payment()
    await street.option(payment, DAI)
    tx = await by_hand(desk, AMOUNT - 1)
    found = await desk.get(f"/d/live/transfers/match?tx={tx}&chain={CHAIN}&payment=order-1")
    assert "Match it to this payment" in text(found), text(found)
    done = await desk.post(f"/d/live/payments/{payment}/match", tx=tx, chain=CHAIN)
    said = text(done)
    assert done.status_code == 200
    assert re.search(r"Transfer matched by hand By ada@example\.com\. chain: \S+, kind: partial", said)
    assert "It is less than was asked for and pays nothing." in said
    listed = text(await desk.get("/d/live/transfers"))
    assert "DAI" in listed
    assert address(BUYER)[-4:].lower() in listed
    return payment, tx
