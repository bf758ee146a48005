"""What a wallet gives back: the same transaction with guards at most, or it is refused in words."""

from __future__ import annotations

import pytest
from solders.compute_budget import (
    set_compute_unit_limit,
    set_compute_unit_price,
)
from solders.hash import Hash
from solders.instruction import CompiledInstruction, Instruction
from solders.message import Message, MessageAddressTableLookup, MessageHeader, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.chains.solana.build import (
    UNITS_MAX,
    Wanted,
    fee_of,
    split,
    unsigned,
    with_signature,
)
from payd.chains.solana.returned import TEXT_MAX, check_returned
from payd.core.errors import InvalidParams, InvalidSignature
from tests.chains.solana.tampering import (
    BLOCKHASH,
    BUYER_PAYS,
    IN_SOL,
    LIMITS,
    OTHER,
    SPONSORED,
    WANTED,
    WITH_GUARDS,
    bent,
    check,
    expect_refused,
    guard,
    handed_out,
    instructions_of,
    parts,
    put_together,
    street,
    text,
    with_instructions,
)
from tests.chains.solana.vm import BUYER, PAYER, STRANGER, USDC, signed

# Accepted


@pytest.mark.parametrize("name", WANTED)
def test_what_was_handed_out_and_signed_is_accepted_and_lands(name: str) -> None:
    world = street()
    handed = handed_out(WANTED[name], world.blockhash)
    got = check(WANTED[name], signed(handed, BUYER), handed)
    assert (got.raw, got.message) == (signed(handed, BUYER), split(handed)[1])
    landed = world.send(got.raw)
    assert (landed.err, landed.tx_id, landed.fee) == (None, got.tx_id, got.fee)


def test_our_signature_is_put_back_where_a_wallet_took_it_away() -> None:
    whole = signed(handed_out(SPONSORED, BLOCKHASH), BUYER)
    bare = with_signature(whole, PAYER.pubkey(), bytes(64))
    assert check(SPONSORED, bare) == check(SPONSORED, whole)
    assert check(SPONSORED, bare).raw == whole


def test_while_we_have_not_signed_it_has_no_name() -> None:
    handed = unsigned(split(handed_out(SPONSORED, BLOCKHASH))[1])
    got = check(SPONSORED, signed(handed, BUYER), handed)
    assert (got.tx_id, got.raw) == (None, signed(handed, BUYER))


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at", ["before", "behind"])
def test_guards_are_accepted_and_land(name: str, count: int, at: str) -> None:
    world = street()
    handed = handed_out(WANTED[name], world.blockhash)
    own = instructions_of(split(handed)[1])
    guards = [guard(BUYER.pubkey()), guard(OTHER, kind=9), guard(kind=15)][:count]
    raw = with_instructions(handed, guards + own if at == "before" else own + guards)
    got = check(WANTED[name], raw, handed)
    we_pay = WANTED[name].fee_payer == PAYER.pubkey()
    assert got.message != split(handed)[1]
    assert (got.tx_id is None) == we_pay
    landed = world.send(signed(got.raw, PAYER) if we_pay else got.raw)
    assert (landed.err, landed.fee) == (None, got.fee)


def test_our_signature_of_the_message_without_guards_is_dropped() -> None:
    handed = handed_out(SPONSORED, BLOCKHASH)
    raw = bent(SPONSORED, [*parts(SPONSORED), guard(BUYER.pubkey())])
    stale = with_signature(raw, PAYER.pubkey(), split(handed)[0][0])
    assert check(SPONSORED, stale) == check(SPONSORED, raw)
    assert split(check(SPONSORED, stale).raw)[0][0] == bytes(64)


