"""Wire shapes: names in camelCase, amounts with their display, times as the specification has them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.core.caip import AssetId
from payd.core.fee import FeeRule, compute_fee
from payd.core.money import AmountWire
from payd.core.option import Display
from payd.core.payment import (
    FundsCommitted,
    Payment,
    PaymentCancelled,
    PaymentFailed,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
    Trigger,
    transition,
)
from payd.store.settlements import Settlement
from payd.store.transfers import Transfer
from payd.web.schema import Words, buyer_page, cancelled_body, poll_in_ms, settlement_out
from tests.shop import BUYER, ETH_BASE, SOLANA, USDC_BASE

UNIT = f"caip19/{USDC_BASE}"
PAID = AmountWire(UNIT, "25000000")
FEE = compute_fee(FeeRule(0, 29, 1000), 25_000_000, UNIT)
DRAFT = Payment(
    id="pay_t1",
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="USD",
    value=2500,
    created_at_ms=1_779_098_340_007,
    expires_at_ms=1_779_099_240_000,
    updated_at_ms=1_779_098_340_007,
)
FUNDS = FundsCommitted(Processing(1, PAID, PAID, BUYER, "eip155:8453", FEE))
PATH: tuple[Trigger, ...] = (FUNDS, TransferConfirmed("0xabc"), SettlementCompleted("0xdef"))
ISO_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

WORDS = Words((SimulatedChain(1000, 1000, RateTable()),))
NO_CHAINS = Words(())


def after(*triggers: Trigger) -> Payment:
    payment = DRAFT
    for number, trigger in enumerate(triggers):
        payment = transition(payment, trigger, DRAFT.created_at_ms + 1000 * (number + 1)).payment
    return payment


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_an_amount_is_shown_with_symbol_name_and_decimals() -> None:
    assert wire(WORDS.amount(DRAFT.amount)) == {
        "unit": "iso4217/USD",
        "value": "2500",
        "display": {"assetSymbol": "USD", "assetName": "USD", "decimals": 2},
    }
    assert wire(WORDS.amount(PAID)) == {
        "unit": UNIT,
        "value": "25000000",
        "display": {"assetSymbol": "USDC", "assetName": "USD Coin", "decimals": 6, "networkName": "Base"},
    }
    assert wire(WORDS.display(f"caip19/{ETH_BASE}"))["decimals"] == 18


class Local(SimulatedChain):
    """Solana, with a token that is the operator's own."""

    def serves(self, chain: str) -> bool:
        return chain == SOLANA

    def display(self, asset: AssetId) -> Display:
        return Display(asset_symbol="OWN", asset_name="Own", decimals=3)


def test_a_chain_says_how_its_own_assets_are_shown_under_an_alias_too() -> None:
    words = Words((Local(1000, 1000, RateTable()),))
    for chain in (SOLANA, "solana:mainnet"):
        assert words.display(f"caip19/{chain}/token:{'2' * 44}").asset_symbol == "OWN"


def test_an_asset_whose_chain_is_off_is_still_shown() -> None:
    shown = wire(NO_CHAINS.amount(PAID))
    assert shown["value"] == "25000000"
    assert shown["display"] == {
        "assetSymbol": "USDC",
        "assetName": "USD Coin",
        "decimals": 6,
        "networkName": "Base",
    }


def test_an_asset_that_nobody_knows_is_shown_by_its_own_name_in_its_smallest_units() -> None:
    unknown = "eip155:31337/erc20:0x1111111111111111111111111111111111111111"
    shown = wire(NO_CHAINS.amount(AmountWire(f"caip19/{unknown}", "25")))
    assert shown["display"] == {"assetSymbol": "0x1111111111", "assetName": unknown, "decimals": 0}


def test_a_detail_names_every_time_as_it_should() -> None:
    shown = wire(WORDS.detail(after(*PATH), []))
    assert shown["expiresAt"] == 1_779_099_240
    for name in ("createdAt", "lastUpdatedAt"):
        assert ISO_MS.fullmatch(shown[name])
    assert shown["createdAt"] == "2026-05-18T09:59:00.007Z"
    assert not [name for name in shown if "_" in name]


def test_a_settlement_is_told_only_of_what_succeeded() -> None:
    assert WORDS.settlement(after()) is None
    assert WORDS.settlement(after(FUNDS)) is None
    assert wire(WORDS.settlement(after(*PATH[:2]))) == {"settled": False, "amount": None, "txHash": None}
    settled = wire(WORDS.settlement(after(*PATH)))
    assert (settled["settled"], settled["txHash"], settled["amount"]["value"]) == (True, "0xdef", "25000000")
    assert WORDS.settlement(after(PaymentFailed("x"))) is None


