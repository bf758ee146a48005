"""Token buckets: of a key, of an address, and of refused credentials.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.outside import Caller, Server, Shop, assert_refused, ok


@pytest.fixture(scope="module")
def door(strict: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=strict.url) as client:
        yield client


@pytest.fixture(scope="module")
def keyed(strict: Server, door: httpx.Client) -> Shop:
    return strict.shop("strict", door)


def spend(caller: Caller, path: str, times: int) -> list[int]:
    return [caller.get(path).status_code for _ in range(times)]


def assert_limited(caller: Caller, path: str) -> None:
    """Ask until the bucket is empty, and hold the refusal to the pages."""
    answer = next(a for a in (caller.get(path) for _ in range(50)) if a.status_code == 429)
    assert_refused(answer, 429, "rate_limited")
    assert int(answer.headers["Retry-After"]) >= 1


def test_a_key_has_a_burst_of_twice_its_rate(keyed: Shop) -> None:
    caller = keyed.api.having(X_Forwarded_For="198.51.100.1")
    statuses = spend(caller, "/v1/merchants", 12)
    assert statuses[:6] == [200] * 6
    assert 429 in statuses[6:]
    assert_limited(caller, "/v1/merchants")


def test_another_key_has_its_own_bucket(strict: Server, keyed: Shop) -> None:
    fresh = keyed.api.having(Api_Key=strict.key(keyed.account_id), X_Forwarded_For="198.51.100.1")
    assert 429 in spend(keyed.api.having(X_Forwarded_For="198.51.100.1"), "/v1/merchants", 12)
    ok(fresh.get("/v1/merchants"))


def test_an_address_without_a_key_has_a_bucket(door: httpx.Client) -> None:
    caller = Caller(door, {"X-Forwarded-For": "198.51.100.2"})
    statuses = spend(caller, "/versions", 16)
    assert statuses[:8] == [200] * 8
    assert 429 in statuses[8:]
    assert_limited(caller, "/versions")
    assert Caller(door, {"X-Forwarded-For": "198.51.100.3"}).get("/versions").status_code == 200


def test_only_the_rightmost_untrusted_hop_is_believed(door: httpx.Client) -> None:
    statuses = []
    for number in range(16):
        caller = Caller(door, {"X-Forwarded-For": f"203.0.113.{number}, 198.51.100.4, 127.0.0.1"})
        statuses.append(caller.get("/versions").status_code)
    assert statuses[:8] == [200] * 8
    assert 429 in statuses[8:]


def test_refused_credentials_are_counted_by_address(door: httpx.Client, keyed: Shop, strict: Server) -> None:
    guesser = Caller(door, {"X-Forwarded-For": "198.51.100.5", "Api-Key": "svc_test_guess"})
    statuses = spend(guesser, "/v1/merchants", 8)
    assert statuses[:2] == [401] * 2
    assert 429 in statuses[2:]
    assert_limited(guesser, "/v1/merchants")
    elsewhere = guesser.having(X_Forwarded_For="198.51.100.6")
    assert_refused(elsewhere.get("/v1/merchants"), 401, "invalid_api_key")
