"""Parsers of what comes from chains: nodes' answers, exchanges' prices, and what wallets sign."""

from __future__ import annotations

import base64
import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final, cast

import base58
import msgspec
from solders.message import Message

from payd.chains.evm import abi, codec, results
from payd.chains.evm.answers import decode_block, decode_log, decode_logs, decode_receipt, decode_transaction
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    read_typed_data,
    recover_authorizer,
    transfer_with_authorization_call,
    typed_data,
)
from payd.chains.evm.dialect import classify, read_number
from payd.chains.evm.dialect import kind_of as evm_kind_of
from payd.chains.evm.events import decode_transfer, decode_used_authorization
from payd.chains.evm.signature import delegation_of, is_6492, normalise_signature
from payd.chains.heads import _decoded as head_of
from payd.chains.heads import _number
from payd.chains.market.chainlink import _round_of
from payd.chains.market.coinbase import CoinbaseSource
from payd.chains.market.kraken import KrakenSource
from payd.chains.market.source import Source, SourceFailed, read_price
from payd.chains.rpc_errors import BadAnswer, RpcError
from payd.chains.rpc_wire import Call, Fault, Redactor, Results, TooManyCalls, encode, read_results
from payd.chains.simulated_results import decode_results, fits
from payd.chains.simulated_solana import compact_u16, decode_key, read_compact_u16
from payd.chains.socket import Ended
from payd.chains.solana import answers as solana
from payd.chains.solana.accounts import decode_holding, decode_mint
from payd.chains.solana.build import split, unsigned
from payd.chains.solana.dialect import SolanaDialect, slot_in
from payd.chains.solana.extensions import holding_problem, mint_problem, read_extensions
from payd.chains.solana.failures import failure_words
from payd.chains.solana.keys import TOKEN, TOKEN_2022
from payd.chains.solana.plan import read_plan, write_plan
from payd.chains.solana.subscription import Wanted, _Subscriptions
from payd.core.option import Result, WalletRpc, hash_results, told_transactions
from payd.net.http import Client, Reply
from tests.chains.evm.json import (
    BUYER,
    SHOP,
    TX_HASH,
    block_json,
    receipt_json,
    transaction_json,
    transfer_log,
)
from tests.chains.evm.json import TOKEN as EVM_TOKEN
from tests.chains.solana import test_answers as solana_json
from tests.chains.solana.tampering import (
    BLOCKHASH,
    SPONSORED,
    WITH_GUARDS,
    check,
    handed_out,
    parts,
    with_instructions,
)
from tests.chains.solana.vm import BUYER as SOLANA_BUYER
from tests.chains.solana.vm import PYUSD_EXTENSIONS, holding_data, mint_data, signed
from tests.fuzz.target import Run, Target, finish, of_json, of_text, seeds

DIALECT: Final = SolanaDialect("4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z")
ASKED: Final = Authorization(
    domain=TokenDomain("USD Coin", "2", 8453, EVM_TOKEN),
    sender=BUYER,
    recipient=SHOP,
    value=5_000_000,
    valid_before_s=1_800_000_000,
    nonce=bytes(range(32)),
)
SIGNATURE: Final = "0x" + "11" * 32 + "22" * 32 + "1b"


def _reply(body: bytes) -> Reply:
    return Reply(200, None, "", ((b"age", b"1"),), body, True, None, 1, cast(Any, None))


def _answered(calls: list[Call], kind_of: Any) -> Callable[[bytes], Results]:
    """A node's answer to these calls; each error that it gave is judged, as a caller does."""

    def run(data: bytes) -> Results:
        found = read_results(_reply(data), calls, 1, Redactor("https://node.example/v2/secretkey"), kind_of)
        assert 1 <= len(found) <= len(calls)  # of a batch up to what is limited
        for one in found:
            if isinstance(one, RpcError):
                classify(one.message)
                DIALECT.verdict_of(one)
        return found

    return run