def test_info_is_there_once_a_payment_succeeded() -> None:
    assert WORDS.info(after(FUNDS)) is None
    assert wire(WORDS.info(after(*PATH[:2]))) == {"txId": "0xabc", "optionAmount": wire(WORDS.amount(PAID))}


def test_an_item_shows_what_is_known_so_far() -> None:
    fresh = wire(WORDS.item(after(), ("Shop", "https://a.example/i")))
    assert fresh["merchant"] == {"id": "mrch_1", "name": "Shop", "iconUrl": "https://a.example/i"}
    assert not fresh["isTerminal"]
    empty = ("tokenAmount", "buyer", "transaction", "fees", "settlement", "settledAt")
    assert {fresh[name] for name in empty} == {None}

    under_way = wire(WORDS.item(after(FUNDS), None))
    assert under_way["merchant"] == {"id": "mrch_1", "name": None, "iconUrl": None}
    assert under_way["transaction"] == {"networkId": "eip155:8453", "hash": None}
    assert under_way["buyer"] == {"accountCaip10": BUYER}
    assert under_way["fees"]["total"]["value"] == "725000"

    done = wire(WORDS.item(after(*PATH), None))
    assert done["transaction"]["hash"] == "0xabc"
    assert done["isTerminal"]
    assert ISO_MS.fullmatch(done["settledAt"])


def test_a_transfer_says_from_whom_to_whom_and_whether_it_paid() -> None:
    transfer = Transfer(
        "acct_1", None, "eip155:8453", "0x1", 0, USDC_BASE, "5", "a", "b", "late", 1_779_098_340_000
    )
    shown = wire(WORDS.transfer(transfer))
    assert shown == {
        "txId": "0x1",
        "chain": "eip155:8453",
        "amount": wire(WORDS.amount(AmountWire(UNIT, "5"))),
        "from": "a",
        "to": "b",
        "kind": "late",
        "matched": False,
        "paymentId": None,
        "seenAt": "2026-05-18T09:59:00.000Z",
        "blockNumber": None,
        "onChain": True,
    }


@pytest.mark.parametrize(("block_hash", "on_chain"), [("0xa", True), (None, False)])
def test_a_transfer_that_a_reorg_took_is_not_on_the_chain(block_hash: str | None, on_chain: bool) -> None:
    transfer = Transfer(
        "acct_1",
        None,
        "eip155:8453",
        "0x1",
        0,
        USDC_BASE,
        "5",
        "a",
        "b",
        "late",
        1000,
        block_number=77,
        block_hash=block_hash,
    )
    shown = wire(WORDS.transfer(transfer))
    assert (shown["blockNumber"], shown["onChain"]) == (77, on_chain)


def test_a_poll_hint_is_there_until_the_end() -> None:
    assert poll_in_ms(after()) == poll_in_ms(after(FUNDS)) == 1000
    for final in (after(*PATH[:2]), after(PaymentFailed("x")), after(PaymentCancelled("x"))):
        assert poll_in_ms(final) is None


def test_a_cancel_says_who_and_when() -> None:
    shown = msgspec.json.decode(cancelled_body(None, after(PaymentCancelled("cancelled_by_user"))))
    assert shown == {
        "paymentId": "pay_t1",
        "status": "cancelled",
        "cancelledReason": "cancelled_by_user",
        "cancelledAt": "2026-05-18T09:59:01.007Z",
    }


def test_a_settlement_echoes_what_was_sent() -> None:
    settlement = Settlement("crypto_1", "mrch_1", USDC_BASE, USDC_BASE.lower(), BUYER, 1)
    assert wire(settlement_out(settlement)) == {"id": "crypto_1", "asset": USDC_BASE, "destination": BUYER}


def test_a_buyers_page_is_the_payment_without_what_is_the_merchants() -> None:
    shown = wire(buyer_page(after(*PATH), WORDS, 1_779_098_350_000))
    assert shown == {
        "version": 3,
        "status": "succeeded",
        "isFinal": True,
        "pollInMs": None,
        "expiresAt": 1_779_099_240,
        "serverTime": 1_779_098_350_000,
        "info": {"txId": "0xabc", "optionAmount": wire(WORDS.amount(PAID))},
    }
