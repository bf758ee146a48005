"""What a transaction paid, and for which payment: never two with one transfer, never with somebody else's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from eth_abi.abi import encode

from payd.chains.evm.answers import Transaction, decode_receipt
from payd.chains.evm.binding import authorization_nonce, tagged_transfer, transfer_call
from payd.chains.evm.codec import ZERO_ADDRESS, keccak256
from payd.chains.evm.proof import CANDIDATES_MAX, BoundTransfer, candidate_bindings, paid_by
from payd.chains.rpc_errors import BadAnswer
from tests.chains.evm.json import (
    BLOCK_HASH,
    BLOCK_NUMBER,
    BUYER,
    OTHER_SHOP,
    OTHER_TOKEN,
    SHOP,
    THIRD,
    TOKEN,
    TX_HASH,
    WALLET,
    log_json,
    receipt_json,
    transfer_log,
    used_log,
)
from tests.chains.evm.paid import (
    ASSET,
    CHAIN,
    COIN,
    JUNK,
    KNOWN,
    NONCES,
    OTHER_ASSET,
    TAGS,
    WATCHED,
    bound,
    paid,
    receipt,
    sent,
    transaction,
)

# A wallet sends a tagged transfer


def test_a_tagged_transfer_is_bound_and_says_where_it_stands() -> None:
    [found] = paid(sent(tagged_transfer(SHOP, 500, TAGS[0])), transfer_log(BUYER, SHOP, 500))
    assert found == BoundTransfer(
        chain="eip155:8453",
        tx_id=TX_HASH,
        log_index=0,
        asset=ASSET,
        value=500,
        sender=f"eip155:8453:{BUYER}",
        recipient=f"eip155:8453:{SHOP}",
        block_number=BLOCK_NUMBER,
        block_hash=BLOCK_HASH,
        binding=TAGS[0],
    )


def test_a_transfer_keeps_its_place_when_a_reorg_mines_it_behind_others() -> None:
    answer = receipt_json(log_json(THIRD, [], b""), transfer_log(BUYER, SHOP, 500))
    later = {
        **answer,
        "logs": [{**log, "logIndex": hex(int(log["logIndex"], 16) + 90)} for log in answer["logs"]],
    }
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]))
    for each in (answer, later):
        mined = decode_receipt(each)
        assert mined is not None
        assert [one.log_index for one in paid_by(CHAIN, given, mined, WATCHED, KNOWN)] == [1]


def test_a_transfer_without_a_tag_or_with_an_unknown_one_is_found_but_not_bound() -> None:
    for data in (transfer_call(SHOP, 500), tagged_transfer(SHOP, 500, JUNK)):
        assert bound(*paid(sent(data), transfer_log(BUYER, SHOP, 500))) == [None]


def test_a_binding_holds_for_the_asset_that_it_was_handed_out_for() -> None:
    elsewhere = frozenset({(TAGS[0], OTHER_ASSET)})
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]))
    assert bound(*paid(given, transfer_log(BUYER, SHOP, 500), known=elsewhere)) == [None]


def test_what_a_token_keeps_of_a_transfer_shows_in_its_value() -> None:
    [found] = paid(sent(tagged_transfer(SHOP, 500, TAGS[0])), transfer_log(BUYER, SHOP, 490))
    assert (found.value, found.binding) == (490, TAGS[0])


def test_a_tag_is_for_the_recipient_that_was_called_with() -> None:
    given = sent(tagged_transfer(OTHER_SHOP, 500, TAGS[0]))
    assert bound(*paid(given, transfer_log(BUYER, SHOP, 500))) == [None]


def test_a_direct_call_is_the_word_of_its_sender_and_of_its_token_alone() -> None:
    call = tagged_transfer(SHOP, 500, TAGS[0])
    assert bound(*paid(sent(call, sender=THIRD), transfer_log(BUYER, SHOP, 490))) == [None]
    assert bound(*paid(sent(call), transfer_log(BUYER, SHOP, 490, token=OTHER_TOKEN))) == [None]


def test_what_a_wallet_writes_behind_the_tag_changes_nothing() -> None:
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]) + b"\x80\x21" * 8)
    assert bound(*paid(given, transfer_log(BUYER, SHOP, 500))) == [TAGS[0]]


# Status, hashes, and logs that are none


def test_a_reverted_transaction_paid_nothing() -> None:
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]), value=5, to=SHOP)
    reverted = receipt(transfer_log(BUYER, SHOP, 500), status="0x0")
    assert paid_by(CHAIN, given, reverted, WATCHED, KNOWN) == ()
    assert candidate_bindings(CHAIN, given, reverted, WATCHED) == ()


def test_a_receipt_of_another_transaction_is_refused() -> None:
    given = transaction(hash="0x" + "01" * 32)
    for read in (
        lambda: paid_by(CHAIN, given, receipt(), WATCHED, KNOWN),
        lambda: candidate_bindings(CHAIN, given, receipt(), WATCHED),
    ):
        with pytest.raises(BadAnswer, match="was given for"):
            read()


def test_a_log_that_was_taken_back_is_nothing() -> None:
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]))
    assert paid(given, transfer_log(BUYER, SHOP, 500, removed=True)) == ()
    used = used_log(BUYER, NONCES[0], removed=True)
    assert bound(*paid(sent(b""), used, transfer_log(BUYER, SHOP, 500))) == [None]


@pytest.mark.parametrize(
    "log",
    [
        transfer_log(BUYER, SHOP, 500, token=THIRD),
        transfer_log(BUYER, THIRD, 500),
        transfer_log(BUYER, SHOP, 0),
        transfer_log(SHOP, SHOP, 500),
        log_json(TOKEN, [keccak256(b"Approval(address,address,uint256)")] * 3, bytes(32)),
    ],
    ids=["another token", "another destination", "of nothing", "to itself", "an approval"],
)
def test_what_pays_no_destination_is_no_transfer(log: dict[str, Any]) -> None:
    assert paid(sent(tagged_transfer(SHOP, 500, TAGS[0])), log) == ()


def test_a_token_that_nobody_watches_cannot_pay_by_calling_itself_another() -> None:
    given = sent(tagged_transfer(SHOP, 500, TAGS[0]), to=THIRD)
    assert paid(given, transfer_log(BUYER, SHOP, 500, token=THIRD)) == ()


def test_minted_tokens_are_found() -> None:
    [found] = paid(sent(b""), transfer_log(ZERO_ADDRESS, SHOP, 500))
    assert (found.sender, found.binding) == (f"eip155:8453:{ZERO_ADDRESS}", None)


# Smart wallets and batches


def execute(*calls: bytes) -> bytes:
    """Calldata of a smart wallet that makes these calls."""
    return b"\x34\xfc\xd5\xbe" + encode(["(address,uint256,bytes)[]"], [[(TOKEN, 0, call) for call in calls]])


def test_a_tag_is_found_inside_the_calldata_of_a_smart_wallet() -> None:
    given = sent(execute(tagged_transfer(SHOP, 500, TAGS[0])), to=WALLET)
    assert bound(*paid(given, transfer_log(WALLET, SHOP, 500))) == [TAGS[0]]


def test_tags_of_one_sum_go_to_its_transfers_in_order() -> None:
    given = sent(execute(*(tagged_transfer(SHOP, 500, tag) for tag in TAGS[:3])), to=WALLET)
    logs = [transfer_log(WALLET, SHOP, 500) for _ in range(3)]
    assert bound(*paid(given, *logs)) == TAGS[:3]


def test_a_tag_that_is_looked_for_alone_is_on_the_transfer_where_it_was_found_among_all() -> None:
    given = sent(execute(*(tagged_transfer(SHOP, 500, tag) for tag in TAGS[:3])), to=WALLET)
    mined = receipt(*[transfer_log(WALLET, SHOP, 500)] * 3)
    for place, tag in enumerate(TAGS[:3]):
        found = paid_by(CHAIN, given, mined, WATCHED, {(tag, ASSET)}, place)
        assert [one.binding for one in found] == [tag if at == place else None for at in range(3)]


def test_a_call_without_a_tag_of_ours_takes_none_away() -> None:
    calls = [tagged_transfer(SHOP, 500, JUNK), transfer_call(SHOP, 500), tagged_transfer(SHOP, 500, TAGS[0])]
    given = sent(execute(*calls), to=WALLET)
    assert bound(*paid(given, transfer_log(WALLET, SHOP, 500))) == [TAGS[0]]


def test_a_tag_goes_to_a_transfer_of_its_asset() -> None:
    given = sent(execute(transfer_call(SHOP, 500), tagged_transfer(SHOP, 500, TAGS[0])), to=WALLET)
    logs = [transfer_log(WALLET, SHOP, 500, token=OTHER_TOKEN), transfer_log(WALLET, SHOP, 500)]
    known = frozenset({(TAGS[0], ASSET)})
    assert bound(*paid(given, *logs, known=known)) == [None, TAGS[0]]


def test_one_tag_binds_one_transfer_however_often_it_stands_in_the_calldata() -> None:
    given = sent(execute(*[tagged_transfer(SHOP, 500, TAGS[0])] * 2), to=WALLET)
    logs = [transfer_log(WALLET, SHOP, 500) for _ in range(2)]
    assert bound(*paid(given, *logs)) == [TAGS[0], None]


def test_one_transfer_pays_for_one_payment_however_many_tags_its_payer_sends() -> None:
    calls = execute(tagged_transfer(SHOP, 500, TAGS[0]), tagged_transfer(SHOP, 500, TAGS[1]))
    given = sent(calls, sender=WALLET, to=WALLET)
    assert bound(*paid(given, transfer_log(WALLET, SHOP, 500))) == [TAGS[0]]


def test_whoever_submits_a_wallets_call_cannot_put_his_own_payment_in_the_place_of_the_wallets() -> None:
    calls = execute(tagged_transfer(SHOP, 500, TAGS[1]), tagged_transfer(SHOP, 500, TAGS[0]))
    given = sent(calls, sender=THIRD, to=WALLET)
    assert bound(*paid(given, transfer_log(WALLET, SHOP, 500))) == [None]


def test_whoever_brings_a_bridge_its_message_cannot_claim_with_a_tag_what_it_mints_for_a_shop() -> None:
    receive_message = b"\x57\xec\xfd\x28" + encode(["bytes", "bytes"], [bytes(248), bytes(130)])
    given = sent(receive_message + tagged_transfer(SHOP, 500, TAGS[0]), sender=THIRD, to=WALLET)
    assert bound(*paid(given, transfer_log(ZERO_ADDRESS, SHOP, 500))) == [None]


# Authorizations


def relayed(*logs: dict[str, Any], known: frozenset[tuple[bytes, str]] = KNOWN) -> list[bytes | None]:
    """Bindings of what a relayer's transaction paid."""
    return bound(*paid(sent(b"\xe3\xee\x16\x0e", sender=THIRD), *logs, known=known))


