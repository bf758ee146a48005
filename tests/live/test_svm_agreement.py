"""The node of the tests answers what payd asks as one that others wrote: fields, types, codes and words."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from payd.chains.rpc_wire import Call
from payd.chains.solana.asking import (
    FIRST_SLOT_CALL,
    account_calls,
    clock_call,
    height_call,
    latest_blockhash_call,
    listing_call,
    rent_call,
    simulate_call,
    slot_call,
    statuses_call,
    transaction_call,
)
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.keys import TOKEN, token_account
from tests.live.node_process import Refused
from tests.live.solana import (
    BUYER,
    MERCHANT,
    MINTED,
    STRANGER,
    USDC_MINT,
    LocalSolana,
    furnish_solana,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.svm_methods import SvmNode
from tests.live.validator_chain import USDC_KEY, open_validator_chain

pytestmark = pytest.mark.real_time

# What later releases say besides.
LATER: Final = frozenset({"value.fee"})
# Another build of a program has other words.
LOGS: Final = ("logMessages", "logs")
# Of no tokens, a node that has stored them says null.
NULLABLE: Final = "uiAmount"
# So many blocks on top make one final, on either node.
FINAL: Final = 5
# Nobody has it, and nothing has that blockhash.
NOBODY: Final = Pubkey(bytes([99]) * 32)


async def test_what_payd_asks_is_answered_alike() -> None:
    async with open_validator_chain(slot_ms=50) as chain:
        theirs = await answers(chain, USDC_KEY.pubkey())
    solana = LocalSolana(SvmNode(finalized=FINAL - 1))
    await furnish_solana(solana)
    ours = await answers(solana, USDC_MINT)

    assert ours.keys() == theirs.keys()
    assert {name: found for name in ours if (found := differences(ours[name], theirs[name]))} == {}


async def answers(chain: LocalSolana, mint: Pubkey) -> dict[str, Any]:
    """What the node says to each call, by a name for it; a refusal is its code and its words."""
    calls = await calls_of(chain, mint)
    found: dict[str, Any] = {}
    for name, (method, *params) in calls.items():
        try:
            found[name] = await chain.rpc(method, *params)
        except Refused as refused:
            found[name] = {"code": refused.code, "message": refused.message}
    return found


async def calls_of(chain: LocalSolana, mint: Pubkey) -> dict[str, Call]:
    """The calls, of which some ask for a transaction that has landed and for one that has failed there."""
    buyer, merchant = pubkey(BUYER), pubkey(MERCHANT)
    paid = await landed(chain, memo("hello"), pay_token(buyer, merchant, mint, 25))
    failed = await landed(chain, pay_token(buyer, merchant, mint, 2 * MINTED))
    good = await signed(chain, pay_token(buyer, merchant, mint, 26))
    too_much = await signed(chain, pay_token(buyer, merchant, mint, 2 * MINTED))
    stale = await signed(chain, pay_sol(buyer, merchant, 1), blockhash=str(NOBODY))
    poor = await signed(chain, pay_sol(pubkey(STRANGER), merchant, 1), place=STRANGER)
    holding = token_account(buyer, mint, TOKEN)
    unknown = str(keypair(BUYER).sign_message(b"nothing"))
    send = SolanaDialect(chain.id).send_call
    tried = {"encoding": "base64", "preflightCommitment": "confirmed"}

    return {
        "health": ("getHealth",),
        "genesis": SolanaDialect(chain.id).identity_call,
        "slot": slot_call(),
        "height": height_call(),
        "first slot": FIRST_SLOT_CALL,
        "blockhash": latest_blockhash_call(),
        "clock": clock_call(),
        "rent": rent_call(165),
        "a token account": account_calls([holding])[0],
        "its beginning": account_calls([holding], data_max=9)[0],
        "a mint": account_calls([mint])[0],
        "a wallet": account_calls([buyer], data_max=1)[0],
        "no account": account_calls([NOBODY])[0],
        "too many accounts": ("getMultipleAccounts", [str(buyer)] * 101, {"encoding": "base64"}),
        "no address": ("getMultipleAccounts", ["short"], {"encoding": "base64"}),
        "no base58": ("getMultipleAccounts", ["l" * 43], {"encoding": "base64"}),
        "a transaction": transaction_call(paid),
        "a failed one": transaction_call(failed),
        "an unknown one": transaction_call(unknown),
        "no transaction": transaction_call("short"),
        "statuses": statuses_call([paid, failed, unknown]),
        "no status": statuses_call(["short"]),
        "no base58 for one": statuses_call(["l" * 87]),
        "too many statuses": statuses_call([paid] * 257),
        "a listing": listing_call(holding, limit=1),
        "an empty one": listing_call(NOBODY),
        "too long a listing": listing_call(buyer, limit=1001),
        "no cursor": listing_call(buyer, until="short"),
        "a trial": simulate_call(good, sig_verify=True),
        "one without signatures": simulate_call(unsigned(good), sig_verify=False),
        "one that fails": simulate_call(too_much, sig_verify=True),
        "one that is stale": simulate_call(stale, sig_verify=True),
        "one of nobody": simulate_call(poor, sig_verify=True),
        "what is no transaction": ("sendTransaction", "AAAA", tried),
        "what is too long": ("sendTransaction", base64.b64encode(bytes(1300)).decode(), tried),
        "what is stale, sent": ("sendTransaction", base64.b64encode(stale).decode(), tried),
        "what fails, sent": ("sendTransaction", base64.b64encode(too_much).decode(), tried),
        "what nobody pays, sent": ("sendTransaction", base64.b64encode(poor).decode(), tried),
        "what is not signed, sent": ("sendTransaction", base64.b64encode(unsigned(good)).decode(), tried),
        "what is good, sent": send(good),
        "no method": ("getNoSuchThing",),
    }


async def signed(
    chain: LocalSolana, *instructions: Instruction, place: int = BUYER, blockhash: str | None = None
) -> bytes:
    """A transaction of this wallet, of the version that payd makes."""
    fresh = Hash.from_string(blockhash or await chain.blockhash())
    message = MessageV0.try_compile(pubkey(place), list(instructions), [], fresh)
    return bytes(VersionedTransaction(message, [keypair(place)]))


def unsigned(raw: bytes) -> bytes:
    """The same with a void signature."""
    return raw[:1] + bytes(64) + raw[65:]


async def landed(chain: LocalSolana, *instructions: Instruction) -> str:
    """The id of a transaction that is final, in a block that is whole."""
    tx_id = await chain.send_raw(await signed(chain, *instructions))
    await chain.slots(FINAL)
    return tx_id


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Where two answers are not alike: by their fields and types, and word by word where they refuse."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return [
            one
            for name in sorted(ours.keys() | theirs.keys())
            for one in _differences_at(f"{at}.{name}".lstrip("."), ours, theirs, name)
        ]
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs) and not at.endswith(LOGS):
            return [f"{at}: {len(ours)} against {len(theirs)}"]
        # Their order is that of the addresses.
        if at.endswith("TokenBalances"):
            ours, theirs = (
                sorted(one, key=lambda held: held["uiTokenAmount"]["amount"]) for one in (ours, theirs)
            )
        pairs = zip(ours, theirs, strict=False)
        return [one for mine, other in pairs for one in differences(mine, other, f"{at}[]")]
    if ours is None and at.endswith(NULLABLE):
        return []
    if type(ours) is not type(theirs):
        return [f"{at}: {ours!r} against {theirs!r}"]
    exact = at in ("code", "message") or isinstance(theirs, bool) or at.endswith(("err", "Status"))
    return [f"{at}: {ours!r} against {theirs!r}"] if exact and ours != theirs else []


def _differences_at(at: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str) -> list[str]:
    if name in ours and name in theirs:
        return differences(ours[name], theirs[name], at)
    if at in LATER and name in ours:
        return []
    return [f"{at}: only {'ours' if name in ours else 'theirs'}"]
