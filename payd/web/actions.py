"""A wallet's actions in the words of each API version: flat, or nested in the preview.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Any

import msgspec

from payd.core.option import Action, Build
from payd.core.version import is_preview


class ActionOut(msgspec.Struct, frozen=True, tag_field="type", tag=""):
    """One thing that a wallet has to do; they are done in their order."""


class WalletRpcFlat(ActionOut, frozen=True, tag="walletRpc"):
    """One call for the wallet to make; `params` is the JSON text of its parameters."""

    chain_id: str
    method: str
    params: str


class BuildFlat(ActionOut, frozen=True, tag="build"):
    """Nothing that a wallet can do: to be resolved by `fetch` with its `data`."""

    data: str


class WalletCall(msgspec.Struct, frozen=True):
    """A call of a wallet: on which chain, what, and with which parameters."""

    chain_id: str
    method: str
    params: list[Any]


class BuildData(msgspec.Struct, frozen=True):
    """What `fetch` resolves."""

    data: str


class WalletRpcNested(ActionOut, frozen=True, tag="walletRpc"):
    """One call for the wallet to make."""

    data: WalletCall


class BuildNested(ActionOut, frozen=True, tag="build"):
    """Nothing that a wallet can do: to be resolved by `fetch` with its `data`."""

    data: BuildData


def actions_of(version: str) -> tuple[type[ActionOut], type[ActionOut]]:
    """What an action can be in an API version: a call of the wallet, or one to be built."""
    return (WalletRpcNested, BuildNested) if is_preview(version) else (WalletRpcFlat, BuildFlat)


def render_action(version: str, action: Action) -> ActionOut:
    """An action as an API version has it."""
    if isinstance(action, Build):
        return BuildNested(BuildData(action.data)) if is_preview(version) else BuildFlat(action.data)
    if is_preview(version):
        return WalletRpcNested(WalletCall(action.chain_id, action.method, action.params))
    return WalletRpcFlat(action.chain_id, action.method, msgspec.json.encode(action.params).decode())