def test_an_authorization_binds_the_transfer_behind_it() -> None:
    assert relayed(used_log(BUYER, NONCES[0]), transfer_log(BUYER, SHOP, 500)) == [NONCES[0]]


def test_a_token_may_tell_of_the_authorization_after_the_transfer() -> None:
    assert relayed(transfer_log(BUYER, SHOP, 500), used_log(BUYER, NONCES[0])) == [NONCES[0]]


def test_two_legs_are_bound_in_either_order_of_a_token() -> None:
    main, fee = authorization_nonce("pay_l1"), authorization_nonce("pay_l1", "fee")
    known = frozenset({(main, ASSET), (fee, ASSET)})
    used = [used_log(BUYER, main), used_log(BUYER, fee)]
    moved = [transfer_log(BUYER, SHOP, 495), transfer_log(BUYER, OTHER_SHOP, 5)]
    assert relayed(used[0], moved[0], used[1], moved[1], known=known) == [main, fee]
    assert relayed(moved[0], used[0], moved[1], used[1], known=known) == [main, fee]


def test_events_of_others_between_an_authorization_and_its_transfer_are_not_in_the_way() -> None:
    others = [
        log_json(THIRD, [], b""),
        transfer_log(THIRD, SHOP, 9),
        transfer_log(BUYER, SHOP, 9, token=OTHER_TOKEN),
    ]
    found = relayed(used_log(BUYER, NONCES[0]), *others, transfer_log(BUYER, SHOP, 500))
    assert found == [None, None, NONCES[0]]


