"""The authorizations in a call of the relayer."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.authorization import Authorization, TokenDomain, transfer_with_authorization_call
from payd.chains.evm.codec import to_data
from payd.chains.evm.legs import Leg, all_are_used, call_of, is_used, legs_of, state_read
from payd.chains.rpc import NodesDown
from payd.chains.rpc_errors import BadAnswer
from tests.chains.rpc_node import FakeNode, Says, open_rpc

TOKEN = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
TOKEN_CHECKSUMMED = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
BUYER = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
MERCHANT = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
YES, NO = to_data(bytes(31) + b"\1"), to_data(bytes(32))


def signed(nonce: bytes = b"\7" * 32, signature: bytes = bytes(64) + b"\x1b") -> bytes:
    """Calldata of an authorization."""
    domain = TokenDomain("USD Coin", "2", 8453, TOKEN)
    return transfer_with_authorization_call(
        Authorization(domain, BUYER, MERCHANT, 5, 9_000, nonce), signature
    )


def both(*datas: bytes) -> bytes:
    """Calldata of all of them or none."""
    return aggregate3_call([Call(TOKEN, data, may_fail=False) for data in datas])


@pytest.mark.parametrize("signature", [bytes(64) + b"\x1b", b"a smart wallet's own" * 9])
def test_a_single_authorization_is_found_in_both_forms_of_the_call(signature: bytes) -> None:
    data = signed(signature=signature)
    assert legs_of(TOKEN_CHECKSUMMED, data) == (Leg(TOKEN, data, BUYER, b"\7" * 32),)


def test_the_selectors_are_those_of_eip_3009() -> None:
    words = "address,address,uint256,uint256,uint256,bytes32"
    for kinds, values in (
        (["uint8", "bytes32", "bytes32"], [27, b"\1" * 32, b"\2" * 32]),
        (["bytes"], [b"any"]),
    ):
        selector = keccak(text=f"transferWithAuthorization({words},{','.join(kinds)})")[:4]
        arguments = encode([*words.split(","), *kinds], [BUYER, MERCHANT, 1, 0, 2, b"\3" * 32, *values])
        [leg] = legs_of(TOKEN, selector + arguments)
        assert (leg.authorizer, leg.nonce) == (BUYER, b"\3" * 32)


def test_each_authorization_of_an_aggregate_is_found_in_order() -> None:
    first, second = signed(b"\1" * 32), signed(b"\2" * 32)
    legs = legs_of("0xcA11bde05977b3631167028862bE2a173976CA11", both(first, second))
    assert [(leg.token, leg.data, leg.nonce) for leg in legs] == [
        (TOKEN, first, b"\1" * 32),
        (TOKEN, second, b"\2" * 32),
    ]


@pytest.mark.parametrize(
    ("target", "data"),
    [
        (TOKEN, b""),
        (TOKEN, bytes.fromhex("a9059cbb") + bytes(64)),
        (TOKEN, signed()[:100]),
        (TOKEN, both(signed())),
        (MULTICALL3, both(signed(), b"\xa9\x05\x9c\xbb")),
        (MULTICALL3, both(signed())[:90]),
        (MULTICALL3, b"\x01\x02\x03\x04"),
    ],
)
def test_a_call_of_another_kind_has_none(target: str, data: bytes) -> None:
    assert legs_of(target, data) == ()


@given(st.binary(max_size=300), st.sampled_from([TOKEN, MULTICALL3]))
def test_no_bytes_make_it_fail(junk: bytes, target: str) -> None:
    for data in (junk, signed()[:4] + junk, both(signed())[:4] + junk, both(signed())[:100] + junk):
        assert isinstance(legs_of(target, data), tuple)


def test_what_is_left_of_a_call_is_a_call() -> None:
    first, second = signed(b"\1" * 32), signed(b"\2" * 32)
    legs = legs_of(MULTICALL3, both(first, second))
    assert call_of(legs) == (MULTICALL3, both(first, second))
    assert call_of(legs[1:]) == (TOKEN, second)


def test_a_state_is_read_from_the_token() -> None:
    [leg] = legs_of(TOKEN, signed())
    selector = keccak(text="authorizationState(address,bytes32)")[:4]
    data = to_data(selector + encode(["address", "bytes32"], [BUYER, b"\7" * 32]))
    assert state_read(leg) == ("eth_call", {"to": TOKEN, "data": data}, "latest")
    assert is_used(YES)
    assert not is_used(NO)
    with pytest.raises(BadAnswer):
        is_used("0x")


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ((YES, YES), True),
        ((YES, NO), False),
        ((NO, YES), False),
        ((YES, "0x"), False),
        ((YES, Says(3, "execution reverted")), False),
    ],
)
async def test_an_authorization_is_used_when_all_nodes_say_so(
    said: tuple[object, object], used: bool
) -> None:
    nodes = [FakeNode({"eth_call": one}) for one in said]
    async with open_rpc(*nodes) as rpc:
        assert await all_are_used(rpc, legs_of(TOKEN, signed())) == used


async def test_of_many_nodes_two_are_asked() -> None:
    nodes = [FakeNode({"eth_call": YES}) for _ in range(3)]
    async with open_rpc(*nodes) as rpc:
        assert await all_are_used(rpc, legs_of(TOKEN, signed()))
        assert [node.count("eth_call") for node in nodes] == [1, 1, 0]


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_of_three_nodes_two_say_what_was_used(liar: int) -> None:
    for honest, lie, used in ((YES, NO, True), (NO, YES, False)):
        nodes = [FakeNode({"eth_call": lie if place == liar else honest}) for place in range(3)]
        async with open_rpc(*nodes) as rpc:
            assert await all_are_used(rpc, legs_of(TOKEN, signed())) == used


async def test_a_silence_is_no_answer() -> None:
    async with open_rpc(FakeNode(does=None, chain_id=1)) as rpc:
        with pytest.raises(NodesDown):
            await all_are_used(rpc, legs_of(TOKEN, signed()))
