"""The live demo's wallet on Solana signs what a buyer agreed to, from its own account, and nothing else."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer

from payd.chains.rpc import Rpc
from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, split, unsigned
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.keys import MEMO, TOKEN, token_account
from payd.cli.chain_wallet import Landed
from payd.cli.failure import Refused
from payd.cli.solana_wallet import SolanaWallet, read_keypair
from payd.core.caip import parse_asset, parse_chain

KEYS = Keypair.from_seed(bytes([7]) * 32)
OTHER = Keypair.from_seed(bytes([8]) * 32).pubkey()
SHOP = Keypair.from_seed(bytes([9]) * 32).pubkey()
SERVER = Keypair.from_seed(bytes([10]) * 32).pubkey()
MINT = Pubkey.from_string("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
CHAIN = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"
USDC = f"{CHAIN}/token:{MINT}"
SOL = f"{CHAIN}/slip44:501"
BLOCKHASH = str(Hash(bytes([3]) * 32))


class Nodes(Rpc):
    """Nodes that give these answers, by method or by the first account that is asked for."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(["http://127.0.0.1:1"], SolanaDialect(CHAIN.rpartition(":")[2]))
        self.answers = answers

    async def call(self, method: str, *params: Any, node: Any = None) -> Any:
        return self.answers[params[0][0]] if method == "getMultipleAccounts" else self.answers[method]


def wallet(answers: dict[str, Any] | None = None) -> SolanaWallet:
    return SolanaWallet(KEYS, parse_chain(CHAIN), Nodes(answers or {}))


def option(asset: str, value: int) -> dict[str, Any]:
    return {"amount": {"unit": f"caip19/{asset}", "value": str(value)}}


def built(asset: str, *, buyer: Pubkey | None = None, payer: Pubkey = SERVER) -> bytes:
    """What the server hands out: 100 for the shop, and 5 for the operator."""
    token = asset == USDC
    wanted = Wanted(
        reference=reference_of("pay_1"),
        buyer=buyer or KEYS.pubkey(),
        fee_payer=payer,
        mint=MINT if token else None,
        program=TOKEN if token else None,
        decimals=6 if token else 9,
        legs=(Leg(SHOP, 100), Leg(OTHER, 5)),
        create=(SHOP,) if token else (),
        unit_limit=80_000,
        unit_price=10,
    )
    return build_message(wanted, BLOCKHASH)


def asked(message: bytes, pubkey: Pubkey | None = None) -> dict[str, Any]:
    text = base64.b64encode(unsigned(message)).decode()
    params = [{"transaction": text, "pubkey": str(pubkey or KEYS.pubkey())}]
    return {"method": "solana_signTransaction", "params": json.dumps(params)}


def with_more(*instructions: Instruction) -> bytes:
    """The server's message in tokens, with these besides."""
    read = Message.from_bytes(built(USDC))
    before = [
        Instruction(
            read.program_id(place) or MEMO,
            bytes(each.data),
            [AccountMeta(read.account_keys[at], read.is_signer(at), True) for at in each.accounts],
        )
        for place, each in enumerate(read.instructions)
    ]
    return bytes(Message.new_with_blockhash([*before, *instructions], SERVER, Hash.from_string(BLOCKHASH)))


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_a_payment_gets_the_wallets_signature_in_its_place(asset: str) -> None:
    message = built(asset)
    text = await wallet().do(option(asset, 105), asked(message))
    signatures, signed = split(base64.b64decode(text))
    assert signed == message
    place = Message.from_bytes(message).account_keys.index(KEYS.pubkey())
    assert Signature.from_bytes(signatures[place]).verify(KEYS.pubkey(), message)
    assert all(not any(other) for at, other in enumerate(signatures) if at != place)
    assert wallet().accounts == (f"{CHAIN}:{KEYS.pubkey()}",)


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_more_than_was_agreed_is_not_signed_the_fee_counted(asset: str) -> None:
    with pytest.raises(Refused, match="for more than the option says"):
        await wallet().do(option(asset, 104), asked(built(asset)))


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_another_account_is_not_signed_for(asset: str) -> None:
    with pytest.raises(Refused, match="to sign for another account"):
        await wallet().do(option(asset, 105), asked(built(asset), OTHER))
    with pytest.raises(Refused, match="to pay from another account"):
        await wallet().do(option(asset, 105), asked(built(asset, buyer=OTHER, payer=KEYS.pubkey())))


async def test_a_token_payment_moves_no_sol_and_a_payment_of_sol_no_tokens() -> None:
    with pytest.raises(Refused, match="for what is no payment"):
        await wallet().do(option(SOL, 105), asked(built(USDC)))
    with pytest.raises(Refused, match="for what is no payment"):
        await wallet().do(option(USDC, 105), asked(built(SOL)))


OF_TOKENS = [
    AccountMeta(token_account(KEYS.pubkey(), MINT, TOKEN), False, True),
    AccountMeta(KEYS.pubkey(), True, False),
]
SET_AUTHORITY = b"\x06\x02\x01" + bytes(OTHER)
APPROVE = b"\x04" + struct.pack("<Q", 1)
OWN = token_account(KEYS.pubkey(), MINT, TOKEN)


