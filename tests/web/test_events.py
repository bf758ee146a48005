"""Events over REST."""

from __future__ import annotations

from pathlib import Path

import msgspec

from payd.core.event import API_VERSION
from tests.receiver import Does
from tests.shop import open_shop
from tests.web.hooked import open_hooked


async def test_an_event_is_kept_though_nobody_was_told(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        payment_id = await shop.pay()
        page = (await shop.call("GET", "/v1/events")).body
        [event] = page["data"]
        found = await shop.call("GET", f"/v1/events/{event['id']}")

        assert page["nextCursor"] is None
        assert found.body == event
        assert event["id"].startswith("evt_")
        assert (event["type"], event["paymentId"]) == ("payment.created", payment_id)
        assert event["envelope"]["id"] == event["id"]
        assert event["envelope"]["api_version"] == API_VERSION
        assert event["envelope"]["created_at"] == event["createdAt"]
        assert event["envelope"]["data"]["payment_state_version"] == 0
        assert msgspec.json.encode(event["envelope"]) in found.raw


async def test_events_are_filtered_and_paged_newest_first(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        payments = [await shop.pay() for _ in range(5)]
        await shop.call("POST", f"/v1/payments/{payments[1]}/cancel")
        first = (await shop.call("GET", "/v1/events?limit=4")).body
        rest = (await shop.call("GET", f"/v1/events?limit=4&cursor={first['nextCursor']}")).body
        cancelled = (await shop.call("GET", "/v1/events?type=payment.cancelled")).body
        history = (await shop.call("GET", f"/v1/events?paymentId={payments[1]}")).body

        assert [one["paymentId"] for one in first["data"] + rest["data"]] == [payments[1], *payments[::-1]]
        assert rest["nextCursor"] is None
        assert [one["paymentId"] for one in cancelled["data"]] == [payments[1]]
        assert [one["type"] for one in history["data"]] == ["payment.cancelled", "payment.created"]


async def test_a_wrong_query_is_refused(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        for query in (
            "type=payment.exploded",
            "limit=0",
            "limit=101",
            "cursor=%00",
            "cursor=1",
            "limit=1&limit=2",
            "delivery=lost",
            "delivery=",
        ):
            refused = await shop.call("GET", f"/v1/events?{query}")
            assert (query, refused.status, refused.code) == (query, 400, "invalid_params")


async def test_another_accounts_event_reads_like_none(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.pay()
        [event] = (await shop.call("GET", "/v1/events")).body["data"]
        theirs = await shop.call("GET", f"/v1/events/{event['id']}", key=shop.other_key)
        none = await shop.call("GET", "/v1/events/evt_none")

        assert (theirs.status, theirs.code) == (none.status, none.code) == (404, "not_found")
        assert theirs.body["message"] == none.body["message"]
        assert (await shop.call("GET", "/v1/events", key=shop.other_key)).body["data"] == []


async def test_a_key_for_one_merchant_sees_that_merchants_events(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        payment_id = await shop.pay()
        other = await shop.new_merchant()
        key = await shop.new_key(merchants=[other])
        [event] = (await shop.call("GET", "/v1/events")).body["data"]

        assert (await shop.call("GET", "/v1/events", key=key)).body["data"] == []
        assert (await shop.call("GET", f"/v1/events/{event['id']}", key=key)).status == 404
        mine = (
            await shop.call("GET", "/v1/events", key=await shop.new_key(merchants=[shop.merchant_id]))
        ).body["data"]
        assert [one["paymentId"] for one in mine] == [payment_id]


async def test_events_are_found_by_how_their_delivery_stands(tmp_path: Path) -> None:
    says = [500]
    async with open_hooked(tmp_path, lambda _: Does(status=says[0])) as hooked:
        shop = hooked.shop
        silent = await shop.pay()  # nobody is told
        await hooked.register()
        first, second = await shop.pay(), await shop.pay()
        await hooked.advance(40 * 3600)
        says[0] = 200
        taken = await shop.pay()
        await hooked.drained()

        async def found(query: str, key: str = "") -> list[str]:
            page = await shop.call("GET", f"/v1/events?type=payment.created&{query}", key=key)
            return [one["paymentId"] for one in page.body["data"]]

        assert await found("limit=9") == [taken, second, first, silent]
        assert await found("delivery=failed") == [second, first]
        assert await found("delivery=succeeded") == [taken]
        assert await found("delivery=pending") == await found("delivery=cancelled") == []
        assert await found(f"delivery=failed&paymentId={first}") == [first]
        page = (await shop.call("GET", "/v1/events?delivery=failed&type=payment.created&limit=1")).body
        assert await found(f"delivery=failed&cursor={page['nextCursor']}") == [first]

        mine = await shop.new_key(merchants=[shop.merchant_id])
        others = await shop.new_key(merchants=[await shop.new_merchant()])
        assert await found("delivery=failed", mine) == [second, first]
        assert await found("delivery=failed", others) == []
        assert await found("delivery=failed", shop.other_key) == []

        [event] = (await shop.call("GET", f"/v1/events?type=payment.created&paymentId={first}")).body["data"]
        await shop.call("POST", f"/v1/webhooks/deliveries/{event['id']}/resend")
        assert await found("delivery=failed") == [second], "it was taken at last"
