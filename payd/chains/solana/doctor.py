"""What an operator should know of a Solana chain before money depends on it: nodes, history, assets, SOL.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from solders.pubkey import Pubkey

from payd.chains.asking import answered, read, read_one
from payd.chains.assets import Asset
from payd.chains.defaults import SOL_DECIMALS
from payd.chains.finding import Finding, Level
from payd.chains.rpc import Call, Node, NodesDown
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.socket import Socket, converse
from payd.chains.solana.accounts import decode_holding
from payd.chains.solana.answers import (
    Account,
    Clock,
    decode_accounts,
    decode_clock,
    decode_count,
    decode_listing,
)
from payd.chains.solana.asking import (
    FIRST_SLOT_CALL,
    account_calls,
    clock_call,
    listing_call,
    rent_call,
    slot_call,
)
from payd.chains.solana.build import DEFAULT_UNITS, network_fee
from payd.chains.solana.chain import SolanaChain
from payd.chains.solana.keys import CLOCK, TOKEN, token_account
from payd.chains.solana.mints import mint_key, mint_problem, program_of
from payd.chains.solana.priority import PRICE_MIN
from payd.core.errors import ChainUnavailable
from payd.core.money import format_units

# Slots. A node that is further behind the others shows payments late, and two of them agree late.
LAG_MAX: Final = 50
# Quotes and expiry are by our clock, transfers by the chain's.
CLOCK_OFF_MAX_S: Final = 60
# What came while payd was down is read afterwards, as far as nodes still have it.
HISTORY_MIN_S: Final = 24 * 3600
# The fee payer should have SOL for so many payments.
PAYMENTS_AHEAD: Final = 20
_SIGNERS: Final = 2


async def examine(chain: SolanaChain, now_ms: int, ws: str | None = None) -> list[Finding]:
    """Everything that can be found out about a chain by asking its nodes; moves nothing.

    Args:
        chain: As it is configured.
        now_ms: Unix milliseconds.
        ws: The URL of the websocket that tells of news; None: there is none.
    """
    clock, findings = await _examine_nodes(chain, now_ms)
    if clock is None:
        return findings
    if ws is not None:
        findings.append(await _examine_websocket(ws))
    try:
        findings += await _examine_assets(chain, clock)
        findings += await _examine_operator(chain)
        findings += await _examine_fee_payer(chain)
    except ChainUnavailable:
        findings.append(Finding("error", str(chain.terms.chain), "its nodes stopped answering meanwhile"))
    return findings


# Nodes.


class _Seen(msgspec.Struct, frozen=True):
    """What a node shows of itself."""

    node: Node
    slot: int
    clock: Clock


async def _examine_nodes(chain: SolanaChain, now_ms: int) -> tuple[Clock | None, list[Finding]]:
    """The newest clock, None where no node has one; and what there is to say of all nodes."""
    findings: list[Finding] = []
    seen: list[_Seen] = []
    for node in chain.rpc.nodes:
        try:
            results = await chain.rpc.batch(_node_calls(), node=node)
            seen.append(_read(node, results))
        except (NodesDown, BadAnswer) as down:
            todo = "Check its URL in [[chains]] rpc, the plan behind it, and that it is a node of this chain."
            findings.append(Finding("error", node.name, str(down).removeprefix(f"{node.name}: "), todo))
            continue
        findings += [_health(node, results), _history(chain, node, results)]
    newest = max((one.slot for one in seen), default=0)
    findings += [_head(one, newest, now_ms) for one in seen]
    if len(chain.rpc.nodes) == 1:
        words = "there is one node: it alone decides what was paid"
        todo = "Add a second one of another operator to [[chains]] rpc."
        findings.append(Finding("warn", str(chain.terms.chain), words, todo))
    clock = max((one.clock for one in seen), key=lambda one: one.slot, default=None)
    return clock, findings


def _node_calls() -> list[Call]:
    return [
        slot_call("confirmed"),
        clock_call("confirmed"),
        ("getHealth",),
        FIRST_SLOT_CALL,
        listing_call(TOKEN, limit=1),
    ]


def _read(node: Node, results: Results) -> _Seen:
    _, [account] = decode_accounts(answered(results[1]), 1)
    if account is None:
        raise BadAnswer("it has no clock")
    return _Seen(node, decode_count(answered(results[0]), "the slot"), decode_clock(account.data))


def _health(node: Node, results: Results) -> Finding:
    try:
        if answered(results[2]) == "ok":
            return Finding("ok", node.name, "it says that it is well")
        words = "it does not say that it is well"
    except BadAnswer as bad:
        words = f"it says that it is not well: {bad}"
    return Finding("warn", node.name, words, "Wait until it has caught up, or use another node.")


def _history(chain: SolanaChain, node: Node, results: Results) -> Finding:
    """How far back a node knows transactions; it has to list them by account, too."""
    try:
        decode_listing(answered(results[4]))
        first = decode_count(answered(results[3]), "the first slot")
        slot = decode_count(answered(results[0]), "the slot")
    except BadAnswer as bad:
        todo = "Use a node that keeps the history of transactions and indexes it by account."
        return Finding("error", node.name, f"it does not tell what was paid: {bad}", todo)
    kept_s = (slot - first) * chain.terms.block_ms // 1000
    if first > 0 and kept_s < HISTORY_MIN_S:
        words = f"it keeps transactions for {kept_s // 3600} h: what is older is not found any more"
        return Finding("warn", node.name, words, "Use a node that keeps them for days.")
    return Finding("ok", node.name, "it keeps the history of transactions")


def _head(seen: _Seen, newest: int, now_ms: int) -> Finding:
    behind, off_s = newest - seen.slot, abs(now_ms // 1000 - seen.clock.time_s)
    name = seen.node.name
    if behind > LAG_MAX:
        return Finding(
            "warn", name, f"it is {behind} slots behind", "Wait until it has caught up, or replace it."
        )
    if off_s > CLOCK_OFF_MAX_S:
        todo = "Check this machine's clock; if it is right, the node or the chain has stopped."
        return Finding("warn", name, f"its newest slot is {off_s} s off this machine's clock", todo)
    return Finding("ok", name, f"it is at slot {seen.slot}")


async def _examine_websocket(ws: str) -> Finding:
    """Whether the websocket takes the subscription that tells of payments."""
    taken: list[bool] = []

    async def subscribe(socket: Socket) -> None:
        await socket.send(("logsSubscribe", {"mentions": [str(CLOCK)]}, {"commitment": "confirmed"}), 1)
        taken.append(_is_taken(await socket.next()))

    subject = "its websocket"
    ended = await converse(ws, subscribe)
    if taken == [True]:
        return Finding("ok", subject, "it takes subscriptions")
    words = "it does not take subscriptions" if taken else ended
    todo = "Correct ws in [[chains]]; without it payments show a little later."
    return Finding("warn", subject, words, todo)


def _is_taken(message: str | bytes) -> bool:
    try:
        answer = msgspec.json.decode(message)
    except msgspec.DecodeError:
        return False
    return isinstance(answer, dict) and isinstance(answer.get("result"), int)


# Assets.


async def _examine_assets(chain: SolanaChain, clock: Clock) -> list[Finding]:
    rows = _tokens(chain)
    accounts = await _accounts(chain, [mint_key(row) for row in rows])
    return [_asset_finding(row, account, clock.epoch) for row, account in zip(rows, accounts, strict=True)]


def _asset_finding(row: Asset, account: Account | None, epoch: int) -> Finding:
    subject = f"{row.symbol} {row.asset}"
    problem = mint_problem(row, account, epoch)
    if problem is not None:
        return Finding("error", subject, problem, "It is not offered. Correct its row in [[assets]].")
    return Finding("ok", subject, "it is what its row says")


async def _examine_operator(chain: SolanaChain) -> list[Finding]:
    """Whether the operator's fee has a place to go in each token."""
    fee, rows = chain.terms.fee, _tokens(chain)
    if fee is None:
        return []
    owner = Pubkey.from_string(fee.address)
    places = [token_account(owner, mint_key(row), program_of(row)) for row in rows]
    accounts = await _accounts(chain, places)
    lost = "nothing is offered in it" if fee.mandatory else "it is offered without a fee"
    level: Level = "error" if fee.mandatory else "warn"
    todo = f"Create the token account of {owner} for it, by sending it a little of the token."
    return [
        Finding("ok", f"your fee in {row.symbol}", "it has a token account to go to")
        if _is_held_by(account, owner)
        else Finding(level, f"your fee in {row.symbol}", f"there is no token account for it: {lost}", todo)
        for row, account in zip(rows, accounts, strict=True)
    ]


