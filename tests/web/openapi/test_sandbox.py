"""What is said of faults, samples and scenarios is what there is."""

from __future__ import annotations

from payd.core.endpoint import EVENT_TYPES
from payd.core.version import DEFAULT
from payd.web.faults import InjectIn
from payd.web.openapi.sandbox import OPERATIONS
from payd.web.openapi.story import examples
from tests.shop import Shop


def names_in(operation: str, parameter: str) -> list[str]:
    return list(OPERATIONS[operation].path[parameter]["enum"])


async def test_each_scenario_that_is_named_is_there_and_no_other(shop: Shop) -> None:
    there = [one["name"] for one in (await shop.call("GET", "/v1/test/scenarios")).body["data"]]
    assert names_in("POST /v1/test/scenarios/{name}", "name") == [*there, *EVENT_TYPES]


async def test_each_sample_that_is_named_is_there(shop: Shop) -> None:
    for name in names_in("GET /v1/test/webhooks/samples/{type}", "type"):
        assert (await shop.call("GET", f"/v1/test/webhooks/samples/{name}")).status == 200


async def test_the_faults_of_the_examples_can_be_made(shop: Shop) -> None:
    made = await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://shop.example/hook"})
    assert made.status in (200, 201), made.body
    for example in examples(DEFAULT)[InjectIn].values():
        assert (await shop.call("POST", "/v1/test/webhooks/inject", example)).status == 201
