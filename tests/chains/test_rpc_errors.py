"""An error is what a node said, and whether a contract said it."""

from __future__ import annotations

from payd.chains.rpc_errors import RpcError


def test_only_a_revert_speaks_of_a_call_itself() -> None:
    assert RpcError(3, "execution reverted: paused").is_revert
    assert RpcError(-32015, "VM execution error.", "Reverted 0x").is_revert
    assert not RpcError(-32000, "header not found", kind="cannot").is_revert
    assert str(RpcError(3, "execution reverted: paused")) == "execution reverted: paused (3)"
    assert not RpcError(-32015, "gateway timeout", kind="cannot").is_revert
