"""`payd payment`: finding one, what happened to it, and a transaction that is counted for it."""

from __future__ import annotations

from typing import Any

import click
import pytest

from tests.terminal import Terminal, on_terminal

LIVE = "pay_l01m7w8p3q65wqy1sz7p1hv6pjw00qsw0yzn"
TX = "0x" + "ab" * 32
USD = {"unit": "iso4217/USD", "value": "2500", "display": {"assetSymbol": "USD", "decimals": 2}}
USDC = {"unit": "caip19/x", "value": "25000000", "display": {"assetSymbol": "USDC", "decimals": 6}}


def transfer(**more: Any) -> dict[str, Any]:
    plain = {
        "txId": TX,
        "chain": "eip155:8453",
        "amount": USDC,
        "from": "eip155:8453:0xb0",
        "to": "eip155:8453:0x50",
        "kind": "matched",
        "matched": True,
        "paymentId": LIVE,
        "seenAt": "2026-01-01T00:00:01.000Z",
        "blockNumber": 77,
        "onChain": True,
    }
    return plain | more


LISTED = {
    "paymentId": LIVE,
    "referenceId": "ORDER 1",
    "status": "succeeded",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "fiatAmount": USD,
}


def payment(*transfers: dict[str, Any], **more: Any) -> dict[str, Any]:
    plain = {
        "paymentId": LIVE,
        "referenceId": "R-1",
        "amount": USD,
        "status": "succeeded",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "expiresAt": 1767226500,
        "merchantId": "mrch_1",
        "info": {"txId": TX},
        "failureReason": None,
        "cancellationReason": None,
        "settlement": {"settled": True},
        "transfers": list(transfers),
    }
    return plain | more


def matched(outcome: str, words: str = "Words.") -> dict[str, Any]:
    return {"payment": payment(), "match": {"outcome": outcome, "words": words, "transfers": [transfer()]}}


def test_a_payment_is_shown_with_its_transfers(begun: Terminal, answers: dict[str, Any]) -> None:
    answers["payment.show"] = payment(transfer(), transfer(kind="surplus", onChain=False))

    shown = begun("payment", "show", LIVE).output

    for words in ("25.00 USD", "succeeded, settled", TX, "25.000000 USDC", " 77 ", "taken by a reorg"):
        assert words in shown
    assert begun.json("payment", "show", LIVE)["paymentId"] == LIVE


