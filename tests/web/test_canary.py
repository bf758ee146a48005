"""Our own door takes our own canary, and shows nothing to anybody else."""

from __future__ import annotations

from pathlib import Path

import trio

from payd.actors.canary import MISSED_MAX
from payd.web.call import Request
from payd.web.dispatch import answer
from tests.receiver import Received
from tests.web.hooked import Hooked, open_hooked

URL = "http://a.test/canary/test"


async def one(hooked: Hooked) -> Received:
    """A canary as it is sent."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hooked.shop.realm.canary.run, URL)
        while not hooked.receiver.received:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    return hooked.receiver.received[0]


async def post(hooked: Hooked, sent: Received, path: str = "/canary/test", **headers: str) -> int:
    request = Request("POST", path, {}, {**sent.headers, **headers}, sent.body, client_ip="127.0.0.1")
    return (await answer(hooked.shop.house, request)).status


async def test_a_canary_is_taken_and_everything_else_is_not_there(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        hooked.shop.realm.deliveries.house_http.dial = hooked.receiver.dial
        hooked.shop.realm.deliveries.house_http.resolve = resolve
        sent = await one(hooked)

        assert await post(hooked, sent) == 204
        assert await post(hooked, sent, path="/canary/live") == 404
        assert await post(hooked, sent, **{"webhook-signature": "v1,AAAA"}) == 404
        assert await post(hooked, sent, **{"webhook-timestamp": "0"}) == 404
        assert (await hooked.shop.call("POST", "/canary/test", {})).status == 404


async def test_the_limit_of_an_address_does_not_keep_a_canary_out(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, PAYD_RATE_LIMITS_PER_IP="1") as hooked:
        hooked.shop.realm.deliveries.house_http.dial = hooked.receiver.dial
        hooked.shop.realm.deliveries.house_http.resolve = resolve
        sent = await one(hooked)

        assert [await post(hooked, sent) for _ in range(5)] == [204] * 5
        others = [(await hooked.shop.call("GET", "/livez", key=None)).status for _ in range(5)]
        assert 429 in others


async def test_canaries_that_do_not_come_back_keep_the_server_from_being_ready(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        hooked.shop.realm.deliveries.house_http.resolve = resolve  # and nobody is there
        realm = hooked.shop.realm
        with trio.move_on_after(600):
            await realm.canary.run(URL)
        ready = await hooked.shop.call("GET", "/readyz", key=None)

        assert ready.status == 503
        assert ready.body["status"] == "failing"
        [problem] = ready.body["problems"]
        assert problem.startswith("test: the last ")
        assert int(problem.split()[3]) >= MISSED_MAX


async def resolve(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["127.0.0.1"]
