"""Nodes of EVM chains are asked in their own way, and their errors read for what they mean."""

from __future__ import annotations

import pytest

from payd.chains.evm.dialect import EvmDialect, classify, kind_of, read_number
from payd.chains.rpc_errors import Kind, RpcError, Verdict


@pytest.mark.parametrize(
    ("method", "code", "message", "kind"),
    [
        ("eth_call", 3, "execution reverted: FiatToken: invalid signature", "answer"),
        ("eth_call", -32000, "execution reverted", "answer"),
        ("eth_call", -32015, "VM execution error.", "answer"),
        ("eth_call", -32000, "insufficient funds for gas * price + value", "answer"),
        ("eth_estimateGas", -32000, "gas required exceeds allowance (21000)", "answer"),
        ("eth_sendRawTransaction", -32000, "nonce too low", "answer"),
        ("eth_sendRawTransaction", -32000, "replacement transaction underpriced", "answer"),
        ("eth_call", -32602, "invalid argument 0", "answer"),
        ("eth_foo", -32601, "the method eth_foo does not exist/is not available", "cannot"),
        ("eth_foo", -32000, "Unsupported method: eth_foo", "cannot"),
        ("eth_call", -32000, "header not found", "cannot"),
        ("eth_call", -32000, "missing trie node 12ab (path )", "cannot"),
        ("eth_call", -39001, "Unknown block", "cannot"),
        ("eth_call", -32602, "BlockOutOfRangeError: block height is 0 but requested was 100", "cannot"),
        ("eth_call", -32000, "required historical state unavailable", "cannot"),
        ("eth_getBlockByNumber", -32000, "finalized block not found", "cannot"),
        ("eth_getBlockByNumber", -32000, "cannot query unfinalized data", "cannot"),
        ("eth_getLogs", -32000, "block range extends beyond current head block", "cannot"),
        ("eth_getLogs", -32000, "One of the blocks specified in filter cannot be found.", "cannot"),
        ("eth_call", -32603, "Internal error", "cannot"),
        ("eth_call", -32603, "Internal server error", "cannot"),
        ("eth_call", -32603, "Internal JSON-RPC error.", "cannot"),
        ("eth_call", -32010, "backend offline", "cannot"),
        ("eth_call", -32011, "no backends available for method", "cannot"),
        ("eth_call", -32011, "no backend is currently healthy to serve traffic", "cannot"),
        ("eth_call", -32012, "backend is over capacity", "limited"),
        ("eth_call", -32013, "backend returned an invalid response", "cannot"),
        ("eth_call", -32015, "gateway timeout", "cannot"),
        ("eth_call", -32018, "backend is currently not healthy to serve traffic", "cannot"),
        ("eth_getBlockByNumber", -32019, "block is out of range", "cannot"),
        ("eth_getLogs", -32019, "block is out of range", "cannot"),
        ("eth_getTransactionReceipt", -32000, "transaction indexing is in progress", "cannot"),
        ("eth_call", -32000, "execution aborted (timeout = 5s)", "cannot"),
        ("eth_call", -32000, "502 Bad Gateway: upstream connect error", "cannot"),
        ("eth_call", -32000, "the service is temporarily unavailable", "cannot"),
        ("eth_getLogs", -32000, "invalid block range params", "answer"),
        ("eth_getLogs", -32005, "query returned more than 10000 results", "too_wide"),
        ("eth_getLogs", -32005, "limit exceeded", "too_wide"),
        ("eth_getLogs", -32602, "Log response size exceeded. You can make requests", "too_wide"),
        ("eth_getLogs", -32614, "eth_getLogs is limited to a 10,000 range", "too_wide"),
        ("eth_getLogs", -32701, "exceed maximum block range: 50000", "too_wide"),
        ("eth_getLogs", -32600, "Block range is too large", "too_wide"),
        ("eth_getLogs", -32047, "Max range: 800", "too_wide"),
        ("eth_getLogs", 35, "ranges over 10000 blocks are not supported on freetier", "too_wide"),
        ("eth_getLogs", -32005, "logs matched by query exceeds limit of 10000", "too_wide"),
        ("eth_getLogs", -32005, "please limit the query to at most 1000 blocks", "too_wide"),
        ("eth_getLogs", -32005, "method eth_getLogs in batch triggered rate limit", "limited"),
        ("eth_getLogs", -32005, "block range extends beyond current head block", "limited"),
        ("eth_call", -32055, "No nodes available", "cannot"),
        ("eth_call", -32046, "Cannot fulfill request", "cannot"),
        ("eth_call", -32000, "Archive requests are not available on your current plan.", "cannot"),
        ("eth_call", -32603, "request failed or timed out", "cannot"),
        ("eth_getLogs", -32005, "daily request count exceeded, request rate limited", "limited"),
        ("eth_call", -32005, "limit exceeded", "limited"),
        ("eth_call", 429, "Your app has exceeded its compute units per second capacity.", "limited"),
        ("eth_call", -32000, "Too Many Requests", "limited"),
        ("eth_call", -32007, "100/second request limit reached", "limited"),
        ("eth_call", -32012, "credits limited to 6000/sec", "limited"),
        ("eth_call", -32005, "You've exceeded the RPS limit available on the current plan.", "limited"),
        ("eth_call", -32001, "You've reached the usage limit for your current plan.", "limited"),
        ("eth_call", -32000, "Monthly capacity limit exceeded.", "limited"),
        ("eth_call", -32000, "Unauthorized: You must authenticate your request with an API key.", "limited"),
        ("eth_getBalance", -32046, "Cannot fulfill request", "cannot"),
        ("eth_getCode", -32055, "No nodes available", "cannot"),
        ("eth_gasPrice", 19, "Blast API is no longer available. Please update your integration", "cannot"),
        ("eth_getBlockByNumber", -32000, "words that nobody knows", "cannot"),
        ("eth_call", -32000, "words that nobody knows", "answer"),
    ],
)
def test_an_error_is_an_answer_or_a_range_too_wide_or_the_nodes_own_trouble(
    method: str, code: int, message: str, kind: Kind
) -> None:
    assert kind_of(method, code, message) == kind


