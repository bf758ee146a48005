"""Nodes of Solana are asked in their own way, and their errors read for what they mean."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.rpc_errors import Kind, RpcError, Verdict
from payd.chains.solana.asking import account_calls, clock_call
from payd.chains.solana.dialect import SolanaDialect, slot_in
from payd.chains.solana.keys import TOKEN

MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
DIALECT = SolanaDialect("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
TRIED = "Transaction simulation failed: "


def test_a_chain_is_called_by_the_beginning_of_its_genesis_hash() -> None:
    assert DIALECT.identity_call == ("getGenesisHash",)
    assert DIALECT.identity_in(MAINNET) == DIALECT.chain
    assert DIALECT.identity_in("EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG") != DIALECT.chain


@pytest.mark.parametrize(
    "said",
    [None, 7, True, "", MAINNET[:31], MAINNET + "1", MAINNET[:-1] + "0", [MAINNET], "0x1", MAINNET + "\n"],
)
def test_what_is_no_hash_names_no_chain(said: object) -> None:
    assert DIALECT.identity_in(said) is None


def test_the_head_is_the_newest_slot_that_was_confirmed() -> None:
    assert DIALECT.head_call == ("getSlot", {"commitment": "confirmed"})
    assert DIALECT.head_in(DIALECT.head_call, 313_000_000) == 313_000_000
    assert DIALECT.head_in(("getSlot", {"commitment": "confirmed", "minContextSlot": 5}), 7) == 7
    assert DIALECT.head_in(("getSlot", {"commitment": "finalized"}), 7) is None
    assert DIALECT.head_in(("getBlockHeight", {"commitment": "confirmed"}), 7) is None


def test_who_tells_the_chains_time_tells_how_far_it_is() -> None:
    answer = {"context": {"slot": 7}, "value": [None]}
    assert DIALECT.head_in(clock_call("confirmed"), answer) == 7
    assert DIALECT.head_in(clock_call("finalized"), answer) is None
    assert DIALECT.head_in(account_calls([TOKEN])[0], answer) is None
    assert DIALECT.head_in(clock_call("confirmed"), {"context": {"slot": "7"}}) is None
    assert DIALECT.head_in(clock_call("confirmed"), None) is None


@pytest.mark.parametrize("said", [None, True, -1, 2**64, 1.5, "7", [7]])
def test_what_is_no_slot_is_none(said: object) -> None:
    assert slot_in(said) is None
    assert DIALECT.head_in(DIALECT.head_call, said) is None


@pytest.mark.parametrize(
    ("method", "code", "message", "kind"),
    [
        (
            "getBlock",
            -32001,
            "Block 7 cleaned up, does not exist on node. First available block: 9",
            "cannot",
        ),
        ("sendTransaction", -32002, TRIED + "Blockhash not found", "answer"),
        ("sendTransaction", -32003, "Transaction signature verification failure", "answer"),
        ("getBlock", -32004, "Block not available for slot 313000000", "cannot"),
        ("getHealth", -32005, "Node is behind by 42 slots", "cannot"),
        ("getHealth", -32005, "Node is unhealthy", "cannot"),
        (
            "sendTransaction",
            -32006,
            "Transaction precompile verification failure SignatureFailure",
            "answer",
        ),
        (
            "getBlock",
            -32007,
            "Slot 7 was skipped, or missing due to ledger jump to recent snapshot",
            "cannot",
        ),
        ("getHighestSnapshotSlot", -32008, "No snapshot", "cannot"),
        ("getBlock", -32009, "Slot 7 was skipped, or missing in long-term storage", "cannot"),
        (
            "getTokenAccountsByOwner",
            -32010,
            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA excluded from account secondary indexes; "
            "this RPC method unavailable for key",
            "cannot",
        ),
        ("getTransaction", -32011, "Transaction history is not available from this node", "cannot"),
        ("getProgramAccounts", -32012, "The accumulated scan results exceeded the limit", "cannot"),
        ("sendTransaction", -32013, "Transaction signature length mismatch", "answer"),
        ("getBlock", -32014, "Block status not yet available for slot 313000000", "cannot"),
        (
            "getTransaction",
            -32015,
            "Transaction version (1) is not supported by the requesting client. Please try the request "
            'again with the following configuration parameter: "maxSupportedTransactionVersion": 1',
            "answer",
        ),
        ("getSlot", -32016, "Minimum context slot has not been reached", "cannot"),
        ("getInflationReward", -32017, "Epoch rewards period still active at slot 7", "cannot"),
        (
            "getInflationReward",
            -32018,
            "Rewards cannot be found because slot 7 is not the epoch boundary. This may be due to gap in "
            "the queried node's local ledger or long-term storage",
            "cannot",
        ),
        (
            "getSignaturesForAddress",
            -32019,
            "Failed to query long-term storage; please try again",
            "cannot",
        ),
        ("getSignaturesForAddress", -32020, "Transaction 5h6xBEauJ3PK6SWC not found", "cannot"),
        ("getTransaction", -32601, "Method not found", "cannot"),
        ("getTransaction", -32603, "Internal error", "cannot"),
        ("getMultipleAccounts", -32602, "Too many inputs provided; max 100", "answer"),
        ("getAccountInfo", -32602, "Invalid param: WrongSize", "answer"),
        ("getSignaturesForAddress", -32602, "blockstore error: the slot is not rooted", "cannot"),
        ("getSlot", -32600, "Invalid request", "cannot"),
        ("getTransaction", -32600, "getTransaction is not available on the free plan", "cannot"),
        (
            "getTransaction",
            429,
            "Too many requests for a specific RPC call, please contact your app developer to further "
            "troubleshoot. If you are using an open endpoint, please consider signing up for your own "
            "subscription to avoid getting rate limited",
            "limited",
        ),
        (
            "sendTransaction",
            429,
            "Connection rate limits exceeded, contact your app developer or support@rpcpool.com.",
            "limited",
        ),
        ("getSlot", -32429, "rate limited", "limited"),
        ("getSlot", -32429, "", "limited"),
        ("getSlot", -32007, "50/second request limit reached - reduce calls per second", "limited"),
        ("getSlot", -32003, "daily request limit reached", "limited"),
        ("getSlot", -32005, "Too many requests, slow down", "limited"),
        ("getSlot", -32012, "credits limited to 6000/sec", "limited"),
        ("getSlot", -32000, "something else", "cannot"),
        ("simulateTransaction", -32000, "something else", "cannot"),
    ],
)
def test_an_error_is_an_answer_or_the_nodes_own_trouble_or_asks_for_patience(
    method: str, code: int, message: str, kind: Kind
) -> None:
    assert DIALECT.kind_of(method, code, message) == kind


@pytest.mark.parametrize("words", ["rate limit", "method not found", "node is behind", "too many requests"])
def test_what_a_transaction_says_is_an_answer_whatever_it_says(words: str) -> None:
    assert DIALECT.kind_of("sendTransaction", -32002, TRIED + words) == "answer"


@pytest.mark.parametrize(
    ("message", "error", "verdict"),
    [
        (TRIED + "This transaction has already been processed", "AlreadyProcessed", "known"),
        (TRIED + "Blockhash not found", "BlockhashNotFound", "expired"),
        (
            TRIED + "Attempt to debit an account but found no record of a prior credit.",
            "AccountNotFound",
            "no_funds",
        ),
        (TRIED + "Insufficient funds for fee", "InsufficientFundsForFee", "no_funds"),
        (
            TRIED + "Transaction results in an account (0) with insufficient funds for rent",
            {"InsufficientFundsForRent": {"account_index": 0}},
            "no_funds",
        ),
        (
            TRIED + "Error processing Instruction 3: custom program error: 0x1",
            {"InstructionError": [3, {"Custom": 1}]},
            "other",
        ),
    ],
)
def test_a_refused_transaction_is_refused_for_a_reason(message: str, error: Any, verdict: Verdict) -> None:
    data = {"err": error, "logs": [], "unitsConsumed": 0}

    assert DIALECT.verdict_of(RpcError(-32002, message, data)) == verdict
    assert DIALECT.verdict_of(RpcError(-32002, message)) == verdict
    assert DIALECT.verdict_of(RpcError(-32002, "no words", data)) == verdict


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        (-32003, "Transaction signature verification failure", None),
        (-32602, "invalid transaction: Transaction failed to sanitize accounts offsets correctly", None),
        (-32602, "decoded solana_transaction::versioned::VersionedTransaction too large: 1300 bytes", None),
        (-32005, "Node is behind by 42 slots", {"numSlotsBehind": 42}),
        (-32002, "", {"err": {}}),
        (-32002, "", {"err": None}),
        (-32002, "", {"err": 7}),
        (-32002, "", ["AlreadyProcessed"]),
        (-32002, "", "AlreadyProcessed"),
    ],
)
def test_of_what_is_refused_for_another_reason_nothing_is_known(code: int, message: str, data: Any) -> None:
    assert DIALECT.verdict_of(RpcError(code, message, data)) == "other"


@given(st.binary(min_size=1, max_size=1232))
def test_a_transaction_goes_out_as_it_is_untried_and_is_not_sent_again_by_the_node(raw: bytes) -> None:
    method, text, config = DIALECT.send_call(raw)

    assert (method, b64decode(text, validate=True)) == ("sendTransaction", raw)
    assert config == {"encoding": "base64", "skipPreflight": True, "maxRetries": 0}