@pytest.mark.parametrize(
    "instruction",
    [
        transfer(TransferParams(from_pubkey=KEYS.pubkey(), to_pubkey=OTHER, lamports=1)),
        Instruction(
            TOKEN, SET_AUTHORITY, [AccountMeta(OWN, False, True), AccountMeta(KEYS.pubkey(), True, False)]
        ),
        Instruction(TOKEN, APPROVE, OF_TOKENS),
        Instruction(OTHER, b"", []),
        Instruction(OTHER, b"\x0c" + bytes(9), [*OF_TOKENS, *OF_TOKENS]),
        Instruction(TOKEN, b"\x0c" + bytes(9), OF_TOKENS),
    ],
    ids=["sol", "authority", "approval", "program", "the like of another program", "too short"],
)
async def test_what_is_no_payment_is_not_signed(instruction: Instruction) -> None:
    with pytest.raises(Refused, match="for what is no payment"):
        await wallet().do(option(USDC, 1_000), asked(with_more(instruction)))
    assert await wallet().do(option(USDC, 105), asked(with_more()))


@pytest.mark.parametrize("message", [b"\x80" + bytes(40), b"\x01\0\0\xff"])
async def test_what_is_no_legacy_transaction_is_not_signed(message: bytes) -> None:
    raw = b"\x01" + bytes(64) + message
    params = [{"transaction": base64.b64encode(raw).decode(), "pubkey": str(KEYS.pubkey())}]
    with pytest.raises(Refused, match="no legacy transaction"):
        await wallet().do(option(USDC, 105), {"method": "solana_signTransaction", "params": params})


async def test_what_others_sign_alone_is_not_signed() -> None:
    by_another = bytes(Message.new_with_blockhash([], OTHER, Hash.from_string(BLOCKHASH)))
    with pytest.raises(Refused, match="to sign for another account"):
        await wallet().do(option(USDC, 105), asked(by_another))


async def test_an_action_of_another_kind_is_refused() -> None:
    with pytest.raises(Refused, match="solana_signMessage"):
        await wallet().do(option(USDC, 105), {"method": "solana_signMessage", "params": "[]"})


def account(owner: Pubkey, data: bytes = b"", lamports: int = 1) -> dict[str, Any]:
    told = {
        "lamports": lamports,
        "owner": str(owner),
        "data": [base64.b64encode(data).decode(), "base64"],
        "executable": False,
        "rentEpoch": 0,
        "space": len(data),
    }
    return {"context": {"slot": 5}, "value": [told]}


NOTHING = {"context": {"slot": 5}, "value": [None]}


async def test_a_balance_is_that_of_the_coin_or_of_the_wallets_token_account() -> None:
    holding = bytes(MINT) + bytes(KEYS.pubkey()) + struct.pack("<Q", 9) + bytes(36) + b"\x01" + bytes(56)
    told = {
        str(KEYS.pubkey()): account(Pubkey.default(), lamports=7),
        str(MINT): account(TOKEN, bytes(82)),
        str(OWN): account(TOKEN, holding),
        str(SHOP): NOTHING,
        str(token_account(SHOP, MINT, TOKEN)): NOTHING,
    }
    assert await wallet(told).balance(parse_asset(SOL), str(KEYS.pubkey())) == 7
    assert await wallet(told).balance(parse_asset(USDC), str(KEYS.pubkey())) == 9
    assert await wallet(told).balance(parse_asset(SOL), str(SHOP)) == 0
    assert await wallet(told).balance(parse_asset(USDC), str(SHOP)) == 0
    with pytest.raises(Refused, match="has no token"):
        await wallet(told | {str(MINT): NOTHING}).balance(parse_asset(USDC), str(SHOP))


def landed(err: object) -> dict[str, Any]:
    keys = Message.from_bytes(built(USDC)).account_keys
    meta = {
        "err": err,
        "fee": 10_000,
        "preBalances": [1] * len(keys),
        "postBalances": [1] * len(keys),
        "preTokenBalances": [],
        "postTokenBalances": [],
    }
    raw = b"\x02" + bytes([1]) * 128 + built(USDC)
    text = base64.b64encode(raw).decode()
    return {"slot": 12, "blockTime": 5, "meta": meta, "transaction": [text, "base64"], "version": "legacy"}


async def test_what_the_chain_has_of_a_transaction_is_told() -> None:
    tx_id = str(Signature.from_bytes(bytes([1]) * 64))
    words = "slot 12 has it; the server paid the network's fee"
    assert await wallet({"getTransaction": landed(None)}).landed(tx_id) == Landed(True, words)
    failed = landed({"InstructionError": [0, "Custom"]})
    assert await wallet({"getTransaction": failed}).landed(tx_id) == Landed(False, words)
    assert await wallet({"getTransaction": None}).landed(tx_id) is None
    assert await wallet({"getSlot": 17}).head() == "at slot 17"


def test_a_wallet_is_a_file_as_solana_keygen_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "buyer-solana.json"
    file.write_text(json.dumps(list(bytes(KEYS))))
    assert read_keypair(file) == KEYS
    with pytest.raises(Refused, match="There is no wallet"):
        read_keypair(tmp_path / "other.json")
    for text in ("[]", "{}", "[1, 2]", json.dumps([*bytes(KEYS)[:63], 300]), json.dumps([0] * 64), "x"):
        file.write_text(text)
        with pytest.raises(Refused, match="is no wallet"):
            read_keypair(file)
