"""How a house under a seed reaches what is outside of it in the live realm: nodes, and who hears webhooks.

Nothing in payd is there for this: its clients dial what they are given. TLS, whose randomness no seed has, is
left to other tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
import trio

import payd.live
from payd.actors.poster import WebhookRules
from payd.chains.keystore import Unlocked
from payd.chains.rpc import Rpc
from payd.config import Config
from payd.server import webhook_rules
from tests.chains.rpc_node import urls as urls

_NETWORK: Final = "10.0.0."

DialNode = Callable[[int], Awaitable[trio.abc.Stream]]
"""Opens a connection to the node of that place."""


@contextmanager
def plain_webhooks() -> Iterator[None]:
    """Have live webhooks go without TLS."""

    def rules(*asked: Any) -> WebhookRules:
        return msgspec.structs.replace(webhook_rules(*asked), allow_http=True)

    with patch("payd.server.webhook_rules", rules):
        yield


@contextmanager
def relaying(key: bytes) -> Iterator[None]:
    """Have houses relay with this key, which no keystore holds: opening one takes a thread and its time."""
    opened = payd.live.open_chains

    def open_chains(*args: Any, **more: Any) -> Any:
        return opened(*args, **{**more, "relays": True})

    async def unlocked(_config: Config) -> Unlocked:
        await trio.lowlevel.checkpoint()
        return Unlocked(Path("relayer.json"), key, None)

    with patch("payd.live.open_chains", open_chains), patch("payd.live._unlocked", unlocked):
        yield


def connect(rpc: Rpc, dial_node: DialNode) -> None:
    """Have a chain's nodes, which are named as `urls` names them, reached by this."""
    client = rpc._own_client
    assert client is not None

    async def resolve(host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return [_NETWORK + host.removeprefix("node").removesuffix(".test")]

    async def dial(address: str, _port: int) -> trio.abc.Stream:
        return await dial_node(int(address.removeprefix(_NETWORK)))

    client.resolve, client.dial = resolve, dial