def test_what_a_contract_says_is_an_answer_whatever_it_says() -> None:
    trouble = ("header not found", "method not found", "gateway timeout")
    for words in ("rate limit exceeded", "too many requests", "over capacity", *trouble):
        assert kind_of("eth_call", 3, words) == "answer"
        assert kind_of("eth_call", -32000, f"execution reverted: {words}") == "answer"


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("already known", "known"),
        ("transaction already imported", "known"),
        ("Known transaction", "known"),
        ("ALREADY_EXISTS: already known", "known"),
        ("AlreadyKnown", "known"),
        ("INTERNAL_ERROR: existing tx with same hash", "known"),
        ("unknown transaction type", "other"),
        ("nonce too low: next nonce 5, tx nonce 4", "nonce_low"),
        ("Transaction nonce is too low. Try incrementing the nonce.", "nonce_low"),
        ("OldNonce, Current nonce: 5", "nonce_low"),
        ("nonce too high", "nonce_high"),
        ("transaction nonce exceeds next nonce", "nonce_high"),
        ("tx-nonce-too-high", "nonce_high"),
        ("nonce out of range", "nonce_high"),
        ("Transaction nonce is too distant from current sender nonce", "nonce_high"),
        ("replacement transaction underpriced", "underpriced"),
        ("transaction underpriced: gas tip cap 1, minimum needed 1000000", "underpriced"),
        ("INTERNAL_ERROR: could not replace existing tx", "underpriced"),
        ("max fee per gas less than block base fee: address 0xab", "fee_low"),
        ("gas price less than block base fee", "fee_low"),
        ("transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000", "fee_low"),
        ("transaction priority fee below minimum required priority fee 1", "fee_low"),
        ("Gas price below configured minimum gas price", "fee_low"),
        ("gas price too low: 18000000000 wei, use at least tx.gasPrice = 19500000000 wei", "fee_low"),
        ("fee too low", "fee_low"),
        ("FeeTooLow, EffectivePriorityFeePerGas too low 10 < 20, BaseFee: 30", "fee_low"),
        ("Gas price below current base fee", "fee_low"),
        ("NonceTooFarInFuture", "nonce_high"),
        ("not enough balance to cover the fee. error message: x", "no_funds"),
        ("insufficient funds for gas * price + value: balance 0", "no_funds"),
        ("Upfront cost exceeds account balance", "no_funds"),
        ("insufficient balance for transfer", "no_funds"),
        ("not enough funds for gas", "no_funds"),
        ("transaction would cause overdraft", "no_funds"),
        ("submit transaction to pool failed: Pool(AlreadyImported(Any { .. }))", "known"),
        ("submit transaction to pool failed: Pool(TooLowPriority { old: 2, new: 1 })", "underpriced"),
        (
            "submit transaction to pool failed: Pool(InvalidTransaction(InvalidTransaction::Stale))",
            "nonce_low",
        ),
        (
            "submit transaction to pool failed: Pool(InvalidTransaction(InvalidTransaction::Future))",
            "nonce_high",
        ),
        (
            "submit transaction to pool failed: Pool(InvalidTransaction(InvalidTransaction::Payment))",
            "no_funds",
        ),
        ("submit transaction to pool failed: Pool(TemporarilyBanned)", "down"),
        ("intrinsic gas too low", "other"),
        ("exceeds block gas limit", "other"),
        ("failed to forward tx to sequencer, please try again. Error: 'nonce too low'", "nonce_low"),
        ("failed to forward tx to sequencer, please try again. Error: 'intrinsic gas'", "other"),
        ('failed to forward tx to sequencer: Post "https://seq": context deadline exceeded', "down"),
        ("sequencer temporarily not available", "down"),
        ("503 Service Unavailable: upstream", "down"),
        ("Internal error", "down"),
        ("txpool is full", "down"),
        ("pending sub-pool is full", "down"),
        ("sequencer pending tx pool full, please try again", "down"),
        ("queue full", "down"),
        ("tx dropped due to L2 congestion", "down"),
        ("please retry transaction", "down"),
        ("network is unreachable", "down"),
        ('Post "http://seq:8547/rpc": dial tcp6: address seq: no suitable address found', "down"),
        ('failed to forward tx to sequencer: Post "https://seq": EOF', "down"),
        ("GRPC Context cancellation", "down"),
        ("Unable to complete request at this time.", "down"),
        ("Can't route your request to suitable provider, if you specified some, revise the list", "down"),
        ("no available upstreams to process a request. Cause - node-1", "down"),
        ("no backend is currently healthy to serve traffic", "down"),
        ("", "other"),
    ],
)
def test_a_refused_transaction_is_refused_for_a_reason(message: str, verdict: Verdict) -> None:
    assert classify(message) == verdict