class _Replies:
    """A client whose peer says these, one after the other; the last one again and again."""

    def __init__(self, *bodies: bytes) -> None:
        self._bodies = itertools.chain(bodies, itertools.repeat(bodies[-1]))

    async def send(self, *_: object, **__: object) -> Reply:
        return _reply(next(self._bodies))


def _price(make: Callable[[Client], Source], *first: bytes) -> Run:
    return lambda data: finish(
        make(cast(Client, _Replies(*first, data))).spot("ETH", "EUR", 1_779_098_340_000)
    )


def _heard(text: bytes) -> None:
    """Frames of a subscription, one in each line, with two subscriptions asked for."""
    wanted = Wanted()
    wanted.want_ids(["5" * 80])
    wanted.want_addresses(["4" * 40])
    asked = _Subscriptions(wanted)
    for frame in text.split(b"\n")[:20]:
        asked.due()
        asked.heard(frame)


def _logs(answer: object) -> None:
    for log in decode_logs(answer):
        decode_transfer(log)
        decode_used_authorization(log)


def _codec(answer: object) -> None:
    """Every reader of one value; what one refuses, the next may take."""
    reads: list[Callable[[object], object]] = [
        codec.from_quantity,
        codec.from_count,
        codec.from_data,
        codec.from_address,
        codec.from_hash,
        codec.from_object,
        codec.from_list,
        read_number,
        slot_in,
        solana.decode_count,
    ]
    for read in reads:
        try:
            value = read(answer)
        except BadAnswer:
            continue
        if read is codec.from_data:
            assert isinstance(value, bytes)
            assert codec.from_data(codec.to_data(value)) == value
        if read is codec.from_quantity:
            assert isinstance(value, int)
            assert codec.from_quantity(codec.to_quantity(value)) == value


def _returned(data: bytes) -> None:
    """What a call of a contract returned, read in every way."""
    delegation_of(data)
    _round_of(data)
    reads: list[Callable[[bytes], object]] = [
        abi.decode_word,
        abi.decode_uint,
        abi.decode_bool,
        abi.decode_text,
        lambda raw: abi.decode_aggregate3(raw, 2),
    ]
    for read in reads:
        try:
            read(data)
        except BadAnswer:
            continue


def _typed(typed: Any) -> None:
    read = read_typed_data(typed)
    assert typed_data(read) == typed


def _signature(text: str) -> None:
    raw = results.read_signature(Result("walletRpc", [text]))
    normal = normalise_signature(raw)
    assert normalise_signature(normal) == normal
    is_6492(normal)
    recover_authorizer(ASKED, normal)
    transfer_with_authorization_call(ASKED, normal)


def _results(data: bytes) -> None:
    """What a wallet hands back for two actions, in the shape that the wire has let through."""
    try:
        given = msgspec.json.decode(data, type=list[Result])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    hash_results("opt_1", given)
    told_transactions(given)
    actions = [
        WalletRpc("eip155:1", method, [])
        for method in ("eth_sendTransaction", "solana_signTransaction", "eth_signTypedData_v4")
    ]
    for one, action in zip(given, actions, strict=False):
        (raw,) = decode_results([action], [one])
        fits(action, raw)


def _tx_hash(value: Any) -> None:
    results.read_tx_hash(Result("walletRpc", value if isinstance(value, list) else [value]))


def _plan(text: str) -> None:
    plan = read_plan(text)
    read_plan(write_plan(int(plan.amount), int(plan.fee), plan.operator))


def _solana_keys(data: bytes) -> None:
    key = decode_key(data.decode("latin-1"))
    assert key is None or base58.b58encode(key) == data
    read = read_compact_u16(data)
    assert read is None or read_compact_u16(compact_u16(read[0])) is not None


def _solana_accounts(data: bytes) -> None:
    for program in (TOKEN, TOKEN_2022):
        for read in (decode_mint, decode_holding):
            try:
                read(program, data)
            except BadAnswer:
                continue
    with contextlib.suppress(BadAnswer):
        solana.decode_clock(data)
    found = read_extensions(data)
    mint_problem(found, 1)
    mint_problem(found, None)
    holding_problem(found)


