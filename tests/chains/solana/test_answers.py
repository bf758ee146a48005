"""What a Solana node tells, read strictly."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from typing import Any

import base58
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.message import Message, MessageAddressTableLookup, MessageHeader, MessageV0, MessageV1
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import (
    Blockhash,
    Clock,
    Listed,
    Simulated,
    Status,
    TokenBalance,
    decode_accounts,
    decode_blockhash,
    decode_clock,
    decode_count,
    decode_landed,
    decode_listing,
    decode_simulation,
    decode_statuses,
)
from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, unsigned
from payd.chains.solana.keys import CLOCK, SYSTEM, TOKEN, token_account
from tests.chains.solana.vm import BUYER, MERCHANT, PAYER, SOL, USDC, World, signed

TX = base58.b58encode(bytes([7] * 64)).decode()
CONTEXT = {"apiVersion": "3.0.0", "slot": 1234}

# What a node answers, told by its documentation; only the account's data are cut.
ACCOUNT = {
    "data": ["AQID", "base64"],
    "executable": False,
    "lamports": 2_039_280,
    "owner": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "rentEpoch": 18446744073709551615,
    "space": 3,
}
STATUS = {
    "confirmationStatus": "confirmed",
    "confirmations": 10,
    "err": None,
    "slot": 72,
    "status": {"Ok": None},
}
LISTED = {
    "blockTime": 1_700_000_000,
    "confirmationStatus": "finalized",
    "err": {"InstructionError": [2, {"Custom": 1}]},
    "memo": "[64] 00",
    "signature": TX,
    "slot": 114,
}


def answer_of_a_payment() -> dict[str, Any]:
    """What `getTransaction` answers of a payment of 5 USDC; the merchant's account is created in it."""
    world = World()
    world.put_sol(PAYER, SOL)
    world.put_mint(USDC)
    world.put_tokens(BUYER, USDC, 9_000_000)
    want = Wanted(
        reference_of("pay_1"),
        BUYER.pubkey(),
        PAYER.pubkey(),
        USDC,
        TOKEN,
        6,
        (Leg(MERCHANT.pubkey(), 5_000_000),),
        create=(MERCHANT.pubkey(),),
    )
    return world.answer_of(signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER))


ANSWER = answer_of_a_payment()


def changed(answer: Any, path: str, value: object) -> Any:
    """A copy with another value at a path of keys and places; `...` takes it away."""
    copied = copy.deepcopy(answer)
    *before, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    at = copied
    for part in before:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return copied


def test_accounts_are_read_with_their_slot() -> None:
    slot, (missing, account) = decode_accounts({"context": CONTEXT, "value": [None, ACCOUNT]}, count=2)
    assert (slot, missing) == (1234, None)
    assert account is not None
    assert (account.lamports, account.owner, account.data) == (2_039_280, TOKEN, b"\x01\x02\x03")
    assert not account.is_executable


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("context", ...),
        ("context.slot", -1),
        ("context.slot", "1234"),
        ("value", None),
        ("value.0", []),
        ("value.0.data", "AQID"),
        ("value.0.data", ["AQID", "base58"]),
        ("value.0.data.0", "AQI"),
        ("value.0.data.0", "AQ-_"),
        ("value.0.lamports", 1.5),
        ("value.0.lamports", -1),
        ("value.0.lamports", 2**63),
        ("value.0.lamports", ...),
        ("value.0.owner", "1"),
        ("value.0.owner", 7),
        ("value.0.owner", "é" * 32),
    ],
)
def test_odd_accounts_are_a_bad_answer(path: str, value: object) -> None:
    with pytest.raises(BadAnswer):
        decode_accounts(changed({"context": CONTEXT, "value": [ACCOUNT]}, path, value))


def test_fewer_or_more_than_were_asked_for_are_a_bad_answer() -> None:
    for count in (0, 2):
        with pytest.raises(BadAnswer):
            decode_accounts({"context": CONTEXT, "value": [ACCOUNT]}, count=count)
        with pytest.raises(BadAnswer):
            decode_statuses({"context": CONTEXT, "value": [STATUS]}, count=count)


def test_a_landed_transaction_is_read() -> None:
    landed = decode_landed(ANSWER)
    assert landed is not None
    raw = base64.b64decode(ANSWER["transaction"][0])
    assert (landed.raw, landed.slot, landed.block_time_s, landed.err) == (raw, 1000, 1_800_000_000, None)
    assert landed.tx_id == str(VersionedTransaction.from_bytes(raw).signatures[0])
    assert landed.keys == tuple(landed.message.account_keys)
    assert landed.pre[0] - landed.post[0] == landed.fee + World().rent(165)
    place = landed.keys.index(token_account(MERCHANT.pubkey(), USDC, TOKEN))
    assert TokenBalance(place, USDC, MERCHANT.pubkey(), 5_000_000) in landed.post_tokens
    assert place not in [one.index for one in landed.pre_tokens]


def test_a_transaction_that_a_node_does_not_know_is_none() -> None:
    assert decode_landed(None) is None