@pytest.mark.parametrize(
    "logs",
    [
        [used_log(BUYER, NONCES[0])],
        [used_log(THIRD, NONCES[0]), transfer_log(BUYER, SHOP, 500)],
        [used_log(BUYER, NONCES[0], token=OTHER_TOKEN), transfer_log(BUYER, SHOP, 500)],
        [used_log(BUYER, NONCES[0], token=THIRD), transfer_log(BUYER, SHOP, 500)],
        [used_log(BUYER, JUNK), transfer_log(BUYER, SHOP, 500)],
    ],
    ids=["no transfer", "of another payer", "of another token", "of a stranger's contract", "not ours"],
)
def test_an_authorization_binds_nothing_but_its_own_transfer(logs: list[dict[str, Any]]) -> None:
    assert NONCES[0] not in relayed(*logs)
    assert JUNK not in relayed(*logs)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_a_stranger_who_has_a_token_tell_of_nothing_moved_takes_no_authorization_from_its_transfer(
    place: int,
) -> None:
    """`transferFrom` of nothing needs nobody's leave, and may stand around what the stranger submits."""
    nothing = transfer_log(BUYER, THIRD, 0)
    main, fee = authorization_nonce("pay_l1"), authorization_nonce("pay_l1", "fee")
    known = frozenset({(main, ASSET), (fee, ASSET)})
    used = [used_log(BUYER, main), used_log(BUYER, fee)]
    moved = [transfer_log(BUYER, SHOP, 495), transfer_log(BUYER, OTHER_SHOP, 5)]
    for logs in ([used[0], moved[0], used[1], moved[1]], [moved[0], used[0], moved[1], used[1]]):
        assert relayed(*logs[:place], nothing, *logs[place:], known=known) == [main, fee]


