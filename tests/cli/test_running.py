"""What a demo asks of the running server, takes back, and does when it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from payd.cli.failure import Refused
from payd.cli.running import base_url_of, do, endings, interruptible, undo
from payd.config import Config
from tests.cli.test_serve import serving
from tests.terminal import Terminal

ROOT = Path(__file__).parents[2]

WAITS = """
import trio
from payd.cli.running import interruptible

async def work():
    try:
        print("waits", flush=True)
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
            print("took it back", flush=True)

try:
    with interruptible():
        trio.run(work)
except KeyboardInterrupt:
    pass
"""


async def test_where_no_server_runs_there_is_no_address(tmp_path: Path) -> None:
    assert await base_url_of(tmp_path) is None


@pytest.mark.real_time
async def test_the_running_server_makes_things_and_takes_them_back_even_when_cancelled(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(ROOT))
    config = Config(data_dir=payd.folder / "data")
    with serving(payd.folder) as (_, base_url):
        assert await base_url_of(config.data_dir) == base_url
        of = {"mode": "test", "account": (await do(config, "account.create", {"name": "shop"}))["id"]}
        key = await do(config, "key.create", of)
        with trio.CancelScope() as scope:
            scope.cancel()
            await undo(config, "key.revoke", {**of, "id": key["id"]})
        [revoked] = await do(config, "key.list", of)
        assert revoked["revokedAt"] is not None
        with pytest.raises(Refused, match=r"^webhook\.show: .* Or try this\.$"):
            await do(config, "webhook.show", of, " Or try this.")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True])
def test_told_to_end_it_ends_as_with_ctrl_c_and_finishes_what_it_must(ignored: bool, number: int) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else signal.getsignal(signal.SIGINT)
    finished = []

    async def work() -> None:
        try:
            signal.raise_signal(number)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
                finished.append("all")

    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            trio.run(work)
        assert finished == ["all"]
        assert (signal.getsignal(signal.SIGINT) is signal.SIG_IGN) == ignored
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_to_outlive_its_terminal_does() -> None:
    """As `nohup` has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
        assert endings() == (signal.SIGINT, signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert endings() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.real_time
def test_told_to_end_while_it_waits_it_finishes_what_it_must(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WAITS)
    command = [sys.executable, str(program)]
    env = {**os.environ, "PYTHONPATH": os.fspath(ROOT)}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        assert waiting.stdout.readline() == "waits\n"
        waiting.terminate()
        assert waiting.stdout.read() == "took it back\n"
        assert waiting.stderr.read() == ""
