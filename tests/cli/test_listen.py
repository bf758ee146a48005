"""`payd listen` with real processes: nothing lost, nothing out of order, whatever is restarted or away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.cli.listen import run_until_told
from tests.cli.listening import Hook, Shop, listening, open_hook, open_shop, until
from tests.terminal import Terminal

pytestmark = pytest.mark.real_time

TEST_KEY, LIVE_KEY = f"svc_test_{'0' * 52}", f"svc_{'0' * 52}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop whose server no test stops."""
    with open_shop(tmp_path_factory.mktemp("listen") / "data") as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of one's own."""
    with open_shop(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def hook() -> Iterator[Hook]:
    with open_hook() as opened:
        yield opened


def is_left(key: Any) -> bool:
    return bool(key["name"] == "payd listen")


def test_events_are_forwarded_in_order_signed_and_told_and_no_key_is_left(kept: Shop, hook: Hook) -> None:
    secret = kept.text("listen", "--print-secret").strip()
    with listening(kept, "--forward-to", hook.url, "-H", "X-Tunnel: 7") as listener:
        begun = listener.state("connected")
        assert begun["url"] == kept.server.url
        assert begun["who"] == "account main, test mode"
        payments = kept.pay(5)
        assert hook.count(5) == payments
        events = listener.events(5)
        assert kept.listener_keys().count(False) == 1
        assert listener.end() == 0
    assert [one["paymentId"] for one in events] == payments
    for index, one in enumerate(events):
        assert hook.verify(secret, index)["id"] == one["eventId"]
        assert hook.received[index][0]["webhook-id"] == one["eventId"].replace("evt_", "msg_")
    assert hook.received[0][0]["x-tunnel"] == "7"
    assert (events[0]["eventType"], events[0]["status"], events[0]["errorClass"]) == (
        "payment.created",
        200,
        None,
    )
    assert events[0]["resent"] is False
    stopped = listener.state("stopped")
    assert stopped["cursor"] == events[-1]["cursor"]
    assert stopped["goOn"].endswith(f"--after {stopped['cursor']}")
    assert all(kept.listener_keys()), "its key is revoked"


@pytest.mark.alike
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_every_way_to_end_it_revokes_its_key(kept: Shop, number: int) -> None:
    with listening(kept) as listener:
        listener.state("connected")
        assert listener.end(number) == 0
    assert all(kept.listener_keys())


def test_for_people_each_event_is_a_line_and_ready_is_said_once_it_is(kept: Shop) -> None:
    with open_hook(status=500) as hook, listening(kept, "--forward-to", hook.url, form="text") as listener:
        until(lambda: any(line.startswith("Ready: connected to") for line in listener.said))
        [payment] = kept.pay()
        until(lambda: listener.lines, lambda: str(listener))
        [line] = listener.lines
        again = line.partition(" ms; again: ")[2].partition("webhook resend ")
        # Without any endpoint: who listens needs none.
        assert "Told again to 1 listener" in kept.text("webhook", "resend", *again[2].split())
        assert hook.count(2) == [payment, payment]
        listener.end()
    assert f"  payment.created     {payment}  → [500] " in line
    assert again[2].startswith("evt_")
    assert "\x1b" not in line, "no colour for a pipe"
    assert "Go on with: " in listener.said[-1]
    assert f"listen --forward-to {hook.url} --after " in listener.said[-1]


def test_a_restart_of_the_server_loses_nothing_and_repeats_nothing(shop: Shop, hook: Hook) -> None:
    with listening(shop, "--forward-to", hook.url) as listener:
        listener.state("connected")
        payments = shop.pay(3)
        hook.count(3)
        # While it cannot notice anything, the server is another one and things have happened there.
        listener.process.send_signal(signal.SIGSTOP)
        shop.server.stop()
        shop.server.start()
        payments += shop.pay(70)
        listener.process.send_signal(signal.SIGCONT)
        again = listener.state("connected", 2)
        assert again["behind"] == 70
        assert again["afterS"] >= 0
        payments += shop.pay(2)
        assert hook.count(75) == payments
        assert [one["paymentId"] for one in listener.events(75)] == payments
        assert listener.state("lost")["wasConnected"] is True


def test_what_was_acknowledged_before_a_kill_comes_after_it(shop: Shop, hook: Hook) -> None:
    with listening(shop, "--forward-to", hook.url) as listener:
        listener.state("connected")
        payments: list[str] = []
        for _ in range(3):
            payments += shop.pay(4)
            shop.server.kill()
            listener.state("lost")
            shop.server.start()
        payments += shop.pay(2)
        assert hook.count(14) == payments
        assert listener.end() == 0
    assert all(shop.listener_keys())


def test_a_server_that_is_not_there_yet_is_waited_for(shop: Shop, hook: Hook) -> None:
    shop.server.kill()  # which leaves its socket
    with listening(shop, "--forward-to", hook.url) as listener:
        assert "no server runs" in listener.state("lost")["reason"]
        shop.server.start()
        listener.state("connected")
        payments = shop.pay()
        assert hook.count(1) == payments


def test_ctrl_c_while_the_server_is_away_revokes_the_key_in_the_store(shop: Shop) -> None:
    with listening(shop) as listener:
        listener.state("connected")
        shop.server.stop()
        listener.state("lost")
        assert listener.end() == 0
    assert shop.listener_keys() == [True]


def test_a_receiver_that_is_down_at_first_gets_everything_in_order(kept: Shop) -> None:
    hook = Hook()
    with listening(kept, "--forward-to", hook.url) as listener:
        listener.state("connected")
        payments = kept.pay(4)
        waiting = listener.state("waiting")
        assert (waiting["url"], waiting["reason"]) == (f"http://{hook.url}", "the connection was refused")
        hook.start()
        try:
            assert hook.count(4) == payments
        finally:
            hook.stop()
        listener.events(4)
        assert len([one for one in listener.objects("state") if one["state"] == "waiting"]) == 1


def signed(shop: Shop, hook: Hook, *secrets: str) -> None:
    """The next event comes signed with each of these."""
    number = len(hook.received) + 1
    shop.pay()
    hook.count(number)
    for secret in secrets:
        hook.verify(secret)
    assert len(hook.received[-1][0]["webhook-signature"].split()) == len(secrets)


@pytest.mark.alike
@pytest.mark.parametrize("elsewhere", [False, True])
def test_it_signs_with_what_the_endpoint_signs_with_now_though_nothing_reconnects(
    shop: Shop, hook: Hook, elsewhere: bool
) -> None:
    own = shop.text("listen", "--print-secret").strip()
    url = "http://127.0.0.1:9/hook"
    place = ("--url", shop.server.url, "--api-key", shop.key, "--forward-to", hook.url)
    with listening(
        shop, *(place if elsewhere else place[4:]), variables={"PAYD_WEBHOOK_SECRET": own}
    ) as listener:
        listener.state("connected")
        signed(shop, hook, own)
        first = shop.server.payd("webhook", "set", "--url", url)["secret"]
        signed(shop, hook, first)
        second = shop.server.payd("webhook", "rotate")["secret"]
        signed(shop, hook, second, first)
        shop.server.payd("webhook", "delete", "--yes")
        # Elsewhere there is nothing to sign with: the last goes on, and that is said.
        signed(shop, hook, *((second, first) if elsewhere else (own,)))
        third = shop.server.payd("webhook", "set", "--url", url)["secret"]
        signed(shop, hook, third)
        told = [one["reason"] for one in listener.objects("state") if one["state"] == "secretChanged"]
        assert len([one for one in listener.objects("state") if one["state"] == "connected"]) == 1
    assert [reason is None for reason in told] == [True, True, not elsewhere, True]
    assert own not in str(listener)
    assert third not in str(listener)


def test_a_listener_whose_key_was_given_up_while_it_slept_gets_another(shop: Shop, hook: Hook) -> None:
    with listening(shop, "--forward-to", hook.url) as listener:
        listener.state("connected")
        shop.server.stop()
        listener.process.send_signal(signal.SIGSTOP)
        shop.server.start()
        [own] = [key["id"] for key in shop.server.payd("key", "list") if is_left(key)]
        shop.server.payd("key", "revoke", own)  # as the server does when nobody comes with it for a minute
        payments = shop.pay(2)
        listener.process.send_signal(signal.SIGCONT)
        assert hook.count(2) == payments
        assert listener.end() == 0
    assert shop.listener_keys() == [True, True]


def test_after_a_reconnect_it_signs_with_the_rotated_secret(shop: Shop, hook: Hook) -> None:
    with open_hook() as real:
        first = shop.server.payd("webhook", "set", "--url", f"http://{real.url}")["secret"]
        with listening(shop, "--forward-to", hook.url) as listener:
            listener.state("connected")
            shop.pay()
            hook.count(1)
            assert hook.verify(first)
            second = shop.server.payd("webhook", "rotate")["secret"]
            shop.server.stop()
            shop.server.start()
            listener.state("connected", 2)
            shop.pay()
            hook.count(2)
            assert hook.verify(second)
        assert shop.text("listen", "--print-secret") == f"{second}\n"


def test_what_is_resent_by_hand_is_forwarded_again_and_moves_no_cursor(shop: Shop, hook: Hook) -> None:
    with open_hook() as real:
        shop.server.payd("webhook", "set", "--url", f"http://{real.url}")
        with listening(shop, "--forward-to", hook.url) as listener:
            listener.state("connected")
            first, second = shop.pay(2)
            hook.count(2)
            real.count(2)
            [delivery] = shop.call("GET", f"/v1/webhooks/deliveries?paymentId={first}")["data"]
            shop.call("POST", f"/v1/webhooks/deliveries/{delivery['id']}/resend")
            assert hook.count(3) == [first, second, first]
            events = listener.events(3)
            listener.end()
        assert hook.received[0][1] == hook.received[2][1]
        assert hook.received[0][0]["webhook-id"] == hook.received[2][0]["webhook-id"]
    assert [one["resent"] for one in events] == [False, False, True]
    assert events[2]["cursor"] == events[0]["cursor"]
    assert listener.state("stopped")["cursor"] == events[1]["cursor"]


def test_with_a_cursor_file_the_tool_itself_may_be_restarted(kept: Shop, hook: Hook, tmp_path: Path) -> None:
    file = tmp_path / "cursor"
    options = ("--forward-to", hook.url, "--cursor", str(file))
    with listening(kept, *options) as listener:
        listener.state("connected")
        until(file.exists)  # also before anything has come
        listener.end()
    payments = kept.pay(2)
    with listening(kept, *options) as listener:
        assert listener.state("connected")["behind"] == 2
        payments += kept.pay(1)
        assert hook.count(3) == payments
        events = listener.events(3)
        until(lambda: file.read_text().strip() == events[2]["cursor"])
        listener.process.kill()
        listener.process.wait()
    [left] = [key["id"] for key in kept.server.payd("key", "list") if is_left(key)]
    kept.server.payd("key", "revoke", left)  # which a tool that is killed cannot do
    payments += kept.pay(1)
    with listening(kept, *options) as listener:
        assert hook.count(4) == payments
    with listening(kept, "--after", events[0]["cursor"]) as listener:
        assert [one["paymentId"] for one in listener.events(3)] == payments[1:]
        seen = listener.objects("event")[0]
        assert (seen["status"], seen["paymentStatus"]) == (None, "requires_action"), "only printed"
        assert seen["event"]["data"]["amount"] == {"unit": "iso4217/USD", "value": "1250"}
    assert [one.name for one in tmp_path.iterdir()] == ["cursor"]


def test_only_the_chosen_types_are_forwarded(kept: Shop, hook: Hook) -> None:
    with listening(kept, "--forward-to", hook.url, "--events", "payment.cancelled") as listener:
        listener.state("connected")
        one, two = kept.pay(2)
        for payment in (one, two):
            kept.call("POST", f"/v1/payments/{payment}/cancel", Merchant_Id=kept.merchant)
        assert hook.count(2) == [one, two]
        assert {event["eventType"] for event in listener.events(2)} == {"payment.cancelled"}


def test_a_key_that_is_revoked_ends_it_with_words(kept: Shop) -> None:
    with listening(kept) as listener:
        listener.state("connected")
        [own] = [key["id"] for key in kept.server.payd("key", "list") if is_left(key)]
        kept.server.payd("key", "revoke", own)
        kept.pay()
        assert listener.wait() == 1
    assert "This API key is unknown or was revoked." in listener.said[-1]


def test_elsewhere_a_key_is_enough_where_it_may_see_the_secret(shop: Shop, hook: Hook) -> None:
    remote = ("--url", shop.server.url, "--forward-to", hook.url)
    with listening(shop, *remote, "--api-key", shop.key) as listener:
        assert listener.wait() == 1
    assert "--secret or PAYD_WEBHOOK_SECRET" in listener.said[-1]
    with open_hook() as real:
        secret = shop.server.payd("webhook", "set", "--url", f"http://{real.url}")["secret"]
        with listening(shop, *remote, "--api-key", shop.key) as listener:
            listener.state("connected")
            assert hook.count(0) == []
            shop.pay()
            hook.count(1)
            assert hook.verify(secret)
            shop.server.stop()
            listener.state("lost")
            shop.server.start()
            listener.state("connected", 2)
            shop.pay()
            hook.count(2)
    assert shop.listener_keys() == [], "none was made"


def test_a_wrong_key_or_cursor_is_refused_in_words(kept: Shop, tmp_path: Path) -> None:
    with listening(kept, "--url", kept.server.url, "--api-key", "svc_test_wrong") as listener:
        assert listener.wait() == 1
    assert "This API key is unknown or was revoked." in listener.said[-1]
    file = tmp_path / "place"
    file.write_text("Wzk5OTk5OV0")
    with listening(kept, "--cursor", str(file)) as listener:
        assert listener.wait() == 1
    assert f"The cursor in {file} is ahead of all events" in listener.said[-1]
    assert all(kept.listener_keys())


def test_a_reader_that_goes_away_leaves_no_key(kept: Shop) -> None:
    command = [sys.executable, "-m", "payd", "listen", "--format", "json"]
    process = subprocess.Popen(command, env=kept.server.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert json.loads(process.stdout.readline())["state"] == "connected"
        process.stdout.close()
        kept.pay()
        assert process.wait(20) == 141
        assert b"Traceback" not in process.stderr.read()
    assert all(kept.listener_keys())


def test_the_secret_stays_the_same_without_an_endpoint_also_without_a_server(begun: Terminal) -> None:
    secret = begun("listen", "--print-secret").stdout
    assert secret.startswith("whsec_")
    assert begun("listen", "--print-secret").stdout == secret
    made = begun.json("webhook", "set", "--url", "http://127.0.0.1:9/hook")
    assert begun("listen", "--print-secret").stdout == f"{made['secret']}\n"
    shown = begun("listen", "--print-secret", "--format", "json").stdout
    assert json.loads(shown) == {"type": "secret", "secret": made["secret"]}


def test_without_a_server_it_says_how_to_start_one(begun: Terminal) -> None:
    assert "payd serve" in begun.error("listen", "--forward-to", "localhost:1", code=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--events", "payment.suceeded"), "did you mean payment.succeeded?"),
        (("-H", "webhook-id: 1"), "payd sets webhook-id itself"),
        (("--forward-to", "ftp://x"), "--forward-to"),
        (("--api-key", "svc_test_1"), "--api-key goes with --url"),
        (("--url", "https://pay.example"), "--url needs a key"),
        (
            ("--url", "https://pay.example", "--api-key", "k", "--account", "main"),
            "--account is for the folder",
        ),
        (
            ("--url", "https://pay.example", "--mode", "live", "--api-key", TEST_KEY),
            "for test mode, not live",
        ),
        (
            ("--url", "https://pay.example", "--mode", "test", "--api-key", LIVE_KEY),
            "for live mode, not test",
        ),
        (("--url", "pay.example", "--api-key", "k"), "must begin with https://"),
        (("--secret", "hunter2"), "must begin with whsec_"),
        (
            ("--after", "garbage"),
            "'garbage' is no cursor. Without it, listening begins with what is new.",
        ),
        (("--after", "WzFd", "--cursor", "c"), "--after and --cursor do not go together"),
        (("--cursor", "nowhere/x"), "nowhere/x: there is no folder nowhere."),
        (("--events", "payment.*"), "'payment.*' is no event type; there are payment.created, "),
    ],
)
def test_a_wrong_use_is_told_before_anything_happens(
    begun: Terminal, options: tuple[str, ...], words: str
) -> None:
    said = begun.error("listen", *options, code=2)
    assert words in " ".join(said.split())
    assert "hunter2" not in said


def test_a_file_that_holds_no_cursor_is_left_alone(begun: Terminal) -> None:
    (begun.folder / "notes").write_text("buy milk\n")
    assert "holds no cursor" in begun.error("listen", "--cursor", "notes")
    assert (begun.folder / "notes").read_text() == "buy milk\n"


def test_in_another_folder_it_says_that_the_data_are_elsewhere(payd: Terminal) -> None:
    said = payd.error("listen", "--forward-to", "localhost:1")
    assert "No payd data in " in said
    assert "--data-dir" in said


def test_a_command_to_go_on_with_is_whole_and_tells_no_secret(kept: Shop) -> None:
    headers = ("-H", "Authorization: Bearer hunter2", "--secret", f"whsec_{'A' * 44}")
    place = ("--url", kept.server.url, "--api-key", kept.key, "--events", "payment.created")
    with listening(kept, *place, *headers, "--forward-to", ":1/hook") as listener:
        cursor = listener.state("connected")["cursor"]
        assert listener.end() == 0
    go_on = listener.state("stopped")["goOn"]
    assert go_on.startswith("PAYD_API_KEY=… ")
    for part in (
        f"listen --forward-to :1/hook --url {kept.server.url} --secret '…' --format json",
        "--events payment.created",
        "-H 'Authorization: …'",
        f"--after {cursor}",
    ):
        assert part in go_on
    for secret in ("hunter2", kept.key, "AAAA"):
        assert secret not in str(listener)


class Door:
    """A door that is closed once, during which somebody may say stop again."""

    def __init__(self, *, interrupts: bool) -> None:
        self.closed = 0
        self._interrupts = interrupts

    def close(self) -> None:
        self.closed += 1
        if self._interrupts:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("interrupts", [False, True])
def test_ctrl_c_twice_is_no_abort(interrupts: bool) -> None:
    door = Door(interrupts=interrupts)

    async def run() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await trio.sleep_forever()
        finally:
            signal.raise_signal(signal.SIGINT)

    run_until_told(run, door)  # type: ignore[arg-type]  # all that is asked of it
    assert door.closed == 1


def test_what_ends_it_otherwise_comes_out_and_the_door_is_closed() -> None:
    door = Door(interrupts=False)

    async def run() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        run_until_told(run, door)  # type: ignore[arg-type]  # all that is asked of it
    assert door.closed == 1
