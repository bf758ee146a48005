"""What a new user waits for: from `git clone` to a paid test payment, with the README's shop on Flask.

The commands are the README's. What a person does between them (reads, types, presses a button) takes no time
here, so that the figures are the machine's part alone, with whatever its network makes of the downloads.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.bench.table import Line
from tests.contract.outside import until
from tests.receivers.shops import free_ports, shop_blocks
from tests.test_readme import LAST_PRINTED, ROOT

HEADER: Final = ("what", "s", "s since the clone began")
NOTES: Final = """\
- Both environments are new, and pip has kept nothing: every library is downloaded.
- **Paid** is when the shop shows its order as paid: it has verified the webhook and stored what it says."""
PATIENCE_S: Final = 60.0


class Watch:
    """How long each step took."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.lines: list[Line] = []
        self._say = say
        self._began_s = self._last_s = time.monotonic()

    def done(self, step: str) -> None:
        """A step is over; the next one begins."""
        self._say(step)
        now_s = time.monotonic()
        self.lines.append((step, f"{now_s - self._last_s:.1f}", f"{now_s - self._began_s:.1f}"))
        self._last_s = now_s


def first_lines(folder: Path, say: Callable[[str], None]) -> list[Line]:
    """Walk the README once, in an empty folder."""
    server_port, shop_port = free_ports(2)
    home = folder / "payd"
    watch = Watch(say)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home)], check=True)
    watch.done("`git clone`")

    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
    with started(["scripts/run", "--listen", f"127.0.0.1:{server_port}"], home, environment) as server:
        said = read_until(LAST_PRINTED, server)
        watch.done("`scripts/run`, until it serves")

        payd = home / ".venv" / "bin" / "payd"
        hook = f"http://127.0.0.1:{shop_port}/webhook"
        told(home, payd, "webhook", "set", "--mode", "test", "--url", hook)
        secret = told(home, payd, "webhook", "reveal", "--mode", "test")
        watch.done("`payd webhook set` and `reveal`")

        [commands] = [block.text for block in shop_blocks() if block.tag == "sh"]
        *furnish, serve = commands.replace("~/shop", str(folder / "shop")).strip().splitlines()
        subprocess.run(
            ["bash", "-ec", "\n".join(furnish)],
            cwd=home,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        watch.done("the shop's environment")

        api = f"http://127.0.0.1:{server_port}"
        [key], [merchant_id] = ({*re.findall(each, said)} for each in (r"svc_test_\w+", r"mrch_\w+"))
        names = {"API": api, "API_KEY": key, "MERCHANT_ID": merchant_id, "WEBHOOK_SECRET": secret}
        mine = environment | {f"PAYD_{name}": value for name, value in names.items()}
        with started(["bash", "-c", serve.replace("5000", str(shop_port))], home, mine):
            shop = f"http://127.0.0.1:{shop_port}"
            until(lambda: is_there(shop), timeout_s=PATIENCE_S)
            watch.done("the shop, until it answers")
            buy_and_pay(shop, api, key)
            watch.done("bought, paid, told and verified")
    return watch.lines


def buy_and_pay(shop: str, api: str, key: str) -> None:
    """Press Buy in the shop and Approve on the payment's page; back when the shop shows that it is paid."""
    bought = httpx.post(f"{shop}/buy")
    payment_id = bought.headers["location"].rpartition("/")[2]
    pressed = httpx.post(
        f"{api}/v1/test/payments/{payment_id}/simulate", headers={"Api-Key": key}, json={"to": "succeeded"}
    )
    pressed.raise_for_status()
    until(lambda: ": paid" in httpx.get(shop).text, timeout_s=PATIENCE_S)


def is_there(url: str) -> bool:
    """Whether somebody answers."""
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def told(folder: Path, *command: str | Path) -> str:
    """What a command prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def started(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A server with all that it starts; ended afterwards."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def read_until(last: str, process: subprocess.Popen[str]) -> str:
    """What a server prints, up to and with the line that has this."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if last in line:
            return said
    raise RuntimeError(f"{shlex.join(map(str, process.args))} ended: {said}")  # type: ignore[arg-type]
