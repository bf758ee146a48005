"""A wallet's actions in the words of each API version."""

from __future__ import annotations

from typing import Any

import msgspec

from payd.core.option import Build, WalletRpc
from payd.core.version import DEFAULT, VERSIONS
from payd.web.actions import render_action

PREVIEW = VERSIONS[-1]


def wire(version: str, action: WalletRpc | Build) -> Any:
    return msgspec.json.decode(msgspec.json.encode(render_action(version, action)))


def test_a_build_action_is_flat_or_nested() -> None:
    assert wire(DEFAULT, Build("x")) == {"type": "build", "data": "x"}
    assert wire(PREVIEW, Build("x")) == {"type": "build", "data": {"data": "x"}}


def test_a_call_is_flat_with_its_parameters_as_text_or_nested_with_them_as_they_are() -> None:
    call = WalletRpc("eip155:8453", "eth_sendTransaction", [{"a": 1}])
    named = {"chain_id": "eip155:8453", "method": "eth_sendTransaction"}
    assert wire(DEFAULT, call) == {"type": "walletRpc", **named, "params": '[{"a":1}]'}
    assert wire(PREVIEW, call) == {"type": "walletRpc", "data": {**named, "params": [{"a": 1}]}}


def test_the_kind_of_an_action_comes_first() -> None:
    for version in VERSIONS:
        assert msgspec.json.encode(render_action(version, Build("x"))).startswith(b'{"type":"build"')