def test_with_guards_the_unit_limit_may_rise_so_far_where_we_pay() -> None:
    def answer(units: int, *guards: Instruction) -> bytes:
        return bent(SPONSORED, [set_compute_unit_limit(units), *parts(SPONSORED)[1:], *guards])

    got = check(SPONSORED, answer(250_000, guard(BUYER.pubkey())))
    assert got.fee == fee_of(got.message) == 2 * 5000 + 250_000 * 20_000 // 10**6
    expect_refused(SPONSORED, answer(250_001, guard(BUYER.pubkey())), "ComputeBudget")
    expect_refused(SPONSORED, answer(199_999, guard(BUYER.pubkey())), "ComputeBudget")
    expect_refused(SPONSORED, answer(250_000), "ComputeBudget")


@pytest.mark.parametrize("price", [0, 19_999, 20_001, 2**64 - 1])
@pytest.mark.parametrize("guards", [[], [guard(BUYER.pubkey())]])
def test_the_price_of_a_unit_stays_where_we_pay(price: int, guards: list[Instruction]) -> None:
    own = parts(SPONSORED)
    expect_refused(
        SPONSORED,
        bent(SPONSORED, [own[0], set_compute_unit_price(price), *own[2:], *guards]),
        "ComputeBudget",
    )


@pytest.mark.parametrize(
    ("units", "price", "is_taken"),
    [
        (200_000, 0, True),
        (200_000, 1_000_000, True),
        (UNITS_MAX, 20_000, True),
        (200_000, 1_000_001, False),
        (199_999, 20_000, False),
        (UNITS_MAX + 1, 20_000, False),
    ],
)
def test_a_buyer_who_pays_sets_the_fee_within_bounds(units: int, price: int, is_taken: bool) -> None:
    own = parts(BUYER_PAYS)
    raw = bent(BUYER_PAYS, [set_compute_unit_limit(units), set_compute_unit_price(price), *own[2:]])
    if is_taken:
        got = check(BUYER_PAYS, raw)
        assert (got.message, got.tx_id) == (split(raw)[1], str(_first(raw)))
    else:
        expect_refused(BUYER_PAYS, raw, "ComputeBudget")


def _first(raw: bytes) -> Signature:
    return Signature.from_bytes(split(raw)[0][0])


def test_another_blockhash_is_refused() -> None:
    other = str(Pubkey(bytes([2] * 32)))
    for more in WITH_GUARDS:
        message = put_together([*parts(SPONSORED), *more], PAYER.pubkey(), other)
        expect_refused(SPONSORED, signed(unsigned(message), BUYER), "another blockhash")


def test_another_fee_payer_is_refused() -> None:
    for payer, signers in ((BUYER, [BUYER, PAYER]), (STRANGER, [STRANGER, BUYER, PAYER])):
        message = put_together(parts(SPONSORED), payer.pubkey(), BLOCKHASH)
        expect_refused(SPONSORED, signed(unsigned(message), *signers), "another account pays")


def compiled(message: bytes) -> tuple[MessageHeader, list[Pubkey], Hash, list[CompiledInstruction]]:
    read = Message.from_bytes(message)
    return read.header, list(read.account_keys), read.recent_blockhash, list(read.instructions)


def with_header(
    want: Wanted, signers: int, readonly_signed: int, readonly: int, keys: list[Pubkey] | None = None
) -> bytes:
    """The message with other rights, signed by the buyer where that is still a signer."""
    message = split(handed_out(want, BLOCKHASH))[1]
    _, own, blockhash, instructions = compiled(message)
    changed = bytes(
        Message.new_with_compiled_instructions(
            signers, readonly_signed, readonly, keys or own, blockhash, instructions
        )
    )
    raw = unsigned(changed)
    return signed(raw, BUYER) if 0 < signers <= len(own) and BUYER.pubkey() in own[:signers] else raw


def with_more_keys(key: Pubkey) -> bytes:
    """The sponsored transaction with one more account, only to be read."""
    header, keys, *_ = compiled(split(handed_out(SPONSORED, BLOCKHASH))[1])
    readonly = header.num_readonly_unsigned_accounts + 1
    return with_header(SPONSORED, 2, header.num_readonly_signed_accounts, readonly, [*keys, key])


