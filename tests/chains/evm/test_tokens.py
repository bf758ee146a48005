"""Rows of tokens against the chain: what stops an offer, what stops signing only, and how often is asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from eth_abi.abi import encode
from structlog.testing import capture_logs

from payd.chains.assets import Asset, Domain
from payd.chains.evm.authorization import TokenDomain, domain_separator
from payd.chains.evm.tokens import AGAIN_MS, FITS_MS, Report, Tokens, examine_tokens
from payd.core.errors import ChainUnavailable
from tests.chains.evm.scene import CHAIN, Scene, dai_row, usdc_row
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.live.chain import calldata

NOW_MS = 1_780_000_000_000
TOKEN = "0x" + "7c" * 20
ROW = usdc_row(TOKEN)
DOMAIN = TokenDomain("USD Coin", "2", 31337, TOKEN)
EXPIRED = Says(3, "execution reverted: authorization is expired")

Calls = dict[str, Any]
"""What a token says by the beginning of the calldata."""


def selector(signature: str, *values: Any) -> str:
    return "0x" + calldata(signature, *values)[:4].hex()


DECIMALS = selector("decimals()")
SEPARATOR = selector("DOMAIN_SEPARATOR()")
DESCRIPTION = selector("eip712Domain()")
STATE = selector("authorizationState(address,bytes32)", TOKEN, bytes(32))
SIX = "0x" + (6).to_bytes(32, "big").hex()
NO = "0x" + "00" * 32
NONE = Says(3, "execution reverted", "0x")

USDC: Calls = {DECIMALS: SIX, SEPARATOR: "0x" + domain_separator(DOMAIN).hex(), STATE: NO, "other": EXPIRED}


def described(domain: TokenDomain, parts: bytes = b"\x0f") -> str:
    types = ["bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"]
    values = [parts, domain.name, domain.version, domain.chain_id, domain.token, bytes(32), []]
    return "0x" + encode(types, values).hex()


def token_node(calls: Calls, code: str = "0x60") -> FakeNode:
    def answer(transaction: dict[str, str], block: str) -> Any:
        found = transaction["data"][:10]
        return calls.get(found, calls["other"] if found not in (DESCRIPTION, SEPARATOR) else NONE)

    return FakeNode({"eth_call": answer, "eth_getCode": code}, chain_id=31337)


async def report_on(calls: Calls, row: Asset = ROW, code: str = "0x60") -> Report:
    async with open_rpc(token_node(calls, code), chain_id=31337) as rpc:
        [report] = await examine_tokens(rpc, CHAIN, [row])
        return report


async def test_a_token_that_is_what_its_row_says_can_be_signed_for() -> None:
    report = await report_on(USDC)

    assert report == Report(has_code=True, decimals=6, domain_fits=True, has_states=True, takes_bytes=True)
    assert report.is_payable(ROW)
    assert report.is_signable(ROW)
    assert report.problems(ROW) == ()


async def test_an_address_without_code_is_never_offered() -> None:
    report = await report_on(USDC, code="0x")

    assert not report.is_payable(ROW)
    assert not report.is_signable(ROW)
    assert report.problems(ROW)


async def test_other_decimals_stop_every_offer() -> None:
    report = await report_on({**USDC, DECIMALS: "0x" + (18).to_bytes(32, "big").hex()})

    assert not report.is_payable(ROW)
    assert not report.is_signable(ROW)
    assert "18 decimals" in report.problems(ROW)[0]


async def test_a_token_that_does_not_tell_its_decimals_is_taken_by_its_row() -> None:
    report = await report_on({**USDC, DECIMALS: NONE})

    assert report.decimals is None
    assert report.is_signable(ROW)


@pytest.mark.parametrize("domain", [Domain("USDC", "2"), Domain("USD Coin", "1")])
async def test_a_domain_that_is_not_the_tokens_stops_signing_only(domain: Domain) -> None:
    row = msgspec.structs.replace(ROW, domain=domain)
    report = await report_on(USDC, row)

    assert report.domain_fits is False
    assert report.is_payable(row)
    assert not report.is_signable(row)


@pytest.mark.parametrize(
    ("description", "fits"),
    [
        (described(DOMAIN), True),
        (described(TokenDomain("USD Coin", "3", 31337, TOKEN)), False),
        (described(TokenDomain("USD Coin", "2", 1, TOKEN)), False),
        (described(TokenDomain("USD Coin", "2", 31337, "0x" + "00" * 20)), False),
        (described(DOMAIN, b"\x1f"), False),
        ("0x", None),
        (NONE, None),
        ("no hex", None),
    ],
)
async def test_a_token_without_a_separator_is_taken_at_its_description(
    description: Any, fits: bool | None
) -> None:
    report = await report_on({**USDC, SEPARATOR: NONE, DESCRIPTION: description})

    assert report.domain_fits is fits
    assert report.is_signable(ROW) is (fits is True)
    assert report.is_payable(ROW)


@pytest.mark.parametrize("state", [NONE, "0x", "0x" + "02".rjust(64, "0")])
async def test_a_token_that_tells_nothing_of_authorizations_takes_none(state: Any) -> None:
    report = await report_on({**USDC, STATE: state})

    assert not report.is_signable(ROW)
    assert report.is_payable(ROW)


@pytest.mark.parametrize(
    ("answer", "takes"),
    [
        (EXPIRED, True),
        (Says(3, "execution reverted", "0x0f05f5bf"), True),
        (NONE, False),
        (Says(3, "execution reverted"), False),
        ("0x", False),
    ],
)
async def test_signatures_of_smart_wallets_go_where_the_longer_form_has_an_answer(
    answer: Any, takes: bool
) -> None:
    assert (await report_on({**USDC, "other": answer})).takes_bytes is takes


async def test_a_row_without_signing_needs_no_domain() -> None:
    row = dai_row(TOKEN)
    report = await report_on({DECIMALS: SIX, "other": NONE}, row)

    assert report.is_payable(row)
    assert not report.is_signable(row)
    assert report.problems(row) == ()


async def test_a_row_that_fits_is_compared_once_a_day() -> None:
    node = token_node(USDC)
    async with open_rpc(node, chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(tokens.report, ROW, NOW_MS)
        await tokens.report(ROW, NOW_MS + FITS_MS - 1)

    assert node.count("eth_getCode") == 1


async def test_a_token_that_is_renamed_while_the_server_runs_is_not_signed_for_by_its_old_domain() -> None:
    calls = dict(USDC)
    async with open_rpc(token_node(calls), chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        assert (await tokens.report(ROW, NOW_MS)).is_signable(ROW)
        calls[SEPARATOR] = "0x" + domain_separator(msgspec.structs.replace(DOMAIN, name="USD0")).hex()

        assert not (await tokens.report(ROW, NOW_MS + FITS_MS)).is_signable(ROW)


async def test_a_row_that_does_not_fit_is_told_once_and_compared_again_after_a_while() -> None:
    calls = {**USDC, SEPARATOR: NO}
    node = token_node(calls)
    async with open_rpc(node, chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        with capture_logs() as logs:
            for later_ms in (0, 1, AGAIN_MS - 1, AGAIN_MS):
                assert not (await tokens.report(ROW, NOW_MS + later_ms)).is_signable(ROW)
        assert node.count("eth_getCode") == 2
        assert [entry["event"] for entry in logs] == ["asset.mismatch"]

        calls[SEPARATOR] = USDC[SEPARATOR]
        assert (await tokens.report(ROW, NOW_MS + 3 * AGAIN_MS)).is_signable(ROW)


async def test_what_is_wrong_with_a_row_again_is_told_again() -> None:
    calls = dict(USDC)
    async with open_rpc(token_node(calls), chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        with capture_logs() as logs:
            for days, separator in enumerate((NO, USDC[SEPARATOR], NO)):
                calls[SEPARATOR] = separator
                await tokens.report(ROW, NOW_MS + days * FITS_MS)

    assert [entry["event"] for entry in logs] == ["asset.mismatch"] * 2


async def test_a_clock_that_is_set_back_believes_no_row_for_longer() -> None:
    calls = dict(USDC)
    async with open_rpc(token_node(calls), chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        assert (await tokens.report(ROW, NOW_MS)).is_signable(ROW)
        calls[SEPARATOR] = NO

        assert not (await tokens.report(ROW, NOW_MS - 1)).is_signable(ROW)


@pytest.mark.parametrize("words", ["header not found", "words that nobody knows"])
async def test_a_node_that_fails_is_asked_again_at_once(words: str) -> None:
    node = token_node(USDC)
    node.results["eth_getCode"] = Says(-32000, words)
    async with open_rpc(node, chain_id=31337) as rpc:
        tokens = Tokens(rpc, CHAIN)
        with pytest.raises(ChainUnavailable):
            await tokens.report(ROW, NOW_MS)
        node.results["eth_getCode"] = "0x60"

        assert (await tokens.report(ROW, NOW_MS)).is_signable(ROW)


# Real contracts.


@pytest.mark.real_time
async def test_a_real_token_is_signable_by_its_own_row_alone(scene: Scene) -> None:
    rows = [
        usdc_row(scene.usdc),
        usdc_row(scene.dai),
        usdc_row(scene.usdc, domain=Domain("USDC", "2")),
        usdc_row(scene.usdc, decimals=18),
    ]
    reports = await examine_tokens(scene.rpc, CHAIN, rows)

    signable = [report.is_signable(row) for report, row in zip(reports, rows, strict=True)]
    assert signable == [True, False, False, False]
    assert all(report.takes_bytes for report in reports)
    assert scene.rpc.posts == 2  # with the check of the chain's id


@pytest.mark.real_time
async def test_a_contract_that_is_no_token_is_not_signable(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [scene.usdc])
    [report] = await examine_tokens(scene.rpc, CHAIN, [usdc_row(wallet)])

    assert report == Report(has_code=True)
    assert not report.is_signable(usdc_row(wallet))
