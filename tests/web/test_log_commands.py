"""Events and requests by command: filters, and a cursor that goes on."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams, NotFound
from payd.store.db import Tx
from tests.shop import Shop


async def test_events_are_listed_and_shown(shop: Shop) -> None:
    payment, _ = await shop.pay(), await shop.pay()
    found = await shop.do("event.list", payment=payment, type="payment.created", limit=5)
    [event] = found["data"]
    assert event["paymentId"] == payment
    assert await shop.do("event.show", id=event["id"]) == event


async def test_an_id_with_a_slash_in_it_is_no_events(shop: Shop) -> None:
    with pytest.raises(NotFound):
        await shop.do("event.show", id="evt_1/2")


async def begin(shop: Shop) -> tuple[str, int]:
    """Some requests in the log; a payment, and the cursor behind them."""
    payment = await shop.pay()
    await shop.call("GET", f"/v1/payments/{payment}")
    await shop.call("GET", f"/v1/payments/pay_t{'0' * 36}")
    await shop.realm.api_log.run_once()
    return payment, (await shop.do("log.list"))["newest"]


async def test_requests_are_found_by_each_filter(shop: Shop) -> None:
    payment, _ = await begin(shop)
    everything = (await shop.do("log.list"))["data"]
    assert everything[0]["seq"] > everything[-1]["seq"]

    async def paths(**filters: str) -> set[str]:
        return {one["path"] for one in (await shop.do("log.list", **filters))["data"]}

    assert await paths(status="404") == await paths(status="refused") == {f"/v1/payments/pay_t{'0' * 36}"}
    assert await paths(method="post", path="/v1/payments") == {"/v1/payments"}
    assert await paths(path=f"/v1/payments/{payment}") == {f"/v1/payments/{payment}"}
    assert await paths(path=payment) == {f"/v1/payments/{payment}", "/v1/payments"}, "who created it, too"
    assert await paths(path="/v1/payments/{id}", status="2xx") == {f"/v1/payments/{payment}"}
    assert await paths(request=everything[0]["requestId"]) == {everything[0]["path"]}
    assert len(await paths(key=everything[0]["keyId"])) >= 3
    assert await paths(merchant=shop.merchant_id) >= {"/v1/payments", f"/v1/payments/{payment}"}
    assert f"/v1/payments/pay_t{'0' * 36}" not in await paths(merchant=shop.merchant_id)
    assert await paths(merchant="mrch_1") == set()
    assert await paths(since="2100-01-01T00:00:00Z") == set()
    [refused] = (await shop.do("log.list", status="404"))["data"]
    assert refused["error"]["code"] == "payment_not_found"


async def test_the_path_of_a_request_has_its_id_where_it_was(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}/settlements"
    await shop.call("GET", path)
    await shop.call("DELETE", f"{path}/crypto/crypto_{'0' * 36}")
    await shop.realm.api_log.run_once()

    deleted, read = (await shop.do("log.list", merchant=shop.merchant_id, limit=2))["data"]
    assert read["path"] == path
    assert deleted["path"] == f"{path}/crypto/{{id}}", "of several ids the first one is kept"


async def test_who_follows_gets_what_came_since_once_and_in_order(shop: Shop) -> None:
    _, newest = await begin(shop)
    assert await shop.do("log.follow", after=newest) == {"data": [], "newest": newest}
    for _ in range(5):
        await shop.pay()
    await shop.realm.api_log.run_once()
    seen, after = [], newest
    while (found := await shop.do("log.follow", after=after, limit=2))["data"]:
        seen += [one["seq"] for one in found["data"]]
        after = found["newest"]
    assert seen == list(range(newest + 1, newest + 6))
    # What is filtered out is passed over, and not looked at again.
    assert (await shop.do("log.follow", after=newest, status="404"))["newest"] == newest + 5


async def test_a_log_that_began_anew_is_followed_from_its_beginning(shop: Shop) -> None:
    _, newest = await begin(shop)

    def forget(tx: Tx) -> None:
        tx.execute("DELETE FROM api_log")

    await shop.realm.db.write(forget)
    await shop.pay()
    await shop.realm.api_log.run_once()
    found = await shop.do("log.follow", after=newest)
    assert (len(found["data"]), found["newest"]) == (1, 1)


@pytest.mark.parametrize("filters", [{"status": "4x"}, {"method": "FETCH"}, {"since": "soon"}])
async def test_a_filter_that_is_none_says_so(shop: Shop, filters: dict[str, str]) -> None:
    with pytest.raises(InvalidParams):
        await shop.do("log.list", **filters)