def test_an_authorization_over_nothing_is_no_other_ones() -> None:
    other = bytes(31) + b"\x07"
    nothing, signed = transfer_log(BUYER, SHOP, 0), transfer_log(BUYER, SHOP, 500)
    used = [used_log(BUYER, other), used_log(BUYER, NONCES[0])]
    assert relayed(used[0], nothing, used[1], signed) == [NONCES[0]]
    assert relayed(nothing, used[0], signed, used[1]) == [NONCES[0]]


def test_no_tag_claims_a_transfer_where_a_token_does_not_tell_which_one_was_authorized() -> None:
    """The payer's word was the signature, for a payment that cannot be told: it is nobody else's."""
    data = b"\xe3\xee\x16\x0e" + tagged_transfer(SHOP, 500, TAGS[1])
    logs = [used_log(BUYER, JUNK), used_log(BUYER, NONCES[0]), transfer_log(BUYER, SHOP, 500)]
    assert bound(*paid(sent(data, sender=THIRD), *logs)) == [None]
    assert bound(*paid(sent(data, sender=THIRD), logs[-1])) == [TAGS[1]]


def test_an_authorization_that_was_used_before_proves_nothing() -> None:
    """PYUSD tells that it was, and returns as if all were well."""
    already = log_json(
        TOKEN, [keccak256(b"AuthorizationAlreadyUsed(address,bytes32)"), bytes(32), NONCES[0]], b""
    )
    assert relayed(already) == []


def test_an_authorization_to_somebody_else_does_not_bind_the_next_transfer_to_a_shop() -> None:
    logs = [used_log(BUYER, NONCES[0]), transfer_log(BUYER, THIRD, 500), transfer_log(BUYER, SHOP, 500)]
    assert relayed(*logs) == [None]


def test_a_plain_transfer_before_an_authorized_one_is_not_taken_for_it() -> None:
    logs = [transfer_log(BUYER, SHOP, 500), used_log(BUYER, NONCES[0]), transfer_log(BUYER, SHOP, 500)]
    assert relayed(*logs) == [None, NONCES[0]]


