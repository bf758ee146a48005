"""Sample events: one of each type, as a webhook has it."""

from __future__ import annotations

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.event import API_VERSION, Envelope
from payd.web.samples import VERSIONS
from tests.shop import Shop

PATH = "/v1/test/webhooks/samples"


async def test_a_sample_of_each_type_is_a_whole_envelope(shop: Shop) -> None:
    for event_type in EVENT_TYPES:
        await check_sample(shop, event_type)


async def check_sample(shop: Shop, event_type: str) -> None:
    found = await shop.call("GET", f"{PATH}/{event_type}?apiVersion={API_VERSION}")
    assert (found.status, found.body["type"], found.body["apiVersion"]) == (200, event_type, API_VERSION)
    envelope = msgspec.convert(found.body["envelope"], Envelope, strict=True)
    assert (envelope.type, envelope.api_version, envelope.data.live) == (event_type, API_VERSION, False)
    again = await shop.call("GET", f"{PATH}/{event_type}")
    assert again.raw == found.raw


async def test_all_are_listed_in_every_version(shop: Shop) -> None:
    for version in VERSIONS:
        found = await shop.call("GET", f"{PATH}?apiVersion={version}")
        assert [one["type"] for one in found.body["data"]] == list(EVENT_TYPES)


async def test_an_unknown_type_or_version_says_what_there_is(shop: Shop) -> None:
    missing = await shop.call("GET", f"{PATH}/payment.paid")
    assert (missing.status, missing.code) == (404, "not_found")
    assert "payment.settled" in missing.body["message"]
    wrong = await shop.call("GET", f"{PATH}?apiVersion=2020-01-01")
    assert (wrong.status, wrong.code) == (400, "invalid_params")
    assert API_VERSION in wrong.body["message"]