def _is_held_by(account: Account | None, owner: Pubkey) -> bool:
    if account is None:
        return False
    try:
        holding = decode_holding(account.owner, account.data)
    except BadAnswer:
        return False
    return holding.owner == owner and holding.problem() is None


# SOL.


async def _examine_fee_payer(chain: SolanaChain) -> list[Finding]:
    terms = chain.terms
    if not terms.sponsor:
        return []
    if terms.fee_payer is None:
        words, todo = "sponsor is on, but there is no key", "Set [relayer] keystore, or sponsor = false."
        return [Finding("warn", str(terms.chain), words, todo)]
    [account] = await _accounts(chain, [terms.fee_payer])
    [rent] = await read(chain.rpc, [rent_call(0)])
    subject, has = str(terms.fee_payer), 0 if account is None else account.lamports
    try:
        left = has - decode_count(answered(rent), "the rent")
    except BadAnswer as bad:
        return [Finding("error", subject, str(bad))]
    payment = network_fee(_SIGNERS, DEFAULT_UNITS, min(PRICE_MIN, terms.price_max))
    shown = f"it has {format_units(has, SOL_DECIMALS)} SOL"
    if left < payment * PAYMENTS_AHEAD:
        need = format_units(payment * PAYMENTS_AHEAD + has - left, SOL_DECIMALS)
        level: Level = "error" if left < payment else "warn"
        todo = (
            f"Send it {need} SOL or more: fees for {PAYMENTS_AHEAD} payments, and what an account must keep."
        )
        return [Finding(level, subject, shown, todo)]
    return [Finding("ok", subject, shown)]


def _tokens(chain: SolanaChain) -> list[Asset]:
    return [row for row in chain.book.rows_of(chain.terms.chain) if row.kind == "spl"]


async def _accounts(chain: SolanaChain, addresses: Sequence[Pubkey]) -> list[Account | None]:
    """The accounts at these addresses.

    Raises:
        ChainUnavailable: No node answers, or not so that it can be read.
    """
    found: list[Account | None] = []
    for call in account_calls(addresses):
        found += (await read_one(chain.rpc, call, partial(decode_accounts, count=len(call[1]))))[1]
    return found
