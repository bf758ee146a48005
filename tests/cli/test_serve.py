"""`payd serve` as a process: ready, with what a newcomer needs next; it stops in order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.terminal import Terminal
from tests.visitor import seat

pytestmark = pytest.mark.real_time

STOP_S = 20.0


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, and where it serves."""
    command = [sys.executable, "-m", "payd", "serve", "--listen", "127.0.0.1:0", *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "serves" in line, (folder / "log").read_text()
            yield process, line.split()[3]
        finally:
            process.kill()


def shell(line: str) -> str:
    return subprocess.run(shlex.split(line), capture_output=True, text=True, check=True, timeout=20).stdout


def read_until(process: subprocess.Popen[str], last: str) -> str:
    assert process.stdout is not None
    lines = []
    while last not in (line := process.stdout.readline()):
        assert line, "it ended first"
        lines.append(line)
    return "".join([*lines, line])


@pytest.fixture(autouse=True)
def _in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(Path(__file__).parents[2]))


def test_the_first_start_prints_a_key_once_a_line_that_works_as_pasted_and_a_link(payd: Terminal) -> None:
    with serving(payd.folder, "--demo") as (process, base_url):
        shown = read_until(process, "payd demo")
        assert shown.count("shown once") == 1
        [key] = re.findall(r"^  (svc_test_\w+)$", shown, re.M)
        [curl] = re.findall(r"^  (curl .+)$", shown, re.M)
        [link] = re.findall(rf"^  ({re.escape(base_url)}/\S+)$", shown, re.M)
        made = msgspec.json.decode(shell(curl))
        assert made["paymentId"].startswith("pay_t")
        assert made["gatewayUrl"].startswith(base_url)
        assert shell(f"curl -s -o /dev/null -w %{{http_code}} {link}") == "200"
        assert payd.json("key", "list")[0]["last4"] == key[-4:], "asked of the running server"
    with serving(payd.folder, "--demo") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert "svc_test_" not in process.stdout.read(), "never again"


def test_a_demo_gets_its_account_also_where_databases_were_left_without_one(payd: Terminal) -> None:
    with serving(payd.folder) as (process, _):
        assert "There is no account yet" in read_until(process, "account")
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
    with serving(payd.folder, "--demo") as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "\n", "not that there is no account"
        assert "Your API key for test mode" in process.stdout.readline()


def test_a_later_start_says_what_one_can_do(payd: Terminal) -> None:
    payd("init", "--data-dir", "here")
    with serving(payd.folder, "--data-dir", "here") as (process, _):
        shown = read_until(process, "Ctrl-C")
    assert re.fullmatch(
        r"Another key: \S*payd key create --data-dir here"
        r" · see it work: \S*payd demo --data-dir here · stop: Ctrl-C\n",
        shown,
    )


def test_a_reader_that_went_away_leaves_no_traceback(payd: Terminal) -> None:
    line = f"{shlex.quote(sys.executable)} -m payd demo | head -n 1"
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=payd.folder, capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (141, "")
    assert len(run.stdout.splitlines()) == 1


def test_commands_go_to_the_running_server_and_are_in_effect_at_once(payd: Terminal) -> None:
    payd("init")
    [merchant] = payd.json("merchant", "list")
    with serving(payd.folder) as (_, base_url):
        key = payd.json("key", "create")
        curl = f"curl -s -o /dev/null -w %{{http_code}} {base_url}/v1/merchants -H 'Api-Key: {key['apiKey']}'"
        assert shell(curl) == "200"
        payd("key", "revoke", key["id"])
        assert shell(curl) == "401"
        assert payd.json("merchant", "list") == [merchant]


def test_a_term_signal_stops_it_in_order(payd: Terminal) -> None:
    with serving(payd.folder) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
    assert not (payd.folder / "data/admin.sock").exists()
    assert "server.stopped" in (payd.folder / "log").read_text()


def test_an_empty_house_says_how_to_begin(payd: Terminal) -> None:
    with serving(payd.folder) as (process, _):
        assert "payd account create NAME" in read_until(process, "account")
    assert not (payd.folder / "data/payd.toml").exists(), (
        "webhooks stay closed unless somebody asked for a demo"
    )


def test_a_second_server_on_the_same_directory_ends_with_3(payd: Terminal) -> None:
    with serving(payd.folder):
        again = subprocess.run(
            [sys.executable, "-m", "payd", "serve", "--listen", "127.0.0.1:0"],
            cwd=payd.folder,
            capture_output=True,
            text=True,
            timeout=STOP_S,
        )
    assert again.returncode == 3
    assert "payd runs here already (process " in again.stderr
    assert "Traceback" not in again.stderr


def test_a_taken_address_is_said_in_a_line(payd: Terminal) -> None:
    with serving(payd.folder) as (_, base_url):
        again = subprocess.run(
            [
                *(sys.executable, "-m", "payd", "serve", "--demo"),
                *("--data-dir", "other", "--listen", base_url[7:]),
            ],
            cwd=payd.folder,
            capture_output=True,
            text=True,
            timeout=STOP_S,
        )
    assert again.returncode == 1
    assert "--listen HOST:PORT" in again.stderr
    assert "Traceback" not in again.stderr
    assert not (payd.folder / "other").exists(), "the next start is a first one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[webhooks.test]\nca_file = "nope.pem"\n', "ca_file in"),
        ('[webhooks.live]\nca_file = "nope.pem"\n', "ca_file in"),
        ('[webhooks]\nbind = ["203.0.113.7"]\n', "bind in [webhooks]"),
    ],
)
def test_what_deliveries_cannot_use_is_said_before_anything_is_made(
    payd: Terminal, text: str, said: str
) -> None:
    (payd.folder / "payd.toml").write_text(text)
    assert said in payd.error("serve", "--listen", "127.0.0.1:0")
    assert not (payd.folder / "data").exists()


def test_logs_are_json_where_nobody_sits_and_hold_no_secret(payd: Terminal) -> None:
    with serving(payd.folder, "--demo") as (process, base_url):
        shown = read_until(process, "payd demo")
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
    log = (payd.folder / "log").read_text()
    events = [msgspec.json.decode(line) for line in log.splitlines()]
    assert [event["url"] for event in events if event["event"] == "server.ready"] == [base_url]
    [key] = re.findall(r"^  (svc_test_\w+)$", shown, re.M)
    assert key not in log


def test_a_link_for_the_first_user_is_printed_at_each_start_until_there_is_one(payd: Terminal) -> None:
    account = payd.json("init")["accountId"]
    links = []
    for _ in range(2):
        with serving(payd.folder) as (process, base_url):
            printed = read_until(process, "/setup?token=")
            links.append(printed.split()[-1])
            assert links[-1].startswith(f"{base_url}/setup?token=")
    assert links[0].rpartition("=")[2] != links[1].rpartition("=")[2]
    seat(payd.folder / "data", account)
    with serving(payd.folder) as (process, base_url):
        assert "setup" not in read_until(process, f"Dashboard: {base_url}/")
