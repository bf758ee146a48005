"""A real server process on a free port, for tests that need signals, sockets, files or a kill."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

READY_S: Final = 60.0
STOP_S: Final = 30.0


class Server:
    """One `payd serve`. Its log is beside its data directory.

    Args:
        folder: The data directory.
        env: More of its environment.
        cwd: Where it is started, which is where it looks for a payd.toml; None: where the tests are.
    """

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.folder = folder
        self.cwd = cwd
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._env = dict(env or {})
        self.log = folder.parent / f"{folder.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process."""
        assert self.process is not None
        return self.process.pid

    @property
    def env(self) -> dict[str, str]:
        """What makes `payd …` talk about this server."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PAYD_")}
        own = {
            "PAYD_DATA_DIR": str(self.folder),
            "PAYD_LISTEN": f"127.0.0.1:{self.port}",
            "PAYD_LOG_FORMAT": "json",
        }
        return plain | own | self._env

    def start(self) -> float:
        """Start it and wait until it answers; gives the seconds that took."""
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "payd", "serve"],
                cwd=self.cwd,
                env=self.env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        while time.monotonic() - begun < READY_S:
            if self.process.poll() is not None:
                break
            try:
                if self.get("/readyz")[0] == 200:
                    return time.monotonic() - begun
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"the server did not come up:\n{self.log.read_text()[-4000:]}")

    def stop(self) -> int:
        """Ask it to end, and give its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_S)

    def payd(self, *words: str) -> Any:
        """Run `payd …  --json` against this server and give what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "payd", *words, "--json"],
            env=self.env,
            capture_output=True,
            timeout=STOP_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def init(self) -> Any:
        """Have what `payd init` makes in its folder, and give what it printed: made once, and copied."""
        made, printed = _made()
        shutil.copytree(made.name, self.folder)
        return printed

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """One request on a connection of its own: status, decoded body, headers by lower-case name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STOP_S)
        try:
            data = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, data, sent | dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read()
            names = {name.lower(): value for name, value in answer.getheaders()}
            is_json = names.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(text) if text and is_json else text.decode(), names
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and body of a GET; header names with underscores."""
        status, body, _ = self.request(
            "GET", path, headers={n.replace("_", "-"): v for n, v in headers.items()}
        )
        return status, body


@cache
def _made() -> tuple[TemporaryDirectory[str], Any]:
    """A data directory and what `payd init` printed of it: a command takes as long as a server's start."""
    made = TemporaryDirectory()
    return made, Server(Path(made.name)).payd("init")


@contextmanager
def running_server(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server that answers, ended afterwards whatever happens."""
    server = Server(folder, env)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
