"""What a demo asks of the running server, takes back, and does when it is told to end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from payd.cli.failure import Refused
from payd.cli.running import base_url_of, do, interruptible, undo
from payd.config import Config
from tests.cli.test_serve import serving
from tests.terminal import Terminal


async def test_where_no_server_runs_there_is_no_address(tmp_path: Path) -> None:
    assert await base_url_of(tmp_path) is None


@pytest.mark.real_time
async def test_the_running_server_makes_things_and_takes_them_back_even_when_cancelled(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(Path(__file__).parents[2]))
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


def test_told_to_end_it_ends_as_with_ctrl_c_and_only_as_long_as_it_works() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
