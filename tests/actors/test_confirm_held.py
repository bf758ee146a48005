"""What a confirm holds its buyer to, where a transfer seemed to pay in another asset before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from payd.chains.base import Accepted, Verdict
from payd.core.caip import canonical_account, canonical_asset, parse_account, parse_asset
from payd.core.option import Quote, Result
from payd.core.payment import Payment
from payd.core.relay import RelayJob
from payd.core.submission import Submission
from payd.store.db import Tx
from payd.store.options import quotes_in
from payd.store.sightings import matched_of
from tests.actors.windows import CHAIN, processing_of
from tests.shop import BUYER, SIGNATURE, USDC_BASE, Shop

JOB = RelayJob(CHAIN, BUYER, "0x" + "11" * 20, b"call", 7)
SUBMISSION = Submission(CHAIN, BUYER, "0x02", b"raw", 7)


def shown(tx: Tx, payment_id: str) -> None:
    """A watcher stored that it was paid as it was asked for."""
    asset = canonical_asset(parse_asset(USDC_BASE))
    [quote] = quotes_in(tx, payment_id, asset)
    recipient = canonical_account(parse_account(quote.destination))
    tx.execute(
        "INSERT INTO transfers (account_id, payment_id, chain, tx_id, log_index, asset, value, sender,"
        " recipient, kind, seen_at_ms, block_number, block_hash, block_time_s, awaits, look_at)"
        " VALUES ('acct_1', ?, ?, '0x1', 0, ?, ?, ?, ?, 'matched', 1, 5, '0xaa', ?, 'depth', 5)",
        (payment_id, CHAIN, asset, str(quote.amount), BUYER, recipient, quote.valid_from_ms // 1000 + 1),
    )


@pytest.mark.parametrize(
    ("job", "pays"), [(JOB, False), (SUBMISSION, False), (None, True)], ids=["signed", "built", "told"]
)
async def test_only_what_payd_brings_to_the_chain_takes_the_place_of_what_is_there(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, job: RelayJob | Submission | None, pays: bool
) -> None:
    payment_id = await shop.pay()
    [option] = await shop.options(payment_id, [BUYER])
    await shop.realm.db.write(shown, payment_id)
    processing = processing_of(shop, payment_id)

    async def check(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        return Accepted(processing, job)

    monkeypatch.setattr(shop.realm.payments.chains[0], "check", check)

    await shop.confirm(payment_id, option["id"], SIGNATURE)

    assert bool(shop.realm.db.point(matched_of, payment_id)) is pays
    assert await shop.status(payment_id) == "processing"