def test_another_transaction_than_was_asked_for_is_a_bad_answer() -> None:
    landed = decode_landed(ANSWER)
    assert landed is not None
    assert decode_landed(ANSWER, landed.tx_id) == landed
    with pytest.raises(BadAnswer, match="was given for"):
        decode_landed(ANSWER, TX)


def test_what_a_node_may_leave_out_is_not_missed() -> None:
    answer = changed(changed(ANSWER, "blockTime", None), "meta.loadedAddresses", ...)
    landed = decode_landed(changed(answer, "meta.preTokenBalances", None))
    assert landed is not None
    assert (landed.block_time_s, landed.pre_tokens) == (None, ())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("slot", ...),
        ("transaction", "AQ"),
        ("transaction", ["AQ==", "base58"]),
        ("transaction.0", ""),
        ("transaction.0", "AQ=="),
        ("transaction.0", base64.b64encode(b"\0" + bytes(40)).decode()),
        ("meta", None),
        ("meta", ...),
        ("meta.err", ...),
        ("meta.fee", ...),
        ("meta.fee", "5000"),
        ("meta.preBalances.0", ...),
        ("meta.postBalances.0", ...),
        ("meta.postBalances.0", -1),
        ("meta.postTokenBalances.0.accountIndex", 200),
        ("meta.postTokenBalances.0.accountIndex", -1),
        ("meta.postTokenBalances.1.accountIndex", ANSWER["meta"]["postTokenBalances"][0]["accountIndex"]),
        ("meta.postTokenBalances.0.mint", "x"),
        ("meta.postTokenBalances.0.owner", ""),
        ("meta.postTokenBalances.0.uiTokenAmount", None),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", 5),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", "-5"),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", "5\n"),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", "٥"),
        ("meta.postTokenBalances.0.uiTokenAmount.amount", str(2**64)),
    ],
)
def test_an_odd_transaction_is_a_bad_answer(path: str, value: object) -> None:
    with pytest.raises(BadAnswer):
        decode_landed(changed(ANSWER, path, value))


def test_balances_of_fewer_accounts_than_it_names_are_a_bad_answer() -> None:
    cut = changed(changed(ANSWER, "meta.preBalances.0", ...), "meta.postBalances.0", ...)
    with pytest.raises(BadAnswer):
        decode_landed(cut)


def test_a_transaction_of_version_1_has_its_signatures_behind_it() -> None:
    transfer = Instruction(SYSTEM, b"x", [AccountMeta(BUYER.pubkey(), is_signer=False, is_writable=True)])
    message = MessageV1.try_compile(PAYER.pubkey(), [transfer], Hash.default())
    transaction = VersionedTransaction(message, [PAYER])
    raw = bytes(transaction)
    meta = {"err": None, "fee": 5000, "preBalances": [1, 2, 3], "postBalances": [1, 2, 3]}
    landed = decode_landed(
        {"slot": 5, "transaction": [base64.b64encode(raw).decode(), "base64"], "meta": meta, "version": 1}
    )
    assert landed is not None
    assert (raw[0], raw[-64:]) == (0x81, bytes(transaction.signatures[0]))
    assert landed.tx_id == str(transaction.signatures[0])
    assert landed.keys == (PAYER.pubkey(), BUYER.pubkey(), SYSTEM)
    assert [bytes(one.data) for one in landed.message.instructions] == [b"x"]


def answer_with_lookups(loaded: dict[str, list[str]] | None, program: int = 1) -> dict[str, Any]:
    """A transaction of version 0 that takes two accounts out of a lookup table."""
    lookup = MessageAddressTableLookup(MERCHANT.pubkey(), bytes([4]), bytes([9]))
    keys = [PAYER.pubkey(), SYSTEM]
    body = [CompiledInstruction(program, b"", bytes([0, 2, 3]))]
    message = MessageV0(MessageHeader(1, 0, 1), keys, Hash.default(), body, [lookup])
    raw = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    meta = {"err": None, "fee": 5000, "preBalances": [1, 2, 3, 4], "postBalances": [1, 2, 3, 4]}
    answer = {"slot": 5, "transaction": [base64.b64encode(raw).decode(), "base64"], "version": 0}
    return {**answer, "meta": {**meta, "loadedAddresses": loaded}}


def test_accounts_of_lookup_tables_stand_behind_the_others_writable_ones_first() -> None:
    loaded = {"readonly": [str(USDC)], "writable": [str(BUYER.pubkey())]}
    landed = decode_landed(answer_with_lookups(loaded))
    assert landed is not None
    assert landed.keys == (PAYER.pubkey(), SYSTEM, BUYER.pubkey(), USDC)


@pytest.mark.parametrize("loaded", [None, {}, {"readonly": [], "writable": [str(USDC)]}])
def test_a_lookup_without_its_accounts_is_a_bad_answer(loaded: dict[str, list[str]] | None) -> None:
    with pytest.raises(BadAnswer, match="loadedAddresses"):
        decode_landed(answer_with_lookups(loaded))


