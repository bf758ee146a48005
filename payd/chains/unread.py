"""What a node said did not hold together: nothing of it counts.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from payd.chains.rpc_errors import RpcError


class Unread(Exception):
    """What the node said does not hold together, or something is missing: nothing was learnt.

    Attributes:
        tx_id: The transaction that stands in the way, if it is a single one.
    """

    def __init__(self, words: str, tx_id: str | None = None) -> None:
        super().__init__(words)
        self.tx_id = tx_id


class Contradicted(Unread):
    """What it said holds together, and is not what another node said: nobody knows which is right."""


def good(result: object) -> object:
    """A result that is no error.

    Raises:
        Unread: It is one.
    """
    if isinstance(result, RpcError):
        raise Unread(f"the node cannot answer: {result}")
    return result
