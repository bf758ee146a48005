"""What an operator should know about a chain before money depends on it: nodes, tags, assets, gas, clock.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from payd.chains.asking import answered, read
from payd.chains.assets import Asset
from payd.chains.defaults import EVM_COIN_DECIMALS
from payd.chains.evm.abi import MULTICALL3, call, decode_text
from payd.chains.evm.answers import Block, decode_block
from payd.chains.evm.asking import decoded, eth_call
from payd.chains.evm.chain import EvmChain
from payd.chains.evm.codec import from_data, from_quantity
from payd.chains.evm.history import remembers
from payd.chains.evm.tokens import Report, examine_tokens
from payd.chains.evm.ways import TOKEN_GAS
from payd.chains.finding import Finding, Level
from payd.chains.rpc import Call, Node, NodesDown
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Unread
from payd.core.caip import parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.money import format_units

# A node that is further behind the others shows payments late, and two of them agree late.
LAG_MAX: Final = 10
# Quotes, expiry and authorizations are by our clock, blocks by the chain's.
CLOCK_OFF_MAX_S: Final = 60
# What came while payd was down is read afterwards, as far as nodes still have it.
HISTORY_MIN_S: Final = 24 * 3600
# The relayer should have gas for so many payments.
PAYMENTS_AHEAD: Final = 20


async def examine(chain: EvmChain, now_ms: int) -> list[Finding]:
    """Everything that can be found out about a chain by asking its nodes; moves nothing.

    Args:
        chain: As it is configured.
        now_ms: Unix milliseconds.
    """
    heads, findings = await _examine_nodes(chain, now_ms)
    if not heads:
        return findings
    try:
        findings += await _examine_assets(chain)
        findings += await _examine_multicall(chain)
        findings += await _examine_relayer(chain)
    except ChainUnavailable:
        findings.append(Finding("error", str(chain.terms.chain), "its nodes stopped answering meanwhile"))
    return findings


async def _examine_nodes(chain: EvmChain, now_ms: int) -> tuple[list[Block], list[Finding]]:
    """The newest block of each node that answers, and what there is to say of all of them."""
    findings: list[Finding] = []
    heads: list[tuple[Node, Block]] = []
    for node in chain.rpc.nodes:
        try:
            results = await chain.rpc.batch(_node_calls(chain), node=node)
            block = decode_block(answered(results[0]))
        except (NodesDown, BadAnswer) as down:
            todo = "Check its URL in [[chains]] rpc, the plan behind it, and that it is a node of this chain."
            findings.append(Finding("error", node.name, str(down).removeprefix(f"{node.name}: "), todo))
            continue
        if block is None:
            findings.append(Finding("error", node.name, "it has no newest block", "Use another node."))
            continue
        heads.append((node, block))
        findings += _tag_findings(chain, node, results[1:])
        findings += await _history_findings(chain, node, block)
    newest = max((block.number for _, block in heads), default=0)
    for node, block in heads:
        findings.append(_head_finding(node, block, newest, now_ms))
    if len(chain.rpc.nodes) == 1:
        words = "there is one node: it alone decides what was paid"
        todo = "Add a second one of another operator to [[chains]] rpc."
        findings.append(Finding("warn", str(chain.terms.chain), words, todo))
    return [block for _, block in heads], findings


def _node_calls(chain: EvmChain) -> list[tuple[str, str, bool]]:
    return [("eth_getBlockByNumber", tag, False) for tag in ("latest", *_tags(chain))]


def _tags(chain: EvmChain) -> list[str]:
    """The tags that depths are given by."""
    used = {step.depth for step in chain.terms.depth.steps} | {chain.terms.final}
    return [tag for tag in ("safe", "finalized") if tag in used]


def _tag_findings(chain: EvmChain, node: Node, results: Sequence[object]) -> list[Finding]:
    findings = []
    for tag, result in zip(_tags(chain), results, strict=True):
        try:
            known = decode_block(answered(result)) is not None
        except BadAnswer:
            known = False
        if known:
            findings.append(Finding("ok", node.name, f'it knows the tag "{tag}"'))
        else:
            todo = "Use a node that does, or give `depth` and `final` of the chain as numbers of blocks."
            findings.append(Finding("error", node.name, f'it does not know the tag "{tag}"', todo))
    return findings


async def _history_findings(chain: EvmChain, node: Node, newest: Block) -> list[Finding]:
    """Whether a node has the logs of a day ago; nothing where the chain is younger."""
    first = newest.number - HISTORY_MIN_S * 1000 // chain.terms.block_ms
    if first < 0:
        return []
    hours = HISTORY_MIN_S // 3600
    try:
        if await remembers(chain.rpc, node, first):
            return [Finding("ok", node.name, f"it has the logs of {hours} h ago")]
        words = f"it has pruned the logs of {hours} h ago"
    except (NodesDown, BadAnswer, Unread) as trouble:
        words = f"it does not tell of the logs of {hours} h ago: {trouble}"
    todo = "Use a node that keeps receipts for days: what is paid while payd is stopped is found by them."
    return [Finding("warn", node.name, words, todo)]


def _head_finding(node: Node, block: Block, newest: int, now_ms: int) -> Finding:
    behind, off_s = newest - block.number, abs(now_ms // 1000 - block.time_s)
    if behind > LAG_MAX:
        return Finding(
            "warn", node.name, f"it is {behind} blocks behind", "Wait until it has caught up, or replace it."
        )
    if off_s > CLOCK_OFF_MAX_S:
        todo = "Check this machine's clock; if it is right, the node or the chain has stopped."
        return Finding("warn", node.name, f"its newest block is {off_s} s off this machine's clock", todo)
    return Finding("ok", node.name, f"it is at block {block.number}")


async def _examine_assets(chain: EvmChain) -> list[Finding]:
    rows = [row for row in chain.book.rows_of(chain.terms.chain) if row.kind != "native"]
    reports = await examine_tokens(chain.rpc, chain.terms.chain, rows)
    symbols = await read(chain.rpc, [_symbol_call(row) for row in rows])
    return [
        _asset_finding(row, report, decoded(symbol, decode_text))
        for row, report, symbol in zip(rows, reports, symbols, strict=True)
    ]


def _symbol_call(row: Asset) -> Call:
    return eth_call(parse_asset(row.asset).reference.lower(), call("symbol", []))


def _asset_finding(row: Asset, report: Report, symbol: str | None) -> Finding:
    subject = f"{row.symbol} {row.asset}"
    problems = "; ".join(report.problems(row))
    if not report.is_payable(row):
        return Finding("error", subject, problems, "It is not offered. Correct its row in [[assets]].")
    if problems:
        todo = "Buyers send transfers and pay their gas. Correct `domain` in its row in [[assets]]."
        return Finding("warn", subject, problems, todo)
    if symbol is not None and symbol != row.symbol:
        todo = "Check that it is the token that you mean."
        return Finding("warn", subject, f"the token calls itself {symbol!a}", todo)
    return Finding("ok", subject, "it is what its row says")


async def _examine_multicall(chain: EvmChain) -> list[Finding]:
    [code] = await read(chain.rpc, [("eth_getCode", MULTICALL3, "latest")])
    subject = f"Multicall3 {MULTICALL3}"
    if _is_there(code):
        return [Finding("ok", subject, "it is there")]
    if chain.terms.fee is not None:
        return [Finding("error", subject, "it is not there, and nothing can carry your fee")]
    return [Finding("warn", subject, "it is not there; balances are read one by one")]


async def _examine_relayer(chain: EvmChain) -> list[Finding]:
    relayer = chain.terms.relayer
    if not chain.terms.sponsor or relayer is None:
        if not chain.terms.sponsor:
            return []
        words, todo = "sponsor is on, but there is no relayer", "Set [relayer] keystore, or sponsor = false."
        return [Finding("warn", str(chain.terms.chain), words, todo)]
    balance, price = await read(chain.rpc, [("eth_getBalance", relayer, "latest"), ("eth_gasPrice",)])
    try:
        has = from_quantity(answered(balance))
        payment = TOKEN_GAS * from_quantity(answered(price))
    except BadAnswer as bad:
        return [Finding("error", relayer, str(bad))]
    shown = f"it has {format_units(has, EVM_COIN_DECIMALS)} native coins"
    if has < payment * PAYMENTS_AHEAD:
        need = format_units(payment * PAYMENTS_AHEAD, EVM_COIN_DECIMALS)
        level: Level = "error" if has < payment else "warn"
        return [Finding(level, relayer, shown, f"Send it {need} or more: gas for {PAYMENTS_AHEAD} payments.")]
    return [Finding("ok", relayer, shown)]


def _is_there(code: object) -> bool:
    try:
        return bool(from_data(answered(code)))
    except BadAnswer:
        return False
