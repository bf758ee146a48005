"""The webhook endpoint under idempotency keys: what is repeated is answered again, and done once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.receiver import Does, always
from tests.shop import Got
from tests.web.hooked import ENDPOINT, Hooked, open_hooked

REPLAYED = "idempotent-replayed"
CREATED = {"type": "payment.created"}


async def switched(hooked: Hooked, act: str, key: str) -> Got:
    found = await hooked.shop.call("POST", f"{ENDPOINT}/{act}", idempotency_key=key)
    assert found.status == 200, found.body
    return found


@pytest.mark.parametrize(
    ("act", "undone_by"),
    [("disable", "enable"), ("enable", "disable"), ("pause", "resume"), ("resume", "pause")],
)
async def test_a_switch_that_is_repeated_under_its_key_switches_nothing(
    tmp_path: Path, act: str, undone_by: str
) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        first = await switched(hooked, act, "k")
        undone = await switched(hooked, undone_by, "k")
        again = await switched(hooked, act, "k")
        shown = (await hooked.shop.call("GET", ENDPOINT)).body

        assert (again.raw, again.headers[REPLAYED]) == (first.raw, "true")
        assert again.headers["original-request"] == first.headers["request-id"]
        assert shown["state"] == undone.body["state"] != first.body["state"]
        assert REPLAYED not in (await switched(hooked, act, "other")).headers


async def test_a_switch_is_answered_again_when_its_endpoint_is_gone(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        first = [await switched(hooked, act, "k") for act in ("enable", "disable")]
        await hooked.shop.call("DELETE", ENDPOINT)
        again = [await switched(hooked, act, "k") for act in ("enable", "disable")]

        assert [one.raw for one in again] == [one.raw for one in first]


async def test_what_comes_while_the_missed_are_counted_is_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_hooked(tmp_path) as hooked:
        db = hooked.shop.realm.db
        await hooked.register(events=["payment.created"])
        await switched(hooked, "disable", "k")
        await hooked.shop.pay()
        read = db.read

        async def read_and_pay(*args: Any, **kwargs: Any) -> Any:
            found = await read(*args, **kwargs)
            await hooked.shop.pay()
            return found

        with monkeypatch.context() as while_counted:
            while_counted.setattr(db, "read", read_and_pay)
            enabled = await switched(hooked, "enable", "k")
        job = await hooked.job("replay-missing", enabled.body["missedSince"])

        assert (enabled.body["missedEvents"], job["matched"]) == (2, 2)
        assert (await switched(hooked, "enable", "k")).raw == enabled.raw


@pytest.mark.parametrize("path", [f"{ENDPOINT}/test", "/v1/test/webhooks/send"])
async def test_a_test_event_is_sent_once_for_one_idempotency_key(tmp_path: Path, path: str) -> None:
    async with open_hooked(tmp_path, always(Does(status=500, delay_s=5))) as hooked:
        await hooked.register()
        answers: list[Got] = []

        async def one() -> None:
            answers.append(await hooked.shop.call("POST", path, CREATED, idempotency_key="k"))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
        await one()
        other = await hooked.shop.call("POST", path, {"type": "payment.settled"}, idempotency_key="k")
        long = await hooked.shop.call("POST", path, CREATED, idempotency_key="k" * 256)

        assert {(one.status, one.raw) for one in answers} == {(200, answers[0].raw)}
        assert sum(one.headers.get(REPLAYED) == "true" for one in answers) == 10
        assert (other.status, other.code) == (409, "idempotency_conflict")
        assert (long.status, long.code) == (400, "invalid_params")
        assert [row["id"] for row in await hooked.deliveries()] == [answers[0].body["deliveryId"]]
        assert len(hooked.receiver.received) == 1
        assert audited_tests(hooked) == 1


def audited_tests(hooked: Hooked) -> int:
    query = "SELECT count(*) FROM audit WHERE act = 'webhook.test'"
    return hooked.shop.realm.db.point(lambda tx: int(tx.execute(query).fetchone()[0]))


async def test_who_left_while_a_test_was_sent_gets_its_answer_by_the_key(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(delay_s=5))) as hooked:
        await hooked.register()
        with trio.move_on_after(1):
            await hooked.shop.call("POST", f"{ENDPOINT}/test", CREATED, idempotency_key="k")
        again = await hooked.shop.call("POST", f"{ENDPOINT}/test", CREATED, idempotency_key="k")

        assert (again.status, again.headers[REPLAYED]) == (200, "true")
        assert len(hooked.receiver.received) == 1


async def test_a_test_that_was_sent_and_not_logged_leaves_its_key_unused_and_both_are_audited(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        async with hooked.shop.after_writes(1):
            lost = await hooked.shop.call("POST", f"{ENDPOINT}/test", CREATED, idempotency_key="k")
        again = await hooked.shop.call("POST", f"{ENDPOINT}/test", CREATED, idempotency_key="k")

        assert (lost.status, again.status, REPLAYED in again.headers) == (503, 200, False)
        assert [row["id"] for row in await hooked.deliveries()] == [again.body["deliveryId"]]
        assert (len(hooked.receiver.received), audited_tests(hooked)) == (2, 2)


async def test_no_kept_answer_holds_a_secret(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.register()
        rotated = [
            await hooked.shop.call("POST", f"{ENDPOINT}/{act}", idempotency_key="k")
            for act in ("rotate", "rotate", "reveal")
        ]
        await switched(hooked, "enable", "k")
        rows = "SELECT body FROM idempotency"
        kept = hooked.shop.realm.db.point(lambda tx: str(tx.execute(rows).fetchall()))

        secrets = [one.body["secret"] for one in rotated]
        assert len({made["secret"], *secrets}) == 3
        assert made["id"] in kept
        assert "whsec_" not in kept
