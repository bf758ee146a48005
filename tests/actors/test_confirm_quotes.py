"""Which of an option's quotes a confirm is checked against: all that are valid, and none that has ended."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio

from payd.chains.base import Refused, Verdict
from payd.core.errors import InvalidSignature
from payd.core.option import QUOTES_VALID_MAX, Offer, Quote, Result
from payd.core.payment import Payment
from tests.actors.test_confirm import hints
from tests.shop import BUYER, SIGNATURE, TX_HASH, Shop


async def test_a_stale_quote_is_refused_and_asking_again_renews_it(shop: Shop) -> None:
    from tests.shop import ETH_BASE, WALLET

    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    payment = await shop.pay(expiresAt=shop.realm.clock.now_ms() // 1000 + 7200)
    option = next(one for one in await shop.options(payment, [BUYER]) if one["expiresAt"] is not None)
    await trio.sleep(601)

    stale = await shop.confirm(payment, option["id"], TX_HASH)
    assert (stale.status, stale.code) == (400, "quote_expired")

    again = next(one for one in await shop.options(payment, [BUYER]) if one["expiresAt"] is not None)
    assert again["id"] == option["id"]
    assert (await shop.confirm(payment, option["id"], TX_HASH)).status == 200


async def test_results_that_no_quote_accepts_are_refused_when_one_quote_refuses_them(shop: Shop) -> None:
    payment = await shop.pay()
    chain: Any = shop.realm.payments.chains[0]
    offer = chain.offer

    async def offer_two_actions(*args: Any) -> Offer | None:
        made: Offer | None = await offer(*args)
        return made and msgspec.structs.replace(made, actions=made.actions * 2)

    chain.offer = offer_two_actions
    option = (await shop.options(payment, [BUYER]))[0]
    chain.offer = offer
    await shop.options(payment, [BUYER])

    refused = await shop.confirm(payment, option["id"], SIGNATURE, TX_HASH)
    assert (refused.status, refused.code) == (422, "invalid_signature")
    three = await shop.confirm(payment, option["id"], SIGNATURE, SIGNATURE, SIGNATURE)
    assert (three.status, three.body["status"]) == (200, "failed")


async def test_results_of_a_quote_that_ended_fail_nothing_where_a_newer_one_has_other_actions(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent or signed fits what its wallet was handed: it is late, and not misaligned."""
    payment = await shop.pay()
    chain: Any = shop.realm.payments.chains[0]
    offer = chain.offer

    async def offer_for_a_minute(*args: Any) -> Offer | None:
        made: Offer | None = await offer(*args)
        until_ms = shop.realm.clock.now_ms() + 60_000
        return made and msgspec.structs.replace(made, valid_until_ms=until_ms)

    async def offer_two_actions(*args: Any) -> Offer | None:
        made: Offer | None = await offer_for_a_minute(*args)
        return made and msgspec.structs.replace(made, actions=made.actions * 2)

    monkeypatch.setattr(chain, "offer", offer_for_a_minute)
    option = (await shop.options(payment, [BUYER]))[0]
    await trio.sleep(61)
    monkeypatch.setattr(chain, "offer", offer_two_actions)
    assert [one["id"] for one in await shop.options(payment, [BUYER])] == [option["id"]]

    late = await shop.confirm(payment, option["id"], TX_HASH)
    assert (late.status, late.code) == (400, "quote_expired")
    assert await hints(shop, payment) == [TX_HASH]
    three = await shop.confirm(payment, option["id"], SIGNATURE, SIGNATURE, SIGNATURE)
    assert (three.status, three.body["status"]) == (200, "failed")


async def test_newer_quotes_do_not_push_out_one_that_is_still_valid(shop: Shop) -> None:
    payment = await shop.pay()
    chain: Any = shop.realm.payments.chains[0]
    offer, check = chain.offer, chain.check
    added = itertools.count()

    async def offer_at_another_price(*args: Any) -> Offer | None:
        made: Offer | None = await offer(*args)
        return made and msgspec.structs.replace(made, amount=made.amount + next(added))

    async def check_amount(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        if str(quote.amount) != option["amount"]["value"]:
            return Refused(InvalidSignature("Another amount."))
        verdict: Verdict = await check(payment, quote, results, now_ms)
        return verdict

    chain.offer, chain.check = offer_at_another_price, check_amount
    option = (await shop.options(payment, [BUYER]))[0]
    for _ in range(2 * QUOTES_VALID_MAX):
        await shop.options(payment, [BUYER])

    confirmed = await shop.confirm(payment, option["id"], SIGNATURE)
    assert (confirmed.status, confirmed.body["status"]) == (200, "processing")


async def test_a_quote_counts_when_the_wall_clock_has_stepped_back_since(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.realm.db.write(lambda tx: tx.execute("UPDATE quotes SET valid_from_ms = valid_from_ms + 2000"))

    assert (await shop.confirm(payment, option["id"], SIGNATURE)).status == 200
