"""What a real node says of real transactions is read, and proves what they paid."""

from __future__ import annotations

import pytest
from eth_account.signers.local import LocalAccount
from eth_typing.evm import Hash32

from payd.chains.evm.abi import (
    Call,
    aggregate3_call,
    authorization_state_call,
    balance_of_call,
    decimals_call,
    decode_aggregate3,
    decode_bool,
    decode_text,
    decode_uint,
    decode_word,
    domain_separator_call,
    eth_balance_call,
    is_valid_signature_call,
)
from payd.chains.evm.answers import decode_block, decode_logs, decode_receipt, decode_transaction
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    authorization_digest,
    domain_separator,
    recover_authorizer,
    transfer_with_authorization_call,
)
from payd.chains.evm.binding import authorization_nonce, payment_tag, tagged_transfer, transfer_call
from payd.chains.evm.codec import from_data, to_data, to_quantity, word_of_address
from payd.chains.evm.events import AUTHORIZATION_USED, TRANSFER, decode_transfer
from payd.chains.evm.proof import BoundTransfer, Watched, candidate_bindings, paid_by
from payd.chains.evm.signer import Signer
from payd.core.caip import ChainId
from tests.live.anvil import CHAIN_ID, Refused
from tests.live.chain import (
    BUYER,
    MERCHANT,
    MULTICALL3,
    OPERATOR,
    RELAYER,
    STRANGER,
    LocalChain,
    account,
    calldata,
)

CHAIN = ChainId("eip155", str(CHAIN_ID))
COIN = f"{CHAIN}/slip44:60"
SHOP = account(MERCHANT).address.lower()
TAG, NONCE = payment_tag("pay_l1"), authorization_nonce("pay_l1")


@pytest.fixture
async def token(chain: LocalChain) -> str:
    """A token of which the buyer has plenty."""
    made = (await chain.token()).lower()
    await chain.mint(made, account(BUYER).address, 10**12)
    return made


def authorization(
    token: str, sender: str, to: str = SHOP, value: int = 500, leg_nonce: bytes = NONCE
) -> Authorization:
    domain = TokenDomain("USD Coin", "2", CHAIN_ID, token)
    return Authorization(domain, sender.lower(), to, value, 2**33, leg_nonce)


def signed(asked: Authorization, key: LocalAccount) -> bytes:
    return bytes(key.unsafe_sign_hash(Hash32(authorization_digest(asked))).signature)


async def proof(chain: LocalChain, tx_hash: str, token: str) -> tuple[BoundTransfer, ...]:
    """What the transaction paid, with everything known that could bind it and was handed out."""
    await chain.receipt(tx_hash)
    transaction = decode_transaction(await chain.rpc("eth_getTransactionByHash", tx_hash))
    receipt = decode_receipt(await chain.rpc("eth_getTransactionReceipt", tx_hash))
    assert transaction is not None
    assert receipt is not None
    operator = account(OPERATOR).address.lower()
    watched = Watched(frozenset({token}), frozenset({SHOP, operator}), COIN)
    ours = {TAG, NONCE, payment_tag("pay_l2"), authorization_nonce("pay_l1", "fee")}
    found = ours & set(candidate_bindings(CHAIN, transaction, receipt, watched))
    known = {(binding, asset) for binding in found for asset in (f"{CHAIN}/erc20:{token}", COIN)}
    return paid_by(CHAIN, transaction, receipt, watched, known)


async def call(chain: LocalChain, to: str, data: bytes) -> bytes:
    return from_data(await chain.rpc("eth_call", {"to": to, "data": to_data(data)}, "latest"))


async def test_a_tagged_transfer_of_a_wallet_is_proven(chain: LocalChain, token: str) -> None:
    sent = await chain.send_as(account(BUYER), token, tagged_transfer(SHOP, 500, TAG))
    [found] = await proof(chain, sent, token)
    assert (found.tx_id, found.log_index, found.value, found.binding) == (sent, 0, 500, TAG)
    assert found.recipient == f"{CHAIN}:{SHOP}"


async def test_a_tagged_coin_is_proven(chain: LocalChain, token: str) -> None:
    sent = await chain.send_as(account(BUYER), SHOP, TAG, 10**15)
    [found] = await proof(chain, sent, token)
    assert (found.log_index, found.asset, found.value, found.binding) == (-1, COIN, 10**15, TAG)


async def test_a_tagged_transfer_out_of_a_smart_wallet_is_proven(chain: LocalChain, token: str) -> None:
    wallet = await chain.deploy("Wallet1271", ["address"], [account(BUYER).address])
    await chain.mint(token, wallet, 10**9)
    inner = tagged_transfer(SHOP, 500, TAG)
    outer = calldata("execute(address,uint256,bytes)", token, 0, inner)
    [found] = await proof(chain, await chain.send_as(account(BUYER), wallet, outer), token)
    assert (found.sender, found.binding) == (f"{CHAIN}:{wallet.lower()}", TAG)


async def test_what_a_token_skims_shows(chain: LocalChain, token: str) -> None:
    await chain.done(account(STRANGER), token, calldata("setSkim(uint256)", 100))
    sent = await chain.send_as(account(BUYER), token, tagged_transfer(SHOP, 500, TAG))
    [found] = await proof(chain, sent, token)
    assert (found.value, found.binding) == (495, TAG)


