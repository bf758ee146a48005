"""`payd demo` sees the whole job, or says what was missing; it leaves nothing behind that it made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from payd.cli import demo
from payd.cli.demo import Job
from payd.cli.demo_live import EVENTS
from payd.cli.failure import Refused
from payd.cli.receiver import Received
from payd.cli.running import do
from payd.cli.timeline import Timeline
from payd.config import Config
from tests.cli.test_serve import serving
from tests.terminal import Terminal

SUCCEEDED = {"status": "succeeded", "isFinal": True, "info": {"txId": "test:pay_t1"}}


@pytest.fixture
def quick(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The program, with a simulated chain that does not dawdle."""
    monkeypatch.setenv("PYTHONPATH", os.fspath(Path(__file__).parents[2]))
    monkeypatch.setenv("PAYD_TEST_CONFIRM_AFTER_MS", "50")
    monkeypatch.setenv("PAYD_TEST_SETTLE_AFTER_MS", "50")
    return payd


@pytest.mark.real_time
def test_with_a_server_of_its_own_it_sees_everything_and_leaves_nothing(quick: Terminal) -> None:
    seen = quick.json("demo")
    assert (seen["ok"], seen["missing"]) == (True, [])
    assert seen["webhooks"] == {kind: version for version, kind in enumerate(EVENTS)}
    assert seen["status"]["info"]["txId"] == f"test:{seen['paymentId']}"
    assert {entry["who"] for entry in seen["timeline"]} == {"server", "merchant", "wallet", "feed", "webhook"}
    assert os.listdir(quick.folder) == []


