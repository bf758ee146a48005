"""The webhooks section."""

from __future__ import annotations

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.event import Envelope
from payd.web.openapi.deliveries import webhooks


def test_there_is_one_for_each_type_with_a_sample_of_it() -> None:
    made = webhooks()
    assert tuple(made) == EVENT_TYPES
    for event_type, item in made.items():
        media = item["post"]["requestBody"]["content"]["application/json"]
        assert media["schema"]["properties"]["type"] == {"const": event_type}
        sample = msgspec.convert(media["examples"]["sample"]["value"], Envelope)
        assert (sample.type, sample.data.live) == (event_type, False)


def test_each_says_what_it_is_signed_with() -> None:
    for item in webhooks().values():
        names = [one["name"] for one in item["post"]["parameters"]]
        assert names == ["webhook-id", "webhook-timestamp", "webhook-signature"]
