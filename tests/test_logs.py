"""Logs are one event a line, and no secret comes through, whatever it is called and wherever it stands."""

from __future__ import annotations

import io
import json
import logging
import os
import select
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from payd import logs

API_KEY = "svc_test_" + "0a" * 26
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_is_one_object_a_line_with_level_and_time(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    structlog.get_logger().info("payment.created", payment_id="pay_t1", text="two\nlines")
    [event] = logged(stream)
    assert event["event"] == "payment.created"
    assert event["payment_id"] == "pay_t1"
    assert event["level"] == "info"
    assert event["timestamp"].endswith("Z")
    assert event["text"] == "two\nlines"


def test_auto_is_json_where_nobody_sits_at_a_terminal(stream: io.StringIO) -> None:
    logs.configure("auto", "info", stream)
    structlog.get_logger().info("ready")
    assert logged(stream)[0]["event"] == "ready"


def test_auto_is_readable_text_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    logs.configure("auto", "info", stream)
    structlog.get_logger().info("ready", port=8420)
    assert "ready" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


ATTEMPT = {
    "delivery_id": "dlv_01",
    "message_id": "msg_01",
    "endpoint_id": "ep_01",
    "event_type": "payment.created",
    "trigger": "auto",
    "status": None,
    "error_class": "connection_refused",
    "duration_ms": 3,
    "n": 3,
    "state": "pending",
    "next_at": "2023-11-14T22:13:20.000Z",
}


def test_an_attempt_fits_a_persons_terminal_and_keeps_its_fields_for_a_program(stream: io.StringIO) -> None:
    logs.configure("console", "info", stream)
    structlog.get_logger().info("webhook.attempt", **ATTEMPT)
    structlog.get_logger().info("webhook.attempt", **{**ATTEMPT, "status": 204, "next_at": None})
    first, second = stream.getvalue().splitlines()
    assert first.endswith("webhook.attempt payment.created connection_refused, attempt 3, next at 22:13:20")
    assert second.rstrip().endswith("webhook.attempt payment.created 204, attempt 3")
    logs.configure("json", "info", stream)
    structlog.get_logger().info("webhook.attempt", **ATTEMPT)
    assert logged_last(stream).items() >= ATTEMPT.items()


def logged_last(stream: io.StringIO) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(stream.getvalue().splitlines()[-1])
    return made


def test_a_person_is_told_by_the_banner_that_the_server_is_ready(stream: io.StringIO) -> None:
    logs.configure("console", "info", stream)
    structlog.get_logger().info("server.ready", url="http://127.0.0.1:8420")
    assert stream.getvalue() == ""


def test_events_below_the_level_are_left_out(stream: io.StringIO) -> None:
    logs.configure("json", "warning", stream)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [event["event"] for event in logged(stream)] == ["loud"]


def test_libraries_log_in_the_same_form_and_only_what_matters(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    logging.getLogger("hypercorn.error").info("Running on …")
    logging.getLogger("hypercorn.error").warning("lost %s", API_KEY)
    [event] = logged(stream)
    assert event["level"] == "warning"
    assert event["event"] == f"lost {logs.REDACTED}"


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "Api-Key", "apikey", "secret", "webhook_secret", "secrets", "signature"),
        *(
            "webhook-signature",
            "Authorization",
            "password",
            "token",
            "metrics_token",
            "cookie",
            "private_key",
        ),
    ],
)
def test_a_value_under_a_secret_name_is_redacted_whatever_it_is(stream: io.StringIO, name: str) -> None:
    logs.configure("json", "info", stream)
    structlog.get_logger().info("x", **{name: "abc"}, nested={"deep": [{name: ["abc"]}]})
    assert "abc" not in stream.getvalue()
    assert logs.REDACTED in stream.getvalue()


@pytest.mark.parametrize("secret", [API_KEY, "svc_" + "0a" * 26, WEBHOOK_SECRET])
@pytest.mark.parametrize("renderer", ["json", "console"])
def test_a_secret_is_found_by_its_looks_wherever_it_stands(
    stream: io.StringIO, secret: str, renderer: str
) -> None:
    logs.configure(renderer, "info", stream)
    log = structlog.get_logger().bind(bound=f"<{secret}>")
    log.info(
        f"event {secret}", text=secret, items=[(secret,)], mapping={"k": {secret}}, thing=ValueError(secret)
    )
    try:
        raise RuntimeError(f"with {secret}")
    except RuntimeError:
        log.exception("crashed")
    assert secret[-12:] not in stream.getvalue()
    assert "RuntimeError" in stream.getvalue()


