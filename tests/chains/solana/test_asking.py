"""Each call is the one that a node of Solana understands, and no longer than it takes."""

from __future__ import annotations

import msgspec
import pytest
from solders.pubkey import Pubkey

from payd.chains.solana import asking
from payd.chains.solana.keys import CLOCK

ONE, TWO = Pubkey(bytes([1]) * 32), Pubkey(bytes([2]) * 32)
TX = "5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv2sUYv"


def test_accounts_are_read_a_hundred_with_a_call_in_their_order() -> None:
    many = [Pubkey(number.to_bytes(32, "big")) for number in range(201)]
    calls = asking.account_calls(many, "finalized")

    assert [call[0] for call in calls] == ["getMultipleAccounts"] * 3
    assert [len(call[1]) for call in calls] == [100, 100, 1]
    assert [address for call in calls for address in call[1]] == [str(address) for address in many]
    assert calls[0][2] == {"commitment": "finalized", "encoding": "base64"}
    assert asking.account_calls([]) == []


def test_the_time_is_that_of_the_clock_account() -> None:
    config = {"commitment": "confirmed", "encoding": "base64"}

    assert asking.clock_call() == ("getMultipleAccounts", [str(CLOCK)], config)


def test_a_transaction_is_read_as_bytes_of_whatever_version_it_is() -> None:
    config = {"commitment": "confirmed", "encoding": "base64", "maxSupportedTransactionVersion": 1}

    assert asking.transaction_call(TX) == ("getTransaction", TX, config)


def test_the_statuses_of_old_transactions_are_asked_for_too() -> None:
    assert asking.statuses_call([TX]) == ("getSignatureStatuses", [TX], {"searchTransactionHistory": True})
    assert asking.statuses_call([TX], search_history=False)[2] == {"searchTransactionHistory": False}


def test_a_listing_has_its_ends_only_where_they_are_given() -> None:
    assert asking.listing_call(ONE) == (
        "getSignaturesForAddress",
        str(ONE),
        {"commitment": "confirmed", "limit": 1000},
    )
    assert asking.listing_call(ONE, "until", "before", 10, "finalized", 7)[2] == {
        "commitment": "finalized",
        "limit": 10,
        "until": "until",
        "before": "before",
        "minContextSlot": 7,
    }


def test_the_chains_state_is_asked_for_at_a_commitment() -> None:
    assert asking.latest_blockhash_call() == ("getLatestBlockhash", {"commitment": "confirmed"})
    assert asking.slot_call() == ("getSlot", {"commitment": "confirmed"})
    assert asking.height_call() == ("getBlockHeight", {"commitment": "finalized"})
    assert asking.rent_call(165) == ("getMinimumBalanceForRentExemption", 165)
    assert asking.priority_fees_call([ONE, TWO]) == ("getRecentPrioritizationFees", [str(ONE), str(TWO)])


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_transaction_is_tried_with_or_without_its_signatures(is_signed: bool) -> None:
    config = {"commitment": "confirmed", "encoding": "base64", "sigVerify": is_signed}

    assert asking.simulate_call(b"\x01\x02", sig_verify=is_signed) == ("simulateTransaction", "AQI=", config)
    at_slot = asking.simulate_call(b"\x01\x02", sig_verify=is_signed, min_slot=7)
    assert at_slot[2] == {**config, "minContextSlot": 7}


def test_every_call_can_be_sent() -> None:
    calls = [
        *asking.account_calls([ONE]),
        asking.statuses_call((TX,)),
        asking.listing_call(TWO),
        asking.simulate_call(b"", sig_verify=False),
    ]

    assert msgspec.json.decode(msgspec.json.encode(calls)) == [list(call) for call in calls]