@pytest.mark.parametrize("name", WANTED)
def test_other_rights_of_accounts_are_refused(name: str) -> None:
    header, keys, *_ = compiled(split(handed_out(WANTED[name], BLOCKHASH))[1])
    right = (
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
    )
    for signers in range(1, 5):
        for readonly_signed in range(4):
            for readonly in range(len(keys) + 2):
                if (signers, readonly_signed, readonly) != right:
                    with pytest.raises((InvalidParams, InvalidSignature)):
                        check(WANTED[name], with_header(WANTED[name], signers, readonly_signed, readonly))


def test_no_signers_at_all_are_refused() -> None:
    message = split(handed_out(SPONSORED, BLOCKHASH))[1]
    expect_refused(SPONSORED, b"\0" + b"\0" + message[1:], "no signed transaction")
    expect_refused(SPONSORED, b"\x01" + bytes(64) + b"\0" + message[1:], "impossible header")


def test_an_account_that_is_there_twice_is_refused() -> None:
    raw = with_more_keys(USDC)
    expect_refused(SPONSORED, raw, "no transaction that a node takes")


def test_an_account_that_nothing_reads_is_refused() -> None:
    raw = with_more_keys(OTHER)
    expect_refused(SPONSORED, raw, "no guard reads it")


def test_an_instruction_out_of_bounds_is_refused() -> None:
    header, keys, blockhash, instructions = compiled(split(handed_out(SPONSORED, BLOCKHASH))[1])
    for odd in (
        CompiledInstruction(len(keys), b"", b""),
        CompiledInstruction(255, b"", b""),
        CompiledInstruction(3, b"", bytes([len(keys)])),
    ):
        message = Message.new_with_compiled_instructions(
            2, 0, header.num_readonly_unsigned_accounts, keys, blockhash, [*instructions, odd]
        )
        expect_refused(
            SPONSORED, signed(unsigned(bytes(message)), BUYER), "names an account that is not there"
        )


def test_a_versioned_transaction_is_refused() -> None:
    own, known = parts(BUYER_PAYS), Hash.from_string(BLOCKHASH)
    message = MessageV0.try_compile(BUYER.pubkey(), own, [], known)
    signature = bytes(BUYER.sign_message(to_bytes_versioned(message)))
    raw = b"\x01" + signature + to_bytes_versioned(message)
    expect_refused(BUYER_PAYS, raw, "versioned")
    lookup = MessageAddressTableLookup(OTHER, b"\x01", b"")
    tabled = MessageV0(message.header, message.account_keys, known, message.instructions, [lookup])
    expect_refused(BUYER_PAYS, b"\x01" + signature + to_bytes_versioned(tabled), "versioned")


@pytest.mark.parametrize("more", [b"\0", bytes(64), b"\x01" * 7])
def test_bytes_behind_the_transaction_are_refused(more: bytes) -> None:
    expect_refused(SPONSORED, signed(handed_out(SPONSORED, BLOCKHASH), BUYER) + more, "no transaction")


def test_more_signatures_than_signers_are_refused() -> None:
    signatures, message = split(signed(handed_out(SPONSORED, BLOCKHASH), BUYER))
    raw = b"\x03" + b"".join([*signatures, signatures[1]]) + message
    with pytest.raises(InvalidParams, match="3 signatures, not 2"):
        check(SPONSORED, raw)
    with pytest.raises(InvalidParams):
        check(SPONSORED, b"\x01" + signatures[1] + message)


def test_another_count_of_bytes_for_the_same_number_is_refused() -> None:
    signatures, message = split(signed(handed_out(SPONSORED, BLOCKHASH), BUYER))
    expect_refused(SPONSORED, b"\x82\0" + b"".join(signatures) + message, "no signed transaction")
    longer = message[:3] + bytes([message[3] | 0x80, 0]) + message[4:]
    expect_refused(SPONSORED, signed_anew(longer), "no transaction")