def _wire(data: bytes) -> None:
    """A transaction as it goes over the wire, with the wallet's base64 around it."""
    check(SPONSORED, base64.b64encode(data).decode(), HANDED)


def _landed(answer: object) -> None:
    landed = solana.decode_landed(answer)
    if landed is not None and landed.err is not None:
        failure_words(landed.err, landed.message)


HANDED: Final = handed_out(SPONSORED, BLOCKHASH)
SIGNED: Final = signed(HANDED, SOLANA_BUYER)
GUARDED: Final = with_instructions(HANDED, [*parts(SPONSORED), *WITH_GUARDS[1]])
MESSAGE: Final = Message.from_bytes(split(HANDED)[1])
ERROR: Final = {"code": -32000, "message": "nonce too low", "data": {"err": {"InstructionError": [0, "x"]}}}
CONTEXT: Final = solana_json.CONTEXT

LISTINGS: Final = seeds({"error": [], "result": {"XETHZEUR": {"wsname": "ETH/EUR", "status": "online"}}})

TARGETS: Final = {
    "json-rpc": Target(
        _answered([("eth_call",)], evm_kind_of),
        seeds(
            {"jsonrpc": "2.0", "id": 1, "result": "0x1"},
            {"id": 1, "error": ERROR},
            {"id": None, "error": ERROR},
            b'{"id":1,"result":1,"result":2}',
            b'{"id":1,"result":NaN}',
            b'{"id":1,"result":' + b"9" * 100_000 + b"}",
            b'{"id":1,"result":' + b"[" * 100_000,
            b'{"id":1,"result":"\xff"}',
        ),
        (Fault, TooManyCalls),
    ),
    "json-rpc batch": Target(
        _answered([("getSlot",), ("eth_getLogs",)], DIALECT.kind_of),
        seeds(
            [{"id": 1, "result": 5}, {"id": 2, "error": ERROR}], {"id": 1, "error": {"message": "batch size"}}
        ),
        (Fault, TooManyCalls),
    ),
    "evm value": Target(
        of_json(_codec), seeds(["0x1"], '"0x1"', '"0x7a"', {"a": 1}, "1" * 4000, f'"{TX_HASH}"'), ()
    ),
    "evm logs": Target(of_json(_logs), seeds([transfer_log(BUYER, SHOP, 5)]), (BadAnswer,)),
    "evm log": Target(of_json(decode_log), seeds(transfer_log(BUYER, SHOP, 5)), (BadAnswer,)),
    "evm transaction": Target(of_json(decode_transaction), seeds(transaction_json()), (BadAnswer,)),
    "evm receipt": Target(
        of_json(decode_receipt), seeds(receipt_json(transfer_log(BUYER, SHOP, 5))), (BadAnswer,)
    ),
    "evm block": Target(
        of_json(decode_block), seeds(block_json(transaction_json()), block_json(TX_HASH)), (BadAnswer,)
    ),
    "evm returned data": Target(
        _returned,
        (
            bytes(31) + b"\1",
            bytes(31) + b"\x20" + bytes(31) + b"\3abc" + bytes(29),
            bytes(160),
            abi.aggregate3_call([abi.Call(EVM_TOKEN, b"\1" * 36), abi.Call(EVM_TOKEN, b"")])[4:],
        ),
        (),
    ),
    "evm typed data": Target(of_json(_typed), seeds(typed_data(ASKED)), (ValueError,)),
    "evm signature": Target(of_text(_signature), seeds(SIGNATURE, SIGNATURE[:-2], SIGNATURE + "6492" * 16)),
    "evm transaction hash": Target(of_json(_tx_hash), seeds([TX_HASH], [{"hash": TX_HASH}])),
    "wallet results": Target(
        _results,
        seeds(
            [
                {"type": "walletRpc", "data": [one]}
                for one in (TX_HASH, base64.b64encode(SIGNED).decode(), SIGNATURE)
            ]
        ),
    ),
    "chain heads": Target(
        lambda data: _number(head_of(data)),
        seeds({"method": "eth_subscription", "params": {"result": {"number": "0x5"}}}),
        (Ended,),
    ),
    "solana news": Target(
        _heard,
        (
            b'{"id":1,"result":7}\n{"id":2,"result":8}\n{"params":{"subscription":8,"result":{}}}\n{"params":{"subscription":7}}',
            b'{"id":1,"error":{"message":"no"}}',
            b'{"id":1,"result":"a"}\n{"params":{"subscription":"a"}}',
            b"[" * 5000,
        ),
        (Ended,),
    ),
    "solana returned": Target(_wire, (SIGNED, GUARDED, HANDED, unsigned(split(HANDED)[1]))),
    "solana returned text": Target(
        of_text(lambda text: check(SPONSORED, text, HANDED)), seeds(base64.b64encode(SIGNED).decode(), "é")
    ),
    "solana landed": Target(
        of_json(_landed), seeds(solana_json.ANSWER, solana_json.answer_with_lookups(None)), (BadAnswer,)
    ),
    "solana accounts": Target(
        of_json(solana.decode_accounts),
        seeds({"context": CONTEXT, "value": [None, solana_json.ACCOUNT]}),
        (BadAnswer,),
    ),
    "solana statuses": Target(
        of_json(solana.decode_statuses),
        seeds({"context": CONTEXT, "value": [None, solana_json.STATUS]}),
        (BadAnswer,),
    ),
    "solana listing": Target(of_json(solana.decode_listing), seeds([solana_json.LISTED]), (BadAnswer,)),
    "solana blockhash": Target(
        of_json(solana.decode_blockhash),
        seeds({"context": CONTEXT, "value": {"blockhash": BLOCKHASH, "lastValidBlockHeight": 9}}),
        (BadAnswer,),
    ),
    "solana simulation": Target(
        of_json(solana.decode_simulation),
        seeds(
            {"context": CONTEXT, "value": {"err": None, "logs": ["x"], "unitsConsumed": 5, "accounts": None}}
        ),
        (BadAnswer,),
    ),
    "solana error": Target(
        of_json(lambda error: failure_words(error, MESSAGE)),
        seeds(
            {"InstructionError": [2, {"Custom": 1}]},
            '"BlockhashNotFound"',
            {"InstructionError": [True, {"Custom": 10**30}]},
        ),
        (),
    ),
    "solana token accounts": Target(
        _solana_accounts,
        (
            mint_data(),
            mint_data(extensions=PYUSD_EXTENSIONS),
            holding_data(SOLANA_BUYER.pubkey(), SPONSORED.buyer, 5),
            bytes(40),
            PYUSD_EXTENSIONS,
        ),
        (BadAnswer,),
    ),
    "solana keys": Target(
        _solana_keys, seeds("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", b"\x80\x01", "1" * 32 + "\n"), ()
    ),
    "solana plan": Target(of_text(_plan), seeds(write_plan(5, 1, "a"), write_plan(5, 0, None))),
    "kraken pairs": Target(_price(KrakenSource), LISTINGS, (SourceFailed,)),
    "kraken ticker": Target(
        _price(KrakenSource, *LISTINGS),
        seeds(
            {"error": [], "result": {"XETHZEUR": {"a": ["2000.1", "1"], "b": ["2000.0", "1"]}}},
            {"error": ["\x00é"]},
        ),
        (SourceFailed,),
    ),
    "coinbase rates": Target(
        _price(CoinbaseSource),
        seeds({"data": {"currency": "ETH", "rates": {"EUR": "2000.5"}}}, b'{"x":' + b"[" * 5000),
        (SourceFailed,),
    ),
    "price": Target(of_text(read_price), seeds("2000.50", "1e5", "NaN"), ()),
    "rpc call": Target(
        of_json(lambda value: encode([("eth_call", value)], 1)), seeds([1], {"a": 10**30}), ()
    ),
}
