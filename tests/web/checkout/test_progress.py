"""How far a transfer is said to have come: by what the watcher has stored, and by nothing else."""

from __future__ import annotations

import re

import msgspec
import pytest

from payd.chains.assets import shipped_table
from payd.core.payment import Payment, Success
from payd.core.status import Status
from payd.web.checkout.progress import EXPLORERS, Progress, explorer_of, progress_of
from tests.shop import Shop

HASH = "0x" + "ab" * 32
SIGNATURE = "5" * 88
BASE = "eip155:8453"


@pytest.fixture
async def paid(shop: Shop) -> Payment:
    payment = await shop.pay()
    moved = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "processing"})
    assert moved.status == 200
    return shop.realm.payments.find(payment)


def test_each_explorer_is_of_a_network_with_a_name_and_shows_its_host() -> None:
    assert EXPLORERS.keys() <= shipped_table().networks.keys()
    for chain, pattern in EXPLORERS.items():
        tx_id = HASH if chain.startswith("eip155:") else SIGNATURE
        found = explorer_of(chain, tx_id)
        assert found is not None
        assert found.url == pattern.replace("{}", tx_id)
        assert re.fullmatch(r"https://[a-z.]+/tx/.+", found.url)
        assert found.host in found.url


@pytest.mark.parametrize(
    ("chain", "tx_id"),
    [
        ("eip155:31337", HASH),
        (BASE, "test:pay_t1"),
        (BASE, f"{HASH}/../x"),
        (BASE, "javascript:alert(1)"),
        (BASE, ""),
    ],
)
def test_nothing_is_linked_that_is_not_known(chain: str, tx_id: str) -> None:
    assert explorer_of(chain, tx_id) is None


async def test_a_test_payment_has_no_chain_to_count_on(shop: Shop, paid: Payment) -> None:
    assert progress_of(shop.realm, paid) == Progress()


async def test_one_that_succeeded_is_shown_with_its_transaction(shop: Shop, paid: Payment) -> None:
    done = msgspec.structs.replace(paid, status=Status.SUCCEEDED, success=Success(1, HASH))
    assert progress_of(shop.realm, done) == Progress(HASH)