def signed_anew(message: bytes) -> bytes:
    """Bytes that may be no message, with the buyer's signature in the second place."""
    return b"\x02" + bytes(64) + bytes(BUYER.sign_message(message)) + message


# What is no transaction


@pytest.mark.parametrize(
    "answer",
    ["", "AQ==", "not base64!", "é", "A" * (TEXT_MAX + 4), "AAAA" * 300, text(b"\x01" + bytes(64)), "AQ"],
)
def test_what_is_no_transaction_is_refused(answer: str) -> None:
    with pytest.raises(InvalidParams):
        check(SPONSORED, answer)


@pytest.mark.parametrize("odd", ["\n", " ", "=", "-", "\0"])
def test_only_plain_base64_is_read(odd: str) -> None:
    answer = text(signed(handed_out(SPONSORED, BLOCKHASH), BUYER))
    expect_refused(SPONSORED, answer[:40] + odd + answer[40:], "in base64")


def test_a_long_answer_is_not_even_decoded() -> None:
    expect_refused(SPONSORED, "!" * (TEXT_MAX + 1), "at most 1232 bytes")


def test_a_transaction_larger_than_a_packet_is_refused() -> None:
    raw = signed(handed_out(SPONSORED, BLOCKHASH), BUYER)
    expect_refused(SPONSORED, raw + bytes(1233 - len(raw)), "at most 1232 bytes")


@pytest.mark.parametrize("cut", range(0, 700, 7))
def test_a_transaction_that_ends_early_is_refused(cut: int) -> None:
    raw = signed(handed_out(SPONSORED, BLOCKHASH), BUYER)
    with pytest.raises(InvalidParams):
        check(SPONSORED, raw[: min(cut, len(raw) - 1)])


# Signatures


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("guards", WITH_GUARDS)
def test_the_buyer_has_signed_just_this(name: str, guards: list[Instruction]) -> None:
    want = WANTED[name]
    whole = bent(want, [*parts(want), *guards])
    for signature, words in (
        (bytes(64), "has not signed"),
        (bytes(BUYER.sign_message(b"another message")), "not one of this transaction"),
        (bytes(STRANGER.sign_message(split(whole)[1])), "not one of this transaction"),
    ):
        with pytest.raises(InvalidSignature, match=words):
            check(want, with_signature(whole, BUYER.pubkey(), signature))


@pytest.mark.parametrize("guards", WITH_GUARDS)
def test_our_signature_is_not_replaced_by_another(guards: list[Instruction]) -> None:
    raw = bent(SPONSORED, [*parts(SPONSORED), *guards])
    odd = with_signature(raw, PAYER.pubkey(), bytes(STRANGER.sign_message(b"x")))
    with pytest.raises(InvalidSignature, match="fee payer was replaced"):
        check(SPONSORED, odd)


def test_signatures_in_each_others_place_are_refused() -> None:
    signatures, message = split(signed(handed_out(SPONSORED, BLOCKHASH), BUYER))
    with pytest.raises(InvalidSignature):
        check(SPONSORED, b"\x02" + signatures[1] + signatures[0] + message)


def test_the_transaction_of_another_payment_is_refused() -> None:
    expect_refused(SPONSORED, signed(handed_out(BUYER_PAYS, BLOCKHASH), BUYER), "another account pays")
    expect_refused(IN_SOL, signed(handed_out(BUYER_PAYS, BLOCKHASH), BUYER))


def test_who_asks_says_who_pays_the_fee() -> None:
    answer = text(signed(handed_out(SPONSORED, BLOCKHASH), BUYER))
    with pytest.raises(ValueError, match="was to pay the fee"):
        check_returned(handed_out(SPONSORED, BLOCKHASH), answer, BUYER.pubkey(), None, LIMITS)
