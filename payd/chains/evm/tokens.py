"""What a token's contract says of its row in the asset table, before anybody is asked to pay with it.

A signature over a wrong domain never pays, and wrong decimals ask for ten times too much, or a tenth. So each
row is compared with its chain before it is offered: once a day, and again after a while if it does not fit.

Source: DESIGN.md, "10. Live realm"; EIP-20; EIP-3009; EIP-5267.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import structlog
import trio
from eth_abi.abi import encode

from payd.chains.asking import read, unavailable
from payd.chains.assets import Asset
from payd.chains.evm.abi import (
    authorization_state_call,
    call,
    decimals_call,
    decode_bool,
    decode_uint,
    decode_word,
    domain_separator_call,
)
from payd.chains.evm.asking import decoded, eth_call, refused_by_contract, said
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    domain_separator,
    transfer_with_authorization_call,
)
from payd.chains.evm.codec import ZERO_ADDRESS, from_data
from payd.chains.rpc import Call as RpcCall
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.core.caip import ChainId, parse_asset

log = structlog.get_logger("payd.chains")

# A row that did not fit is compared again after this: the contract may be upgraded, or the node was odd.
AGAIN_MS: Final = 600_000
# So is one that fitted: tokens are upgraded and renamed, and their domain changes with that.
FITS_MS: Final = 86_400_000

# Signatures of 65 bytes go another way; this is what a smart wallet's may look like.
_LONG_SIGNATURE: Final = bytes(96)
# The parts that an EIP-5267 domain has: name, version, chain and contract, and neither salt nor extensions.
_PARTS: Final = b"\x0f"
_DESCRIPTION: Final = ("bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]")


class Report(msgspec.Struct, frozen=True):
    """What a token says.

    Attributes:
        has_code: There is a contract.
        decimals: None: it does not say, as EIP-20 allows.
        domain_fits: The row's EIP-712 domain is the token's; None: the token says nothing that it can be
            compared with.
        has_states: It tells of used authorizations, as EIP-3009 asks.
        takes_bytes: It takes signatures of any length, as smart wallets have them.
    """

    has_code: bool
    decimals: int | None = None
    domain_fits: bool | None = None
    has_states: bool = False
    takes_bytes: bool = False

    def problems(self, row: Asset) -> tuple[str, ...]:
        """What is wrong with the row, in words; the first two kinds stop any offer, others only signing."""
        if not self.has_code:
            return ("there is no contract at this address",)
        found = []
        if self.decimals not in (None, row.decimals):
            found.append(f"the token has {self.decimals} decimals, the row {row.decimals}")
        if row.kind == "eip3009":
            if self.domain_fits is None:
                found.append("the token does not tell its EIP-712 domain")
            elif not self.domain_fits:
                found.append("the EIP-712 domain of the row (name and version) is not the token's")
            if not self.has_states:
                found.append("the token has no authorizationState: it does not take signed transfers")
        return tuple(found)

    def is_payable(self, row: Asset) -> bool:
        """Whether amounts of the row are amounts of the token."""
        return self.has_code and self.decimals in (None, row.decimals)

    def is_signable(self, row: Asset) -> bool:
        """Whether a signature over the row's domain pays."""
        return row.kind == "eip3009" and self.is_payable(row) and bool(self.domain_fits) and self.has_states


