"""Hypercorn is what payd takes it for: these are parts of it that nobody documents."""

from __future__ import annotations

import inspect
import re

import hypercorn.protocol
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from payd.web.hypercorn import Http1, hypercorn_config


def test_hypercorn_is_built_as_the_front_builds_it() -> None:
    assert list(inspect.signature(TCPServer).parameters) == ["app", "config", "context", "state", "stream"]
    assert list(inspect.signature(WorkerContext).parameters) == ["max_requests"]
    assert ConnectionState({"a": 1}) == {"a": 1}
    assert hypercorn.protocol.ProtocolWrapper.__init__.__globals__["H11Protocol"] is Http1
    assert inspect.iscoroutinefunction(H11Protocol._check_protocol)
    context = WorkerContext(None)
    assert not context.terminated.is_set()
    assert inspect.iscoroutinefunction(context.terminated.set)
    assert inspect.iscoroutinefunction(TCPServer.run)
    source = inspect.getsource(TCPServer)
    assert {"self.idle_task.restart(", "self.idle_task.stop()"} <= set(
        re.findall(r"self\.idle_task\.\w+\(\)?", source)
    )


def test_every_option_that_the_front_sets_exists() -> None:
    for name in vars(hypercorn_config()):
        assert name.startswith("_") or hasattr(Config, name), name
