"""Both feeds under the cases of the Autobahn testsuite, on a fresh connection and on one that was used.

Source: DESIGN.md, "8. Feed"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.contract.fuzzing_client import (
    PROTOCOL_ERROR,
    STILL_THERE,
    TEXT,
    Case,
    Fuzzer,
    Heard,
    all_cases,
    frame,
    in_one,
)
from tests.contract.outside import Server, Shop, ok

CASES = all_cases()
# What a client may offer: the parameters of the suite's groups 12 and 13.
OFFERS = {
    "12": "permessage-deflate",
    "13.1": "permessage-deflate; client_max_window_bits",
    "13.2": "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
    "13.3": "permessage-deflate; server_max_window_bits=9; client_max_window_bits",
    "13.4": "permessage-deflate; server_max_window_bits=15; client_max_window_bits",
    "13.5": "permessage-deflate; server_no_context_takeover; server_max_window_bits=9",
    "13.6": "permessage-deflate; server_no_context_takeover; server_max_window_bits=15",
    "13.7": "permessage-deflate; server_max_window_bits=9, permessage-deflate",
}

Dial = Callable[..., Fuzzer]


@pytest.fixture(scope="module")
def followed(shop: Shop, merchant_id: str) -> str:
    """A payment that stays open for longer than these tests take."""
    return shop.payment(merchant_id, expiresAt=int(shop.now_s()) + 6 * 3600)


@pytest.fixture(params=["payment", "account"])
def dial(request: pytest.FixtureRequest, way: str, server: Server, shop: Shop, followed: str) -> Dial:
    """Opens a feed; on the lane's way with the first request, on hypercorn's after one that it answered."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    path = "/v1/feed" if request.param == "account" else f"/v1/payments/{followed}/feed"
    own = shop.api.headers if request.param == "account" else {}

    def opened(headers: Mapping[str, str] | None = None) -> Fuzzer:
        after = "/livez" if way == "hypercorn" else None
        return Fuzzer((host, int(port)), path, {**own, **(headers or {})}, after)

    return opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number)
def test_a_feed_holds_to_the_protocol(dial: Dial, case: Case) -> None:
    with dial() as fuzzer:
        heard = fuzzer.play(case)

    assert heard.code == (1000 if case.code is None else case.code)
    assert_pongs(heard, case)


def assert_pongs(heard: Heard, case: Case) -> None:
    """Hold the pongs to the pings: in their order, none twice, and the last one where it is owed."""
    left = iter(case.pongs or (STILL_THERE,) * (case.code is None))
    assert all(pong in left for pong in heard.pongs), heard.pongs
    assert case.code is not None or next(left, None) is None


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
def test_a_feed_declines_compression_and_fails_what_comes_compressed(dial: Dial, offer: str) -> None:
    with dial({"Sec-WebSocket-Extensions": offer}) as fuzzer:
        assert b"sec-websocket-extensions" not in fuzzer.answer
        # "Hello" as RFC 7692 compresses it (section 7.2.3.1).
        packed = frame(TEXT, bytes.fromhex("f248cdc9c90700"), rsv=4)
        heard = fuzzer.play(Case("compressed", in_one(packed), PROTOCOL_ERROR))

    assert heard == Heard([], PROTOCOL_ERROR)


def test_every_case_of_the_suite_is_here_once() -> None:
    numbers = [case.number for case in CASES]
    assert len(set(numbers)) == len(numbers)
    groups = [number.split(".")[0] for number in numbers]
    # The suite's own counts, and six in the fourth group that it does not have.
    assert {group: groups.count(group) for group in groups} == {
        "1": 16, "2": 11, "3": 7, "4": 16, "5": 20, "6": 145, "7": 37, "9": 54, "10": 1,
    }  # fmt: skip


def test_the_server_is_well_after_all_of_it(server: Server, shop: Shop, followed: str) -> None:
    assert shop.status_of(followed) == "requires_action"
    assert ok(shop.api.get("/livez"))["status"] == "ok"