async def test_a_relayed_authorization_is_proven(chain: LocalChain, token: str) -> None:
    buyer = account(BUYER)
    asked = authorization(token, buyer.address)
    signature = signed(asked, buyer)
    assert recover_authorizer(asked, signature) == buyer.address.lower()
    assert decode_word(await call(chain, token, domain_separator_call())) == domain_separator(asked.domain)
    used = authorization_state_call(buyer.address.lower(), NONCE)
    assert decode_bool(await call(chain, token, used)) is False

    relayer = Signer(bytes(account(RELAYER).key))
    made = relayer.sign(
        CHAIN_ID, 0, token, transfer_with_authorization_call(asked, signature), 200_000, 10**11, 10**9
    )
    assert await chain.rpc("eth_sendRawTransaction", to_data(made.raw)) == made.hash
    [found] = await proof(chain, made.hash, token)
    assert (found.value, found.sender, found.binding) == (500, f"{CHAIN}:{buyer.address.lower()}", NONCE)
    assert decode_bool(await call(chain, token, used)) is True


async def test_a_smart_wallets_authorization_goes_through_either_overload(
    chain: LocalChain, token: str
) -> None:
    wallet = (await chain.deploy("Wallet1271", ["address"], [account(BUYER).address])).lower()
    await chain.mint(token, wallet, 10**9)
    asked = authorization(token, wallet)
    signature = signed(asked, account(BUYER))
    valid = is_valid_signature_call(authorization_digest(asked), signature)
    assert decode_word(await call(chain, wallet, valid)) == valid[:4].ljust(32, b"\0")
    sent = await chain.send_as(account(RELAYER), token, transfer_with_authorization_call(asked, signature))
    [found] = await proof(chain, sent, token)
    assert (found.sender, found.binding) == (f"{CHAIN}:{wallet}", NONCE)
    # The other overload takes any bytes; this wallet refuses these, and not the token their shape.
    data = transfer_with_authorization_call(authorization(token, wallet, leg_nonce=TAG), signature + b"\0")
    with pytest.raises(Refused, match="invalid signature"):
        await chain.rpc("eth_call", {"to": token, "data": to_data(data)}, "latest")


async def test_two_legs_in_one_transaction_are_both_proven(chain: LocalChain, token: str) -> None:
    await chain.place("Multicall3", MULTICALL3)
    buyer, operator = account(BUYER), account(OPERATOR).address.lower()
    fee_nonce = authorization_nonce("pay_l1", "fee")
    legs = [
        authorization(token, buyer.address, value=495),
        authorization(token, buyer.address, operator, 5, fee_nonce),
    ]
    calls = [
        Call(token, transfer_with_authorization_call(leg, signed(leg, buyer)), may_fail=False) for leg in legs
    ]
    sent = await chain.send_as(account(RELAYER), MULTICALL3, aggregate3_call(calls))
    found = await proof(chain, sent, token)
    assert [(one.value, one.binding) for one in found] == [(495, NONCE), (5, fee_nonce)]


async def test_a_stranger_who_wraps_an_authorization_claims_nothing(chain: LocalChain, token: str) -> None:
    await chain.place("Multicall3", MULTICALL3)
    asked = authorization(token, account(BUYER).address)
    data = transfer_with_authorization_call(asked, signed(asked, account(BUYER)))
    wrapped = aggregate3_call([Call(token, data)]) + tagged_transfer(SHOP, 500, payment_tag("pay_l2"))
    [found] = await proof(chain, await chain.send_as(account(STRANGER), MULTICALL3, wrapped), token)
    assert found.binding == NONCE


async def test_an_aggregate_reads_tokens_and_coins_and_survives_a_call_that_fails(
    chain: LocalChain, token: str
) -> None:
    await chain.place("Multicall3", MULTICALL3)
    feed = await chain.deploy("Feed", ["uint8", "string"], [8, "ETH / USD"])
    buyer = account(BUYER).address.lower()
    calls = [
        Call(token, balance_of_call(buyer)),
        Call(MULTICALL3.lower(), eth_balance_call(account(STRANGER).address.lower())),
        Call(token, transfer_call(SHOP, 10**30)),
        Call(feed.lower(), calldata("description()")),
        Call(token, decimals_call()),
    ]
    said = decode_aggregate3(await call(chain, MULTICALL3, aggregate3_call(calls)), len(calls))
    assert [one.success for one in said] == [True, True, False, True, True]
    assert decode_uint(said[0].data) == 10**12
    assert 9_999 * 10**18 < decode_uint(said[1].data) <= 10_000 * 10**18
    assert decode_text(said[3].data) == "ETH / USD"
    assert decode_uint(said[4].data) == 6


async def test_logs_and_blocks_of_a_node_are_read(chain: LocalChain, token: str) -> None:
    sent = await chain.send_as(account(BUYER), token, tagged_transfer(SHOP, 500, TAG))
    receipt = decode_receipt(await chain.receipt(sent))
    assert receipt is not None
    assert min(receipt.gas_used, receipt.gas_price) > 0
    assert receipt.l1_fee == 0
    block = decode_block(await chain.rpc("eth_getBlockByNumber", to_quantity(receipt.block_number), False))
    assert block is not None
    assert block.hash == receipt.block_hash
    asked = {
        "fromBlock": to_quantity(block.number),
        "toBlock": to_quantity(block.number),
        "address": [token],
        "topics": [[to_data(TRANSFER), to_data(AUTHORIZATION_USED)], None, [to_data(word_of_address(SHOP))]],
    }
    [log] = decode_logs(await chain.rpc("eth_getLogs", asked))
    assert decode_transfer(log) == (token, account(BUYER).address.lower(), SHOP, 500)


@pytest.mark.parametrize("method", ["eth_getTransactionByHash", "eth_getTransactionReceipt"])
async def test_what_a_node_does_not_know_is_null(chain: LocalChain, method: str) -> None:
    read = decode_receipt if method.endswith("Receipt") else decode_transaction
    assert read(await chain.rpc(method, "0x" + "77" * 32)) is None
