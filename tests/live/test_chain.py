"""The contracts on the local chain are like the ones that they stand for."""

from __future__ import annotations

import pytest
from eth_account.messages import encode_typed_data

from tests.live.anvil import Anvil, Refused
from tests.live.chain import (
    BUYER,
    DEPLOYER,
    FIRST_CONTRACT,
    MERCHANT,
    MULTICALL3,
    STRANGER,
    LocalChain,
    account,
    address,
    calldata,
    types_in,
)

pytestmark = pytest.mark.real_time

BASE_USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
VRS = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
AUTHORIZATION = [
    {"name": name, "type": kind}
    for name, kind in [
        ("from", "address"),
        ("to", "address"),
        ("value", "uint256"),
        ("validAfter", "uint256"),
        ("validBefore", "uint256"),
        ("nonce", "bytes32"),
    ]
]
DOMAIN = [
    {"name": name, "type": kind}
    for name, kind in [
        ("name", "string"),
        ("version", "string"),
        ("chainId", "uint256"),
        ("verifyingContract", "address"),
    ]
]


async def authorized(chain: LocalChain, token: str, value: int, nonce: bytes) -> bytes:
    """The calldata of the buyer's signed authorization for the merchant."""
    until_s = await chain.now_s() + 900
    message = {
        "from": address(BUYER),
        "to": address(MERCHANT),
        "value": value,
        "validAfter": 0,
        "validBefore": until_s,
        "nonce": nonce,
    }
    typed = {
        "types": {"EIP712Domain": DOMAIN, "TransferWithAuthorization": AUTHORIZATION},
        "primaryType": "TransferWithAuthorization",
        "domain": {
            "name": "USD Coin",
            "version": "2",
            "chainId": chain.anvil.chain_id,
            "verifyingContract": token,
        },
        "message": message,
    }
    signature = bytes(account(BUYER).sign_message(encode_typed_data(full_message=typed)).signature)
    return calldata(VRS, *message.values(), signature[64], signature[:32], signature[32:64])


def test_types_of_a_signature_may_be_nested() -> None:
    assert types_in("f()") == []
    assert types_in("f(address,(uint256,bool)[],bytes32)") == ["address", "(uint256,bool)[]", "bytes32"]


async def test_the_first_contract_of_the_deployer_has_a_known_address(chain: LocalChain) -> None:
    assert await chain.token() == FIRST_CONTRACT


async def test_a_signed_authorization_moves_the_token_once(chain: LocalChain) -> None:
    token = await chain.token()
    await chain.mint(token, address(BUYER), 1000)
    call = await authorized(chain, token, 300, b"\x01" * 32)

    await chain.done(account(STRANGER), token, call)

    assert await chain.balance(token, address(MERCHANT)) == 300
    with pytest.raises(Refused, match="used or canceled"):
        await chain.rpc("eth_call", {"to": token, "data": "0x" + call.hex()}, "latest")


async def test_a_quiet_token_takes_a_used_authorization_without_a_word(chain: LocalChain) -> None:
    token = await chain.token()
    await chain.mint(token, address(BUYER), 1000)
    await chain.done(account(DEPLOYER), token, calldata("setQuiet(bool)", True))
    call = await authorized(chain, token, 300, b"\x01" * 32)
    await chain.done(account(STRANGER), token, call)

    again = await chain.done(account(STRANGER), token, call)

    assert again["status"] == "0x1"
    assert len(again["logs"]) == 1
    assert await chain.balance(token, address(MERCHANT)) == 300


async def test_a_token_that_skims_shows_what_arrived(chain: LocalChain) -> None:
    token = await chain.token()
    await chain.mint(token, address(BUYER), 1000)
    await chain.done(account(DEPLOYER), token, calldata("setSkim(uint256)", 100))

    receipt = await chain.done(
        account(BUYER), token, calldata("transfer(address,uint256)", address(MERCHANT), 1000)
    )

    assert int(receipt["logs"][0]["data"], 16) == 990


async def test_a_token_can_stand_where_a_real_one_is(chain: LocalChain) -> None:
    token = await chain.token_at(BASE_USDC)
    await chain.mint(token, address(BUYER), 5)

    assert await chain.balance(token, address(BUYER)) == 5
    assert await chain.view(token, ["string"], "name()") == ("USD Coin",)


async def test_multicall_reads_balances_and_acts_all_or_nothing(chain: LocalChain) -> None:
    await chain.place("Multicall3", MULTICALL3)
    token = await chain.token()
    await chain.mint(token, MULTICALL3, 10)
    [held] = await chain.view(MULTICALL3, ["uint256"], "getEthBalance(address)", address(BUYER))
    transfer = calldata("transfer(address,uint256)", address(MERCHANT), 6)
    twice = calldata("aggregate3((address,bool,bytes)[])", [(token, False, transfer)] * 2)

    with pytest.raises(Refused, match="call failed"):
        await chain.rpc("eth_call", {"to": MULTICALL3, "data": "0x" + twice.hex()}, "latest")

    assert held == 10_000 * 10**18


async def test_a_contract_wallet_takes_coins_and_no_data(chain: LocalChain) -> None:
    wallet = await chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    await chain.done(account(BUYER), wallet, value=10)

    with pytest.raises(Refused, match="revert"):
        await chain.rpc("eth_estimateGas", {"to": wallet, "value": "0x1", "data": "0x" + "ab" * 32})


async def test_a_factory_makes_a_wallet_where_it_said(chain: LocalChain) -> None:
    factory = await chain.deploy("WalletFactory")
    salt = b"\x07" * 32
    [there] = await chain.view(factory, ["address"], "predict(address,bytes32)", address(BUYER), salt)

    await chain.done(account(STRANGER), factory, calldata("deploy(address,bytes32)", address(BUYER), salt))

    [owner] = await chain.view(there, ["address"], "owner()")
    assert owner == address(BUYER).lower()


async def test_a_feed_says_what_it_is_of_and_its_price(chain: LocalChain) -> None:
    feed = await chain.deploy("Feed", ["uint8", "string"], [8, "EUR / USD"])
    await chain.done(account(DEPLOYER), feed, calldata("set(int256,uint256)", 108_250_000, 1_700_000_000))

    types = ["uint80", "int256", "uint256", "uint256", "uint80"]
    assert await chain.view(feed, types, "latestRoundData()") == (
        1,
        108_250_000,
        1_700_000_000,
        1_700_000_000,
        1,
    )
    assert await chain.view(feed, ["string"], "description()") == ("EUR / USD",)
    assert await chain.view(feed, ["uint8"], "decimals()") == (8,)


async def test_a_reorg_can_put_another_transaction_in_place(chain: LocalChain, anvil: Anvil) -> None:
    nonce = int(await chain.rpc("eth_getTransactionCount", address(BUYER), "latest"), 16)
    first = await chain.done(account(BUYER), address(MERCHANT), value=1)
    other = await chain.signed(account(BUYER), address(STRANGER), value=2, nonce=nonce)

    await chain.reorg(1, [(other, 0)])

    assert await chain.rpc("eth_getTransactionReceipt", first["transactionHash"]) is None
    assert int(anvil.ask("eth_getBalance", address(STRANGER), "latest"), 16) == 10_000 * 10**18 + 2
