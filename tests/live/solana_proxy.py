"""Nodes of Solana that fail or lie as a test tells them, and further nodes of a chain that there is.

What a node of Solana can be by itself (behind, forgetful, a censor) `SvmNode` has; here is what the network
and a liar add to it.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.live.proxy import Proxy, Request, Rewrite, serving
from tests.live.svm_ledger import Ledger
from tests.live.svm_methods import SvmNode


@dataclass
class SolanaProxy(Proxy):
    """A node of its own on a chain, behind a network that may fail.

    Attributes:
        node: To be made behind, forgetful, a censor.
    """

    node: SvmNode


@asynccontextmanager
async def open_solana_proxy(ledger: Ledger, **made: Any) -> AsyncIterator[SolanaProxy]:
    """Another node of this chain, good until it is told otherwise; in real time alone.

    Args:
        ledger: The chain.
        made: As for `SvmNode`.
    """
    async with serving(SolanaProxy(SvmNode(ledger, **made))) as proxy:
        yield proxy


def _in_transactions(change: Callable[[dict[str, Any]], None]) -> Rewrite:
    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getTransaction" or result is None:
            return result
        changed = copy.deepcopy(result)
        change(changed["meta"])
        return changed

    return rewrite


def with_err(err: Any) -> Rewrite:
    """Rewrites transactions: each failed with this, or succeeded."""

    def change(meta: dict[str, Any]) -> None:
        meta["err"] = err
        meta["status"] = {"Ok": None} if err is None else {"Err": err}

    return _in_transactions(change)


def with_more(amount: int) -> Rewrite:
    """Rewrites transactions: whoever got something got so much more."""

    def change(meta: dict[str, Any]) -> None:
        before = {one["accountIndex"]: _amount(one) for one in meta["preTokenBalances"]}
        for one in meta["postTokenBalances"]:
            if _amount(one) > before.get(one["accountIndex"], 0):
                one["uiTokenAmount"]["amount"] = str(_amount(one) + amount)
        pairs = zip(meta["preBalances"], meta["postBalances"], strict=True)
        meta["postBalances"] = [after + amount if after > was else after for was, after in pairs]

    return _in_transactions(change)


def with_owner(owner: str) -> Rewrite:
    """Rewrites transactions: all tokens in them are this wallet's."""

    def change(meta: dict[str, Any]) -> None:
        for one in (*meta["preTokenBalances"], *meta["postTokenBalances"]):
            one["owner"] = owner

    return _in_transactions(change)


def with_payer(payer: str, told: str) -> Rewrite:
    """Rewrites transactions: what one wallet paid in tokens another one did."""

    def change(meta: dict[str, Any]) -> None:
        for one in (*meta["preTokenBalances"], *meta["postTokenBalances"]):
            if one["owner"] == payer:
                one["owner"] = told

    return _in_transactions(change)


def with_level(commitment: str | None) -> Rewrite:
    """Rewrites statuses: each is this far; None: it knows of none."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getSignatureStatuses":
            return result
        if commitment is None:
            return {**result, "value": [None] * len(result["value"])}
        told: dict[str, Any] = {"confirmationStatus": commitment}
        told |= {"confirmations": None} if commitment == "finalized" else {}
        return {**result, "value": [one and {**one, **told} for one in result["value"]]}

    return rewrite


def _amount(balance: dict[str, Any]) -> int:
    return int(balance["uiTokenAmount"]["amount"])
