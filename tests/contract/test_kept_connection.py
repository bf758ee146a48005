"""Payments that are created one after the other on one connection: the third time nothing of it is new."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection

import pytest

from tests.contract.outside import Server, Shop
from tests.contract.test_payments import BOTH, good

Said = tuple[int, set[str], str]
"""Status, names of headers, and body without what is another one each time."""

OTHERS = re.compile(r"pay_t\w+|req_\w+|\"(expiresAt|original\w*)\":\"?\w+")


def ask(door: HTTPConnection, path: str, headers: Mapping[str, str], body: object) -> Said:
    door.request("POST", path, json.dumps(body), headers)
    answer = door.getresponse()
    names = {name.lower() for name in answer.headers} - {"connection"}
    return answer.status, names, OTHERS.sub("…", answer.read().decode())


@pytest.fixture
def door(server: Server) -> Iterator[Callable[[], HTTPConnection]]:
    opened: list[HTTPConnection] = []

    def open_one() -> HTTPConnection:
        opened.append(HTTPConnection(server.url.removeprefix("http://"), timeout=20))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.mark.parametrize("path", BOTH)
def test_on_a_connection_that_stays_each_is_answered_as_on_one_of_its_own(
    shop: Shop, merchant_id: str, door: Callable[[], HTTPConnection], path: str
) -> None:
    head = {**shop.api.headers, "Merchant-Id": merchant_id}

    def day(way: Callable[[], HTTPConnection], headers: Mapping[str, str]) -> list[Said]:
        """What a day's requests are answered: new ones, again under a key, another under it, wrong ones."""
        keyed = {**headers, "Idempotency-Key": secrets.token_hex(8)}
        other = good(amount={"unit": "iso4217/USD", "value": "1251"})
        nothing = good(amount={"unit": "iso4217/USD", "value": "0"})
        asked = [(headers, good()), (keyed, good()), (keyed, good()), (keyed, other)]
        return [ask(way(), path, *each) for each in (*asked, (headers, nothing), (headers, {}))]

    with closing(door()) as kept:
        kept.connect()
        connected = kept.sock
        days = [day(lambda: kept, head) for _ in range(3)]
        assert kept.sock is connected
    alone = day(door, {**head, "Connection": "close"})

    assert [status for status, *_ in alone] == [201, 201, 201, 409, 400, 400]
    assert "idempotent-replayed" in alone[2][1]
    assert days == [alone] * 3