def test_a_chain_is_called_by_its_number_and_its_head_too() -> None:
    dialect = EvmDialect(8453)

    assert (dialect.chain, dialect.identity_call, dialect.head_call) == (
        8453,
        ("eth_chainId",),
        ("eth_blockNumber",),
    )
    assert dialect.identity_in("0x2105") == dialect.chain
    assert dialect.head_in(("eth_blockNumber",), "0x10") == 16
    assert dialect.head_in(("eth_getBlockByNumber", "latest", True), {"number": "0x11"}) == 17
    assert dialect.head_in(("eth_getBlockByNumber", "0x1", True), {"number": "0x1"}) is None
    assert dialect.head_in(("eth_chainId",), "0x2105") is None


def test_a_transaction_goes_out_as_hex_and_is_judged_by_the_words() -> None:
    dialect = EvmDialect(8453)

    assert dialect.send_call(b"\x02\xf8") == ("eth_sendRawTransaction", "0x02f8")
    assert dialect.verdict_of(RpcError(-32000, "nonce too low")) == "nonce_low"
    assert dialect.kind_of("eth_getLogs", -32005, "limit exceeded") == "too_wide"


@pytest.mark.parametrize("said", ["0x", "8453", None, 8453, "0x" + "1" * 17, "-0x1", "0xg"])
def test_what_is_no_number_is_none(said: object) -> None:
    assert read_number(said) is None