def test_a_payment_is_shown_with_what_a_buyers_question_needs(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    answers["payment.show"] = payment(gatewayUrl="https://pay.example.com/pay/pay_1")

    shown = begun("payment", "show", LIVE).output

    assert "Expires       2026-01-01 00:15:00 UTC\n" in shown
    assert "Merchant      mrch_1\n" in shown
    assert "Buyer's page  https://pay.example.com/pay/pay_1\n" in shown


def test_a_refund_is_shown_with_its_payment(begun: Terminal, answers: dict[str, Any]) -> None:
    recorded = {"txId": None, "note": "broken cup", "recordedAt": "2026-01-02T03:04:05.678Z"}
    answers["payment.show"] = payment(refund=recorded)
    assert "Refunded     2026-01-02 03:04:05 UTC\n" in begun("payment", "show", LIVE).output
    answers["payment.show"] = payment(refund={**recorded, "txId": "0xback"})
    assert "Refund by    0xback\n" in begun("payment", "show", LIVE).output


def test_a_transfer_on_solana_is_in_a_slot(
    begun: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, columns=80)
    answers["payment.show"] = payment(transfer(chain="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"), transfer())
    shown = begun("payment", "show", LIVE).output
    assert "slot 77" in shown
    assert "block 77" in shown


def test_a_payment_that_failed_says_why_and_shows_no_transfer(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    failed = {"status": "failed", "failureReason": "The buyer left.", "info": None, "settlement": None}
    answers["payment.show"] = payment(**failed)

    shown = begun("payment", "show", LIVE).output

    assert "failed: The buyer left." in shown
    assert "No transfer was seen" in shown


def test_a_payment_that_was_cancelled_says_by_whom(begun: Terminal, answers: dict[str, Any]) -> None:
    ended = {"status": "cancelled", "info": None, "settlement": None}
    answers["payment.show"] = payment(**ended, cancellationReason="cancelled_by_user")
    assert "cancelled: by the buyer" in begun("payment", "show", LIVE).output
    answers["payment.show"] = payment(**ended, cancellationReason="Out of stock")
    assert "cancelled: Out of stock" in begun("payment", "show", LIVE).output


def test_payments_are_listed_with_what_was_asked_for(
    begun: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["payment.list"] = {"data": [LISTED], "nextCursor": "abc"}

    shown = begun("payment", "list", "--reference", "ORDER 1", "--status", "succeeded", "--limit", "1").output

    for words in (LIVE, "ORDER 1", "25.00 USD", "succeeded", "2026-01-01 00:00:00"):
        assert words in shown
    again = "payment list --reference 'ORDER 1' --status succeeded --limit 1 --cursor abc --mode test\n"
    assert f"payd {again}" in shown
    asked = {"mode": "test", "reference": "ORDER 1", "status": "succeeded", "limit": 1}
    assert answers["asked"] == [("payment.list", asked)]
    assert begun.json("payment", "list")["data"] == [LISTED]
    on_terminal(monkeypatch, columns=40)
    assert click.unstyle(begun("payment", "list").output).startswith(f"{LIVE}  succeeded\n  2026-01-01")


def test_a_reference_in_place_of_an_id_leads_to_the_payment(begun: Terminal) -> None:
    for args in (("show", "ORDER 1"), ("match", "ORDER 1", TX)):
        said = begun.error("payment", *args, "--mode", "live")
        assert "payd payment list --reference 'ORDER 1' --mode live\n" in said
    assert "There is no such payment." in begun("payment", "list", "--reference", "ORDER 1").output


def test_the_id_says_which_mode_it_is_of(begun: Terminal, answers: dict[str, Any]) -> None:
    answers["payment.show"] = payment()
    begun("payment", "show", LIVE)
    begun("payment", "show", "pay_x", "--mode", "live")
    begun("payment", "show", "pay_t1", "--mode", "live")
    assert [args["mode"] for _, args in answers["asked"]] == ["live", "live", "test"]


@pytest.mark.parametrize("outcome", ["matched", "recorded"])
def test_a_match_says_what_came_of_it(begun: Terminal, answers: dict[str, Any], outcome: str) -> None:
    answers["payment.match"] = matched(outcome, "It pays this payment.")

    shown = begun("payment", "match", LIVE, TX, "--chain", "eip155:8453").output

    assert shown.startswith("It pays this payment.\n")
    assert "25.000000 USDC" in shown
    asked = {"mode": "live", "id": LIVE, "tx": TX, "chain": "eip155:8453"}
    assert answers["asked"] == [("payment.match", asked)]
    assert begun.json("payment", "match", LIVE, TX)["match"]["outcome"] == outcome


def test_a_match_that_comes_to_nothing_is_a_failure_for_programs_too(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    answers["payment.match"] = matched("other_payment", "It is bound to another payment.")

    assert begun.error("payment", "match", LIVE, TX) == "Error: It is bound to another payment.\n"
    told = begun("payment", "match", LIVE, TX, "--json", code=1)
    assert '"other_payment"' in told.stdout


def test_a_match_needs_the_server(begun: Terminal) -> None:
    assert "payd serve" in begun.error("payment", "match", "pay_t1", TX, code=3)


def test_a_narrow_terminal_gets_lines_that_can_be_copied(
    begun: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["payment.show"] = payment(transfer())
    on_terminal(monkeypatch, columns=80)

    assert f"  {TX}\n" in begun("payment", "show", LIVE).output
