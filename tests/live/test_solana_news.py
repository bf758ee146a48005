"""News on a real node: a payment is done in moments where accounts are not listed for a minute."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from tests.live.solana import USDC, LocalSolana
from tests.live.solana_street import SolanaStreet, open_furnished, open_solana_street
from tests.live.svm_node import ServedNode

pytestmark = pytest.mark.real_time

# Much longer than a test may take.
POLL_MS = "60000"
QUICK_S = 20


@pytest.fixture
async def solana() -> AsyncIterator[LocalSolana]:
    async with open_furnished(finalized=4) as opened:
        yield opened


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    assert isinstance(solana.node, ServedNode)
    lines = f'ws = "{solana.node.ws_url}"'
    async with open_solana_street(tmp_path, solana, lines=lines, poll_ms=POLL_MS, slot_s=0.2) as opened:
        await opened.caught_up()
        yield opened


async def test_what_we_bring_is_followed_by_who_brings_it(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    with trio.fail_after(QUICK_S):
        answer = await street.pay(payment_id)
        assert answer.status_code == 200, answer.text
        assert await street.until(payment_id, "succeeded") == "succeeded"


async def test_what_a_wallet_sends_is_told_of_by_the_account_that_it_comes_to(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    await street.links(payment_id)
    street.wake()
    await trio.sleep(1)
    with trio.fail_after(QUICK_S):
        await street.pay_by_link(payment_id, USDC)
        assert await street.until(payment_id, "succeeded") == "succeeded"
