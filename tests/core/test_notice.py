"""Notices: when the operator hears of an endpoint, and what."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.endpoint import CANARY, NOTIFY, EndpointState, after_attempt
from payd.core.notice import Moved, MovedType, NoticeType, notice_type, render_moved, render_notice
from tests.core.test_endpoint import HOUR_MS, START_MS, an_endpoint


def told(
    hours: list[float], *, ok_at: float | None = None, **fields: object
) -> dict[float, NoticeType | None]:
    """What each failure, and a success at the end, leads to."""
    endpoint, found = an_endpoint(**fields), {}
    for at in [*hours, *([] if ok_at is None else [ok_at])]:
        after = after_attempt(endpoint, at == ok_at, START_MS + round(at * HOUR_MS))
        found[at] = notice_type(endpoint, after)
        endpoint = after
    return found


def every(hours: float, until: float) -> list[float]:
    return [number * hours for number in range(int(until / hours) + 1)]


def test_it_is_warned_of_after_24_72_and_108_hours_and_disabled_after_120() -> None:
    found = {at: kind for at, kind in told(every(0.5, 130)).items() if kind}
    assert found == {
        24: "endpoint.warning",
        72: "endpoint.warning",
        108: "endpoint.warning",
        120: "endpoint.disabled",
    }


def test_two_warnings_that_are_due_at_once_are_one() -> None:
    found = {at: kind for at, kind in told([0, 20, 40, 60, 80, 100, 109]).items() if kind}
    assert found == {40: "endpoint.warning", 80: "endpoint.warning", 109: "endpoint.warning"}


def test_a_success_after_a_warning_is_told_and_the_warnings_begin_anew() -> None:
    assert told(every(1, 30), ok_at=31)[31] == "endpoint.recovered"
    assert told(every(1, 10), ok_at=11)[11] is None
    endpoint = after_attempt(an_endpoint(warnings=3, failing_since_ms=START_MS), True, START_MS)
    assert (endpoint.warnings, endpoint.failing_since_ms) == (0, None)


@pytest.mark.parametrize("state", [EndpointState.DISABLED, EndpointState.PAUSED])
def test_one_that_is_off_and_answers_again_is_not_told_of_as_well(state: EndpointState) -> None:
    off = an_endpoint(state=state, warnings=3, failing_since_ms=START_MS)
    assert notice_type(off, after_attempt(off, True, START_MS + HOUR_MS)) is None


def test_silence_is_no_failure_and_clears_the_warnings_that_were_given() -> None:
    found = told([*every(1, 30), 60, 61, 83, 84, 85])
    assert {at for at, kind in found.items() if kind} == {24, 84}


@pytest.mark.parametrize("house", [NOTIFY, CANARY])
def test_the_houses_own_endpoints_are_never_given_up_and_tell_nobody(house: str) -> None:
    assert not any(told(every(1, 200), id=house, account_id=house).values())
    endpoint = an_endpoint(id=house, account_id=house)
    for at in every(1, 200):
        endpoint = after_attempt(endpoint, False, START_MS + round(at * HOUR_MS))
    assert endpoint.state is EndpointState.ENABLED


def test_a_paused_endpoint_is_not_disabled_by_what_was_in_flight() -> None:
    assert not [
        kind
        for kind in told(every(1, 200), state=EndpointState.PAUSED).values()
        if kind == "endpoint.disabled"
    ]


def test_a_notice_says_it_in_a_line_and_in_fields() -> None:
    now_ms = START_MS + 24 * HOUR_MS
    endpoint = an_endpoint(failing_since_ms=START_MS, last_failure_at_ms=now_ms)
    body = render_notice(
        "endpoint.warning",
        endpoint,
        event_id="evt_1",
        live=True,
        now_ms=now_ms,
        status=500,
        error_class="http_status",
    )
    assert msgspec.json.decode(body) == {
        "id": "evt_1",
        "type": "endpoint.warning",
        "api_version": "2026-05-18",
        "created_at": "2026-05-29T20:26:40.000Z",
        "text": "Webhooks to https://shop.example/hooks have failed for 24 hours; in 96 hours they stop.",
        "data": {
            "endpoint_id": "ep_1",
            "account_id": "acct_1",
            "live": True,
            "url": "https://shop.example/hooks",
            "state": "enabled",
            "failing_since": "2026-05-28T20:26:40.000Z",
            "disables_at": "2026-06-02T20:26:40.000Z",
            "last_status": 500,
            "last_error_class": "http_status",
        },
    }


def test_each_kind_has_its_words() -> None:
    endpoint = an_endpoint(failing_since_ms=START_MS, state=EndpointState.DISABLED)
    kinds: tuple[NoticeType, ...] = ("endpoint.disabled", "endpoint.recovered", "notify.test")
    texts = {
        kind: msgspec.json.decode(
            render_notice(kind, endpoint, event_id="evt_1", live=False, now_ms=START_MS + 120 * HOUR_MS)
        )
        for kind in kinds
    }
    assert "120 hours and are off now" in texts["endpoint.disabled"]["text"]
    assert texts["endpoint.disabled"]["data"]["disables_at"] is None
    assert "answered again" in texts["endpoint.recovered"]["text"]
    assert len({text["text"] for text in texts.values()}) == 3


def test_money_that_goes_elsewhere_is_told_with_both_addresses_and_who_did_it() -> None:
    moved = Moved(
        "crypto_1", "mrch_1", "acct_1", "eip155:1/slip44:60", "eip155:1:0xa", "eip155:1:0xb", "usr_1"
    )
    body = msgspec.json.decode(render_moved("destination.changed", moved, event_id="evt_1", now_ms=0))
    assert (body["type"], body["created_at"]) == ("destination.changed", "1970-01-01T00:00:00.000Z")
    for words in ("mrch_1", "0xa", "0xb", "usr_1"):
        assert words in body["text"]
    assert (body["data"]["old"], body["data"]["new"]) == ("eip155:1:0xa", "eip155:1:0xb")


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        ("destination.change_requested", "0xa", "0xb", ("0xa", "0xb", "2026-05-18", "cancel it before then")),
        ("destination.change_cancelled", "0xa", "0xb", ("goes to 0xa as before", "0xb")),
        ("destination.deleted", "0xa", None, ("went to 0xa", "nobody is offered")),
        ("destination.added", None, "0xb", ("goes to 0xb", "delete it at once")),
    ],
)
def test_each_thing_that_happens_to_a_destination_is_told_in_its_own_words(
    kind: MovedType, old: str | None, new: str | None, words: tuple[str, ...]
) -> None:
    moved = Moved("crypto_1", "mrch_1", "acct_1", "eip155:1/slip44:60", old, new, "usr_1", "2026-05-18")
    body = msgspec.json.decode(render_moved(kind, moved, event_id="evt_1", now_ms=0))
    assert body["type"] == kind
    for one in ("usr_1", *words):
        assert one in body["text"]
    assert "None" not in body["text"]