def test_of_two_buyers_who_sign_for_one_payment_in_one_transaction_one_pays() -> None:
    logs = [
        used_log(BUYER, NONCES[0]),
        transfer_log(BUYER, SHOP, 500),
        used_log(WALLET, NONCES[0]),
        transfer_log(WALLET, SHOP, 500),
    ]
    assert relayed(*logs) == [NONCES[0], None]


def test_whoever_submits_an_authorization_cannot_claim_its_transfer_with_a_tag() -> None:
    for nonce, expected in ((NONCES[0], NONCES[0]), (JUNK, None)):
        given = sent(tagged_transfer(SHOP, 500, TAGS[1]), sender=THIRD, to=THIRD)
        logs = [used_log(BUYER, nonce), transfer_log(BUYER, SHOP, 500)]
        assert bound(*paid(given, *logs)) == [expected]


# The coin


def coin(data: bytes, value: int = 500, to: str = SHOP) -> Transaction:
    return sent(data, to=to, value=value)


def test_the_coin_is_bound_by_the_tag_in_the_data() -> None:
    [found] = paid(coin(TAGS[0]))
    assert (found.log_index, found.asset, found.value, found.binding) == (-1, COIN, 500, TAGS[0])
    assert (found.sender, found.recipient) == (f"eip155:8453:{BUYER}", f"eip155:8453:{SHOP}")


def test_what_a_wallet_writes_behind_the_coins_tag_changes_nothing() -> None:
    assert bound(*paid(coin(TAGS[0] + b"\x80\x21" * 8))) == [TAGS[0]]


@pytest.mark.parametrize("data", [b"", TAGS[0][:-1], b"\0" + TAGS[0], tagged_transfer(SHOP, 500, TAGS[0])])
def test_the_coin_with_other_data_is_found_but_not_bound(data: bytes) -> None:
    assert bound(*paid(coin(data))) == [None]


@pytest.mark.parametrize(
    "given",
    [coin(TAGS[0], value=0), coin(TAGS[0], to=THIRD), sent(TAGS[0], sender=SHOP, to=SHOP, value=5)],
    ids=["of nothing", "to somebody else", "to itself"],
)
def test_what_moves_no_coin_to_a_destination_pays_nothing(given: Transaction) -> None:
    assert paid(given) == ()


def test_the_creation_of_a_contract_pays_nothing() -> None:
    assert paid(transaction(to=None, value="0x5")) == ()


def test_the_coin_is_found_where_it_is_watched_only() -> None:
    assert paid(coin(TAGS[0]), watched=msgspec.structs.replace(WATCHED, native=None)) == ()


# What is to be looked up


def test_candidates_are_what_could_bind_a_transfer() -> None:
    given = sent(execute(tagged_transfer(SHOP, 500, TAGS[0]), tagged_transfer(THIRD, 5, TAGS[1])), to=WALLET)
    logs = [transfer_log(WALLET, SHOP, 500), used_log(BUYER, NONCES[2]), transfer_log(BUYER, SHOP, 7)]
    assert candidate_bindings(CHAIN, given, receipt(*logs), WATCHED) == (NONCES[2], TAGS[0])
    assert candidate_bindings(CHAIN, coin(TAGS[3]), receipt(), WATCHED) == (TAGS[3],)
    direct = sent(tagged_transfer(SHOP, 500, TAGS[0]))
    assert candidate_bindings(CHAIN, direct, receipt(transfer_log(BUYER, SHOP, 490)), WATCHED) == (TAGS[0],)


def test_less_than_32_bytes_are_no_candidate() -> None:
    assert candidate_bindings(CHAIN, coin(TAGS[0][:31]), receipt(), WATCHED) == ()
    cut = sent(tagged_transfer(SHOP, 500, TAGS[0])[:-1])
    assert candidate_bindings(CHAIN, cut, receipt(transfer_log(BUYER, SHOP, 500)), WATCHED) == ()


def test_candidates_are_bounded() -> None:
    calls = b"".join(tagged_transfer(SHOP, 500, n.to_bytes(32, "big")) for n in range(CANDIDATES_MAX + 5))
    found = candidate_bindings(
        CHAIN, sent(calls, to=WALLET), receipt(transfer_log(WALLET, SHOP, 500)), WATCHED
    )
    assert len(found) == CANDIDATES_MAX
