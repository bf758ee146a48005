"""The signed authorizations in a call that the relayer carries: which were used already, and what is left.

A call is one `transferWithAuthorization`, or several in one `aggregate3` of which all succeed or none.
Anybody who sees it can submit any of its authorizations alone, so each is looked at by itself.

Source: DESIGN.md, "10. Live realm"; EIP-3009.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from payd.chains.evm.abi import (
    MULTICALL3,
    Call,
    aggregate3_call,
    authorization_state_call,
    decode_bool,
)
from payd.chains.evm.codec import from_data, keccak256, to_data
from payd.chains.rpc import Call as NodeCall
from payd.chains.rpc import NodesDown, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.witnesses import WITNESSES, heard

_AUTHORIZATION: Final = "address,address,uint256,uint256,uint256,bytes32"
# Both forms of EIP-3009 begin with the same six words; the first and the last of them name the authorization.
_TRANSFERS: Final = frozenset(
    keccak256(f"transferWithAuthorization({_AUTHORIZATION},{signature})".encode())[:4]
    for signature in ("uint8,bytes32,bytes32", "bytes")
)
_AGGREGATE3: Final = keccak256(b"aggregate3((address,bool,bytes)[])")[:4]
_SELECTOR_BYTES: Final = 4


class Leg(NamedTuple):
    """One authorization and the call that carries it out. Addresses in lower case, `nonce` of 32 bytes."""

    token: str
    data: bytes
    authorizer: str
    nonce: bytes


def legs_of(target: str, data: bytes) -> tuple[Leg, ...]:
    """The authorizations in a call; none where it is of another kind, or has anything else in it."""
    token = target.lower()
    if data[:_SELECTOR_BYTES] in _TRANSFERS:
        leg = _leg(token, data)
        return () if leg is None else (leg,)
    if token != MULTICALL3 or data[:_SELECTOR_BYTES] != _AGGREGATE3:
        return ()
    try:
        [rows] = decode(["(address,bool,bytes)[]"], data[_SELECTOR_BYTES:])
    except DecodingError:
        return ()
    legs = [_leg(inner.lower(), inner_data) for inner, _, inner_data in rows]
    whole = tuple(leg for leg in legs if leg is not None)
    return whole if len(whole) == len(legs) else ()


def call_of(legs: Sequence[Leg]) -> tuple[str, bytes]:
    """Target and calldata that carry out all of them, or none."""
    if len(legs) == 1:
        return legs[0].token, legs[0].data
    return MULTICALL3, aggregate3_call([Call(leg.token, leg.data, may_fail=False) for leg in legs])


def state_read(leg: Leg) -> NodeCall:
    """The call of a node that says whether an authorization was used or cancelled."""
    asked = {"to": leg.token, "data": to_data(authorization_state_call(leg.authorizer, leg.nonce))}
    return ("eth_call", asked, "latest")


def is_used(answer: object) -> bool:
    """What a node said to `state_read`.

    Raises:
        BadAnswer: Neither yes nor no.
    """
    return decode_bool(from_data(answer, "authorizationState"))


async def all_are_used(rpc: Rpc, legs: Sequence[Leg]) -> bool:
    """Whether each of them was used or cancelled, by the word of two nodes; of one while others are away.

    Raises:
        NodesDown: None gave an answer.
    """
    said = await heard(rpc, [state_read(leg) for leg in legs], lambda results: all(map(says_used, results)))
    if not said:
        raise NodesDown("no node says whether an authorization was used")
    return sum(said) >= min(WITNESSES, len(said))


def says_used(result: object) -> bool:
    """Whether a node says to `state_read` that an authorization was used; not if it does not say."""
    try:
        return not isinstance(result, RpcError) and is_used(result)
    except BadAnswer:
        return False


def _leg(token: str, data: bytes) -> Leg | None:
    if data[:_SELECTOR_BYTES] not in _TRANSFERS:
        return None
    try:
        authorizer, *_, nonce = decode(_AUTHORIZATION.split(","), data[_SELECTOR_BYTES:])
    except DecodingError:
        return None
    return Leg(token, data, authorizer, nonce)