def test_a_prefix_and_the_last_four_characters_may_be_shown(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    structlog.get_logger().info("key.create", prefix="svc_test_", last4="x7k2", key_id="key_01")
    [event] = logged(stream)
    assert (event["prefix"], event["last4"], event["key_id"]) == ("svc_test_", "x7k2", "key_01")


def test_bytes_are_counted_not_shown(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    structlog.get_logger().info("x", body=WEBHOOK_SECRET.encode())
    assert logged(stream)[0]["body"] == f"<{len(WEBHOOK_SECRET)} bytes>"


def test_a_huge_value_is_cut(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)
    structlog.get_logger().info("x", text="a" * 100_000)
    assert len(stream.getvalue()) < 2 * logs.TEXT_MAX


def test_a_log_whose_reader_is_gone_stops_nobody() -> None:
    tries = []

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            tries.append(text)
            raise BrokenPipeError

    logs.configure("json", "info", Gone())
    structlog.get_logger().info("nobody reads this")
    logging.getLogger("library").warning("nor this")
    assert len(tries) >= 2


def test_a_reader_that_stalls_holds_nobody_up_and_is_told_what_it_missed() -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream:
        logs.configure("json", "info", stream)
        log = structlog.get_logger()
        for n in range(1000):
            log.info("counted", n=n, text="x" * 1000)
        with open(reading, "rb", buffering=0) as reader:
            read = reader.read(2**20)
            # The line that was being written when there was no more room goes on where it ended.
            log.info("again")
            read += reader.read(2**20)

    shown = [json.loads(line) for line in read.splitlines()]
    *before, missed, last = shown
    assert [one["n"] for one in before] == list(range(len(before)))
    assert (missed["event"], missed["lines"]) == ("log.lines_lost", 1000 - len(before))
    assert last["event"] == "again"


def test_a_line_that_another_writer_leaves_no_room_for_is_finished_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as a parent may have it
    real, pieces = select.poll, iter([False, True])

    class Poll:
        """As the system's; another process fills the pipe between this look and the write after it."""

        def __init__(self) -> None:
            self._poll = real()
            self.register = self._poll.register

        def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
            found = self._poll.poll(timeout_ms)
            if next(pieces, False):
                with suppress(BlockingIOError):
                    while True:
                        os.write(writing, b"\xff" * select.PIPE_BUF)
            return found

    monkeypatch.setattr(select, "poll", Poll)
    with open(writing, "w", encoding="utf-8") as stream, open(reading, "rb", buffering=0) as reader:
        logs.configure("json", "info", stream)
        log = structlog.get_logger()
        log.info("long", text="x" * 5000)
        log.info("lost")
        read = reader.read(2**20)
        log.info("again")
        read += reader.read(2**20)

    long, missed, again = [json.loads(line) for line in read.replace(b"\xff", b"").splitlines()]
    assert (long["event"], len(long["text"]), again["event"]) == ("long", 5000, "again")
    assert (missed["event"], missed["lines"]) == ("log.lines_lost", 1)


def test_after_a_reader_that_left_in_a_line_the_next_one_finds_lines_and_how_many_are_missing(
    tmp_path: Path,
) -> None:
    place = tmp_path / "log"
    os.mkfifo(place)
    first = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    with open(place, "w", encoding="utf-8") as stream:
        logs.configure("json", "info", stream)
        log = structlog.get_logger()
        log.info("long", **{f"text{n}": "x" * 8000 for n in range(20)})  # more than a pipe holds
        os.close(first)
        log.info("nobody reads this")
        with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as second:
            read = second.read(2**20)
            log.info("again")
            read += second.read(2**20)

    half, *lines = read.splitlines()
    assert half.startswith(b'{"text0":') or b'"long"' in half
    missed, again = map(json.loads, lines)
    assert (missed["event"], missed["lines"], again["event"]) == ("log.lines_lost", 2, "again")


def test_a_stranger_does_not_steer_a_terminal(stream: io.StringIO) -> None:
    logs.configure("console", "info", stream)
    structlog.get_logger().error("odd\x1b[2J", path="/\x1b]0;owned\x07", nested=["\x9b2J"])
    logging.getLogger("library").error("\x1b[31m")
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert not set(stream.getvalue()) & set("\x1b\x07\x9b")
    assert "/\\x1b]0;owned\\x07" in stream.getvalue()