@pytest.mark.real_time
def test_a_server_of_its_own_takes_nothing_from_the_variables_of_another(
    quick: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_BASE_URL", "https://pay.invalid")
    monkeypatch.setenv("PAYD_LISTEN", "192.0.2.1:1")
    monkeypatch.setenv("PAYD_DATA_DIR", "mine")
    monkeypatch.setenv("PAYD_WEBHOOKS_TEST_ALLOW_HTTP", "false")
    seen = quick.json("demo", "--scratch")
    assert seen["ok"]
    assert not any("pay.invalid" in entry["what"] for entry in seen["timeline"])
    assert os.listdir(quick.folder) == []


@pytest.mark.real_time
def test_on_the_running_server_it_takes_back_what_it_made(quick: Terminal) -> None:
    quick("init")
    with serving(quick.folder) as (_, base_url):
        shown = quick("demo").output
        assert base_url in shown
        assert shown.rstrip().endswith("Done: paid, succeeded, settled, and all four webhooks verified.")
        assert [merchant["name"] for merchant in quick.json("merchant", "list")] == ["Demo Shop"]
        assert [key["name"] for key in quick.json("key", "list") if key["revokedAt"] is None] == ["first key"]
        assert "no webhook endpoint" in quick.error("webhook", "show")


@pytest.mark.real_time
def test_an_endpoint_that_is_there_is_never_touched(quick: Terminal) -> None:
    quick("init")
    with serving(quick.folder) as (_, base_url):
        quick("webhook", "set", "--url", "http://127.0.0.1:9/mine")
        shown = quick("demo").output
        assert base_url not in shown, "it takes a server of its own"
        assert "the running one has a webhook endpoint, left alone; starts one of its own" in shown
        assert quick.json("webhook", "show")["url"] == "http://127.0.0.1:9/mine"


@pytest.mark.real_time
def test_an_endpoint_that_is_not_the_demos_any_more_is_left_alone(quick: Terminal) -> None:
    quick("init")
    with serving(quick.folder):
        said = trio.run(_take_back_what_became_of_it, Config(data_dir=quick.folder / "data"))
    assert said == ["somebody set its webhook endpoint meanwhile: left alone"] * 2


async def _take_back_what_became_of_it(config: Config) -> list[str]:
    timeline = Timeline(quiet=True)
    [account] = await do(config, "account.list", {})
    of = {"mode": "test", "account": account["id"]}
    ours, theirs = {**of, "url": "http://127.0.0.1:9/ours"}, {**of, "url": "http://127.0.0.1:9/theirs"}

    made = await do(config, "webhook.set", ours)
    await do(config, "webhook.set", theirs)
    await demo.take_back_endpoint(config, of, made, timeline)
    assert (await do(config, "webhook.show", of))["url"] == theirs["url"]

    await do(config, "webhook.delete", of)
    await demo.take_back_endpoint(config, of, made, timeline)

    anew = await do(config, "webhook.set", ours)
    await demo.take_back_endpoint(config, of, made, timeline)
    assert (await do(config, "webhook.show", of))["id"] == anew["id"], "the same URL, and not the demo's"
    await demo.take_back_endpoint(config, of, anew, timeline)
    with pytest.raises(Refused, match="no webhook endpoint"):
        await do(config, "webhook.show", of)
    return [one["what"] for one in timeline.entries]


@pytest.mark.real_time
def test_whoever_sets_an_endpoint_while_the_demo_runs_keeps_it(
    quick: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick("init")
    mine = "http://127.0.0.1:9/mine"

    async def trade(*_: object) -> None:
        config = Config(data_dir=quick.folder / "data")
        [account] = await do(config, "account.list", {})
        await do(config, "webhook.set", {"mode": "test", "account": account["id"], "url": mine})

    monkeypatch.setattr(demo, "_trade", trade)  # in place of a payment
    with serving(quick.folder):
        said = quick("demo", code=1).output
        assert quick.json("webhook", "show")["url"] == mine
    assert "somebody set its webhook endpoint meanwhile: left alone" in said


@pytest.mark.real_time
def test_a_server_that_does_not_start_is_told_with_its_log(
    quick: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(quick.folder))
    (quick.folder / "payd.py").write_text("raise SystemExit('no such luck')")
    assert "no such luck" in quick.error("demo", "--json")


@pytest.mark.parametrize(
    "typed",
    [("--send",), ("--spend-real-money",), ("--wallet", "w.json"), ("--amount", "1"), ("--account", "shop")],
)
def test_what_is_for_live_mode_is_refused_in_test_mode(payd: Terminal, typed: tuple[str, ...]) -> None:
    assert "That is for --mode live." in payd.error("demo", *typed, code=2)


def test_a_live_payment_takes_a_server_that_runs(payd: Terminal) -> None:
    assert "--scratch is for --mode test." in payd.error("demo", "--mode", "live", "--scratch", code=2)


@pytest.mark.parametrize(("typed", "cents"), [("12.50", 1250), ("12.5", 1250), ("7", 700), ("0.01", 1)])
def test_an_amount_is_in_dollars(typed: str, cents: int) -> None:
    assert demo.cents_of(typed) == cents


@pytest.mark.parametrize("typed", ["0", "0.00", "-1", "1.234", "1e3", "", "12,50", "٣"])
def test_anything_else_is_no_amount(payd: Terminal, typed: str) -> None:
    said = payd.error("demo", "--mode", "live", "--amount", typed, code=2)
    assert "is no amount in US dollars, such as 12.50" in said


def received(kind: str, version: int, payment_id: str = "pay_t1", problem: str | None = None) -> Received:
    data = {"payment_id": payment_id, "payment_state_version": version}
    return Received({}, b"", problem, {} if problem else {"type": kind, "data": data})


def job(*deliveries: Received) -> Job:
    made = Job(Timeline(quiet=True))
    made.payment_id, made.status, made.seen = "pay_t1", dict(SUCCEEDED), ["succeeded"]
    for delivery in deliveries:
        made.receive(delivery)
    return made


ALL = [received(kind, version) for version, kind in enumerate(EVENTS)]


async def test_nothing_is_missing_when_everything_was_seen() -> None:
    assert job(*ALL).missing() == []


@pytest.mark.parametrize("left_out", range(4))
async def test_each_webhook_is_missed(left_out: int) -> None:
    deliveries = [one for n, one in enumerate(ALL) if n != left_out]
    assert job(*deliveries).missing() == [f"a verified webhook {EVENTS[left_out]}"]


async def test_a_webhook_about_another_payment_does_not_count() -> None:
    other = received("payment.settled", 3, "pay_t2")
    assert job(*ALL[:3], other).missing() == ["a verified webhook payment.settled"]


async def test_one_webhook_that_does_not_verify_is_enough_to_fail() -> None:
    assert job(*ALL, received("", 0, problem="No matching signature found")).missing() == [
        "a webhook that verifies (No matching signature found)"
    ]


async def test_status_transaction_and_feed_must_agree() -> None:
    made = job(*ALL)
    made.status = {"status": "processing"}
    assert made.missing() == ["the status succeeded by REST (it is processing)"]
    made.status = {**SUCCEEDED, "info": {"txId": "test:pay_t2"}}
    assert made.missing() == ["the transaction id of a test payment"]
    made.status, made.seen = dict(SUCCEEDED), ["requires_action", "processing"]
    assert made.missing() == ["the status succeeded on the payment's feed"]


async def test_waiting_ends_with_the_last_webhook_or_with_the_time() -> None:
    made = job(*ALL[:3])
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.wait_until_done)
        await trio.sleep(1)
        made.receive(ALL[3])
    assert trio.current_time() - started_s == pytest.approx(1)
    late = job(*ALL[:3])
    await late.wait_until_done()
    assert trio.current_time() - started_s == pytest.approx(1 + demo.JOB_S)