def test_a_program_out_of_bounds_is_a_bad_answer() -> None:
    loaded = {"readonly": [str(USDC)], "writable": [str(BUYER.pubkey())]}
    with pytest.raises(BadAnswer, match="program"):
        decode_landed(answer_with_lookups(loaded, program=2))


def test_a_transaction_that_nobody_pays_for_is_a_bad_answer() -> None:
    message = Message.new_with_compiled_instructions(1, 0, 0, [], Hash.default(), [])
    raw = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    meta: dict[str, Any] = {"err": None, "fee": 5000, "preBalances": [], "postBalances": []}
    with pytest.raises(BadAnswer, match="no account"):
        decode_landed({"slot": 5, "transaction": [base64.b64encode(raw).decode(), "base64"], "meta": meta})


def test_statuses_are_read() -> None:
    assert decode_statuses({"context": CONTEXT, "value": [None, STATUS]}, count=2) == (
        1234,
        [None, Status(72, None, "confirmed")],
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [("confirmationStatus", None), ("confirmationStatus", "rooted"), ("slot", ...), ("err", ...)],
)
def test_an_odd_status_is_a_bad_answer(path: str, value: object) -> None:
    with pytest.raises(BadAnswer):
        decode_statuses({"context": CONTEXT, "value": [changed(STATUS, path, value)]})


def test_a_listing_is_read() -> None:
    assert decode_listing([LISTED, {**LISTED, "confirmationStatus": None, "err": None}]) == [
        Listed(TX, 114, {"InstructionError": [2, {"Custom": 1}]}),
        Listed(TX, 114, None),
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("signature", TX[:-2]),
        ("signature", "1" * 5000),
        ("signature", TX[:-1] + "0"),
        ("signature", None),
        ("slot", None),
        ("err", ...),
    ],
)
def test_an_odd_listing_is_a_bad_answer(path: str, value: object) -> None:
    with pytest.raises(BadAnswer):
        decode_listing([changed(LISTED, path, value)])


def test_a_blockhash_is_read() -> None:
    answer = {"context": CONTEXT, "value": {"blockhash": str(USDC), "lastValidBlockHeight": 3090}}
    assert decode_blockhash(answer) == Blockhash(str(USDC), 3090, 1234)
    with pytest.raises(BadAnswer):
        decode_blockhash(changed(answer, "value.blockhash", "abc"))
    with pytest.raises(BadAnswer):
        decode_blockhash(changed(answer, "value.lastValidBlockHeight", ...))


def test_a_simulation_is_read() -> None:
    failed = {"accounts": None, "err": "AccountNotFound", "logs": None, "unitsConsumed": 0}
    told = decode_simulation({"context": CONTEXT, "value": failed})
    assert told == Simulated("AccountNotFound")
    fine = {"err": None, "logs": ["Program log: x"]}
    told = decode_simulation({"context": CONTEXT, "value": fine})
    assert told == Simulated(None)
    with pytest.raises(BadAnswer):
        decode_simulation({"context": CONTEXT, "value": {"logs": []}})


def test_the_clock_is_the_chains_own() -> None:
    svm = World().svm
    clock = svm.get_clock()
    clock.slot, clock.epoch, clock.unix_timestamp = 7, 8, 1_800_000_123
    svm.set_clock(clock)
    account = svm.get_account(CLOCK)
    assert account is not None
    assert decode_clock(bytes(account.data)) == Clock(7, 1_800_000_123, 8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(39),
        bytes(41),
        bytes(32) + b"\xff" * 8,
        b"\xff" * 8 + bytes(32),
        bytes(32) + (2**63 // 1000 + 1).to_bytes(8, "little"),
    ],
)
def test_another_account_is_no_clock(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode_clock(data)


@pytest.mark.parametrize("answer", [-1, 2**63, "7", 7.5, None, [7], True])
def test_what_is_no_count_is_a_bad_answer(answer: object) -> None:
    assert decode_count(7) == 7
    with pytest.raises(BadAnswer):
        decode_count(answer)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "decode",
    [decode_accounts, decode_landed, decode_statuses, decode_listing, decode_blockhash, decode_simulation],
)
@given(answer=_JSON, where=st.integers(min_value=0, max_value=40))
def test_whatever_a_node_says_is_read_or_a_bad_answer(
    decode: Callable[[Any], object], answer: object, where: int
) -> None:
    told = {"context": CONTEXT, "value": [ACCOUNT, STATUS, answer]}
    for said in (answer, told, [LISTED, answer], _with(ANSWER, where, answer)):
        assert len(_complaint(decode, said)) < 400


def _complaint(decode: Callable[[Any], object], said: object) -> str:
    try:
        decode(said)
    except BadAnswer as error:
        return str(error)
    return ""


def _with(answer: Any, where: int, value: object) -> Any:
    """The answer with another value at one of its leaves."""
    paths = [f"meta.{key}" for key in answer["meta"]] + list(answer)
    return changed(answer, paths[where % len(paths)], value)


def test_an_answer_is_what_json_gives() -> None:
    assert decode_landed(msgspec.json.decode(msgspec.json.encode(ANSWER))) == decode_landed(ANSWER)
