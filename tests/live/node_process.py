"""A node of whatever chain as a process of its own: started, asked, ended."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

ROOT: Final = Path(__file__).parents[2]
START_MAX_S: Final = 30
ANSWER_MAX_S: Final = 30
END_MAX_S: Final = 60


class Refused(Exception):
    """The node answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class NodeProcess:
    """A node that runs.

    Attributes:
        url: For HTTP.
        ws_url: For websockets.
        process: To be stopped and continued by tests that want a node which hangs.
    """

    def __init__(self, port: int, ws_port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.ws_url = f"ws://127.0.0.1:{ws_port}"
        self.process = process

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one call, on a connection of its own. Blocks: it is a millisecond.

        Raises:
            Refused: The node answered with an error.
        """
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", "/", json.dumps(request), {"content-type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            error = answer["error"]
            raise Refused(error["code"], error["message"], error.get("data"))
        return answer["result"]

    async def rpc(self, method: str, *params: Any) -> Any:
        """As `ask`, for the middle of a Trio program."""
        await trio.lowlevel.checkpoint()
        return self.ask(method, *params)

    def kill(self) -> None:
        """End it at once, as a node that crashes."""
        self.process.kill()
        self.process.wait()


@contextmanager
def started(
    command: Sequence[str], listens: re.Pattern[str]
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process that listens, and its ports; ended with the block.

    Args:
        command: What to start.
        listens: What it prints then; its groups are the ports.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT
        )
        try:
            yield process, _listening(process, output.fileno(), listens)
        finally:
            process.terminate()
            _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Raises TimeoutExpired where it does not end by itself, instead of waiting for ever."""
    try:
        process.wait(END_MAX_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def _listening(process: subprocess.Popen[bytes], output: int, listens: re.Pattern[str]) -> list[int]:
    """The ports, once it listens."""
    gives_up_s = time.monotonic() + START_MAX_S
    while True:
        said = os.pread(output, 64 * 1024, 0).decode(errors="replace")
        found = listens.search(said)
        if found is not None:
            return [int(port) for port in found.groups()]
        if process.poll() is not None or time.monotonic() > gives_up_s:
            raise RuntimeError(f"the node did not start: {said[-2000:]}")
        time.sleep(0.002)
