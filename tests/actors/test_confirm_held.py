"""What a confirm comes to where the chain shows a transfer, or a part of the quotes says otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from payd.chains.base import Accepted, Refused, Unseen, Verdict
from payd.core.caip import canonical_account, canonical_asset, parse_account, parse_asset
from payd.core.errors import InvalidSignature
from payd.core.option import Offer, Quote, Result
from payd.core.payment import FundsCommitted, Payment
from payd.core.relay import RelayJob
from payd.core.submission import Submission
from payd.store.db import Tx
from payd.store.options import quotes_in, told_before
from payd.store.sightings import matched_of
from tests.actors.windows import CHAIN, processing_of
from tests.shop import BUYER, SIGNATURE, TX_HASH, USDC_BASE, Shop

JOB = RelayJob(CHAIN, BUYER, "0x" + "11" * 20, b"call", 7)
SUBMISSION = Submission(CHAIN, BUYER, "0x02", b"raw", 7)


def shown(tx: Tx, payment_id: str, tx_id: str = "0x1") -> None:
    """A watcher stored that it was paid as it was asked for."""
    asset = canonical_asset(parse_asset(USDC_BASE))
    [quote] = quotes_in(tx, payment_id, asset)
    recipient = canonical_account(parse_account(quote.destination))
    in_time_s = quote.valid_from_ms // 1000 + 1
    tx.execute(
        "INSERT INTO transfers (account_id, payment_id, chain, tx_id, log_index, asset, value, sender,"
        " recipient, kind, seen_at_ms, block_number, block_hash, block_time_s, awaits, look_at)"
        " VALUES ('acct_1', ?, ?, ?, 0, ?, ?, ?, ?, 'matched', 1, 5, '0xaa', ?, 'depth', 5)",
        (
            payment_id,
            CHAIN,
            tx_id,
            asset,
            str(quote.amount),
            BUYER,
            recipient,
            in_time_s,
        ),
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


@pytest.mark.parametrize(
    ("wallet", "others", "status"), [(None, (), 200), (None, ("0x" + "22" * 32,), 400), (SIGNATURE, (), 400)]
)
async def test_what_the_chain_moved_is_a_wallets_word_where_that_is_all_and_no_other_word_counts(
    shop: Shop, wallet: str | None, others: tuple[str, ...], status: int
) -> None:
    payment_id = await shop.pay()
    [option] = await shop.options(payment_id, [BUYER])
    await shop.realm.db.write(shown, payment_id, TX_HASH)
    if wallet is None:
        processing = processing_of(shop, payment_id)
        await shop.realm.payments.ask(payment_id, lambda actor: actor.move(FundsCommitted(processing)))
    else:
        assert (await shop.confirm(payment_id, option["id"], wallet)).status == 200

    found = await shop.confirm(payment_id, option["id"], TX_HASH, *others)

    assert (found.status, found.body.get("code")) == (status, None if status == 200 else "invalid_state")


async def test_what_anybody_sends_fails_no_payment_that_the_chain_shows_as_paid(shop: Shop) -> None:
    """Whoever has the link can send results that are not aligned."""
    payment_id = await shop.pay()
    [option] = await shop.options(payment_id, [BUYER])
    await shop.realm.db.write(shown, payment_id)

    found = await shop.confirm(payment_id, option["id"], SIGNATURE, TX_HASH)

    assert (found.status, found.code) == (400, "invalid_state")
    assert await shop.status(payment_id) == "requires_action"
    assert shop.realm.db.point(told_before, payment_id, [TX_HASH])


async def test_what_a_wallet_tells_is_kept_with_what_it_commits_to(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    [option] = await shop.options(payment_id, [BUYER])
    processing = processing_of(shop, payment_id)

    async def check(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        return Accepted(processing)

    monkeypatch.setattr(shop.realm.payments.chains[0], "check", check)

    assert (await shop.confirm(payment_id, option["id"], TX_HASH)).body["status"] == "processing"
    assert shop.realm.db.point(told_before, payment_id, [TX_HASH])


async def test_what_no_node_shows_yet_is_kept_where_another_quote_refuses_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    chain: Any = shop.realm.payments.chains[0]
    offer, prices = chain.offer, itertools.count(1)

    async def offer_at_another_price(*args: Any) -> Offer | None:
        made: Offer | None = await offer(*args)
        return made and msgspec.structs.replace(made, amount=next(prices))

    async def check(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        return Unseen() if quote.amount == 1 else Refused(InvalidSignature("Another amount."))

    monkeypatch.setattr(chain, "offer", offer_at_another_price)
    monkeypatch.setattr(chain, "check", check)
    await shop.options(payment_id, [BUYER])
    [option] = await shop.options(payment_id, [BUYER])

    found = await shop.confirm(payment_id, option["id"], TX_HASH)

    assert (found.status, found.body["status"]) == (200, "requires_action")
    assert shop.realm.db.point(told_before, payment_id, [TX_HASH])