class Tokens:
    """The rows of one chain, compared with it.

    Args:
        rpc: The chain's nodes.
        chain: Canonical.
    """

    def __init__(self, rpc: Rpc, chain: ChainId) -> None:
        self._rpc = rpc
        self._chain = chain
        # Bounded by the rows of the book, as what was told of them.
        self._reports: dict[str, tuple[int, Report]] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._lock = trio.Lock()

    async def read(self, rows: Iterable[Asset], now_ms: int) -> None:
        """Compare those rows that were not yet, or a while ago; all in one go.

        Raises:
            ChainUnavailable: No node answers.
        """
        async with self._lock:
            missing = [row for row in dict.fromkeys(rows) if not self._knows(row, now_ms)]
            if not missing:
                return
            for row, report in zip(
                missing, await examine_tokens(self._rpc, self._chain, missing), strict=True
            ):
                self._reports[row.asset] = (now_ms, report)
                self._tell(row, report)

    async def report(self, row: Asset, now_ms: int) -> Report:
        """What the token of a row says; from memory where that was asked a while ago at most.

        Raises:
            ChainUnavailable: No node answers.
        """
        await self.read([row], now_ms)
        return self._reports[row.asset][1]

    def _knows(self, row: Asset, now_ms: int) -> bool:
        kept = self._reports.get(row.asset)
        if kept is None:
            return False
        at_ms, report = kept
        return 0 <= now_ms - at_ms < (AGAIN_MS if report.problems(row) else FITS_MS)

    def _tell(self, row: Asset, report: Report) -> None:
        """Log what is wrong with a row, once for each thing that is."""
        problems = report.problems(row)
        if problems and problems != self._told.get(row.asset):
            sent = report.is_payable(row)
            log.error(
                "asset.mismatch",
                asset=row.asset,
                symbol=row.symbol,
                problems=problems,
                consequence="buyers send transfers of it" if sent else "it is not offered",
            )
        self._told[row.asset] = problems


async def examine_tokens(rpc: Rpc, chain: ChainId, rows: Sequence[Asset]) -> list[Report]:
    """Compare rows of tokens with the chain; a report for each.

    Raises:
        ChainUnavailable: No node answers.
    """
    calls = [call for row in rows for call in _calls(row)]
    results = await read(rpc, calls)
    count = len(calls) // max(1, len(rows))
    return [
        _report(domain_of(row, chain), results[place * count : (place + 1) * count])
        for place, row in enumerate(rows)
    ]


def _calls(row: Asset) -> list[RpcCall]:
    token = parse_asset(row.asset).reference.lower()
    return [
        ("eth_getCode", token, "latest"),
        eth_call(token, decimals_call()),
        eth_call(token, domain_separator_call()),
        eth_call(token, call("eip712Domain", [])),
        eth_call(token, authorization_state_call(ZERO_ADDRESS, bytes(32))),
        eth_call(token, _expired(token)),
    ]


def _report(domain: TokenDomain | None, results: Results) -> Report:
    code, decimals, separator, described, state, long = results
    if isinstance(code, RpcError):
        # No contract refuses to be read: the node is in trouble, whatever its words for it are.
        raise unavailable(code)
    try:
        has_code = bool(from_data(code))
    except BadAnswer as bad:
        raise unavailable(bad) from bad
    if not has_code:
        return Report(has_code=False)
    return Report(
        has_code=True,
        decimals=decoded(decimals, decode_uint),
        domain_fits=None if domain is None else _fits(domain, separator, described),
        has_states=decoded(state, decode_bool) is not None,
        takes_bytes=_has_words(long),
    )


def domain_of(row: Asset, chain: ChainId) -> TokenDomain | None:
    """The EIP-712 domain of a row; None where it has none."""
    if row.domain is None:
        return None
    token = parse_asset(row.asset).reference.lower()
    return TokenDomain(row.domain.name, row.domain.version, int(chain.reference), token)


def _fits(domain: TokenDomain, separator: object, described: object) -> bool | None:
    """Whether the domain is the token's, by its separator or else by its description."""
    own = decoded(separator, decode_word)
    if own is not None:
        return own == domain_separator(domain)
    if isinstance(described, RpcError) or not described:
        return None
    told = decoded(described, lambda data: data)
    return told == encode(_DESCRIPTION, _described(domain)) if told else None


def _described(domain: TokenDomain) -> list[object]:
    return [_PARTS, domain.name, domain.version, domain.chain_id, domain.token, bytes(32), []]


def _expired(token: str) -> bytes:
    """An authorization in the form for smart wallets, that no token carries out: it ended in 1970."""
    domain = TokenDomain("", "", 0, token)
    authorization = Authorization(domain, ZERO_ADDRESS, ZERO_ADDRESS, 0, 0, bytes(32))
    return transfer_with_authorization_call(authorization, _LONG_SIGNATURE)


def _has_words(result: object) -> bool:
    """Whether a contract refused a call for a reason; one that does not have the function gives none."""
    if not refused_by_contract(result):
        return False
    assert isinstance(result, RpcError)
    return bool(said(result)) or (isinstance(result.data, str) and len(result.data) > len("0x"))
