"""The transaction that pays, as the real programs carry it out."""

from __future__ import annotations

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.solana.accounts import Mint, decode_mint
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.build import (
    MICRO,
    TRANSACTION_BYTES_MAX,
    UNITS_MAX,
    Leg,
    Wanted,
    build_message,
    fee_of,
    lamports_max,
    network_fee,
    split,
    unit_limit_for,
    unsigned,
    with_signature,
)
from payd.chains.solana.extensions import Kind
from payd.chains.solana.keys import (
    ASSOCIATED_TOKEN,
    COMPUTE_BUDGET,
    MEMO,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    token_account,
)
from tests.chains.solana.vm import (
    BUYER,
    MERCHANT,
    OPERATOR,
    PAYER,
    PYUSD,
    PYUSD_EXTENSIONS,
    SOL,
    STRANGER,
    USDC,
    World,
    extension,
    mint_data,
    signed,
)

PAYMENT = "pay_0123456789"
ONES = str(Pubkey(bytes([1] * 32)))  # a blockhash


@pytest.fixture
def world() -> World:
    world = World()
    world.put_sol(PAYER, SOL)
    world.put_mint(USDC)
    world.put_mint(PYUSD, TOKEN_2022, mint_data(extensions=PYUSD_EXTENSIONS))
    return world


def wanted(
    mint: Pubkey | None = USDC,
    program: Pubkey | None = TOKEN,
    *,
    fee: int = 0,
    create: bool = False,
    payer: Pubkey | None = None,
    price: int = 0,
) -> Wanted:
    legs = (Leg(MERCHANT.pubkey(), 12_340_000), *([Leg(OPERATOR.pubkey(), fee)] if fee else []))
    return Wanted(
        reference=reference_of(PAYMENT),
        buyer=BUYER.pubkey(),
        fee_payer=payer or PAYER.pubkey(),
        mint=mint,
        program=program,
        decimals=6 if mint else 9,
        legs=legs,
        create=tuple(leg.owner for leg in legs) if create else (),
        unit_limit=100_000,
        unit_price=price,
    )


def programs(message: bytes) -> list[Pubkey]:
    read = Message.from_bytes(message)
    return [read.account_keys[one.program_id_index] for one in read.instructions]


def test_the_buyer_pays_the_merchant_and_the_operator_with_one_signature(world: World) -> None:
    world.put_tokens(BUYER, USDC, 20_000_000)
    world.put_tokens(OPERATOR, USDC, 5)
    world.put_tokens(MERCHANT, USDC, 7)
    landed = world.send(signed(unsigned(build_message(wanted(fee=1000), world.blockhash)), PAYER, BUYER))
    assert landed.err is None
    assert world.tokens(BUYER, USDC) == 20_000_000 - 12_340_000 - 1000
    assert (world.tokens(MERCHANT, USDC), world.tokens(OPERATOR, USDC)) == (12_340_007, 1005)
    assert world.lamports(BUYER) == 0


@pytest.mark.parametrize(("mint", "program"), [(USDC, TOKEN), (PYUSD, TOKEN_2022)])
def test_token_accounts_that_are_missing_are_created_at_the_fee_payers_cost(
    world: World, mint: Pubkey, program: Pubkey
) -> None:
    world.put_tokens(BUYER, mint, 20_000_000, program, _of_a_new_holding(program))
    want = wanted(mint, program, fee=1000, create=True, price=1_000_000)
    account = world.svm.get_account(mint)
    assert account is not None
    rent = world.rent(decode_mint(program, bytes(account.data)).holding_bytes)
    landed = world.send(signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER))
    assert landed.err is None
    assert (world.tokens(MERCHANT, mint, program), world.tokens(OPERATOR, mint, program)) == (
        12_340_000,
        1000,
    )
    assert SOL - world.lamports(PAYER) == lamports_max(want, rent) == 10_000 + 100_000 + 2 * rent


def _of_a_new_holding(program: Pubkey) -> bytes:
    kinds = [Kind.IMMUTABLE_OWNER, Kind.TRANSFER_FEE_AMOUNT, Kind.TRANSFER_HOOK_ACCOUNT]
    sizes = {Kind.TRANSFER_FEE_AMOUNT: 8, Kind.TRANSFER_HOOK_ACCOUNT: 1}
    written = b"".join(extension(kind, bytes(sizes.get(kind, 0))) for kind in kinds)
    return written if program == TOKEN_2022 else b""


def test_a_token_account_that_is_there_is_not_created_again(world: World) -> None:
    world.put_tokens(BUYER, USDC, 20_000_000)
    world.put_tokens(MERCHANT, USDC, 0)
    raw = unsigned(build_message(wanted(create=True), world.blockhash))
    assert world.send(signed(raw, PAYER, BUYER)).err is None
    assert SOL - world.lamports(PAYER) == 10_000


def test_sol_moves_from_wallet_to_wallet(world: World) -> None:
    world.put_sol(BUYER, SOL)
    world.put_sol(MERCHANT, SOL)
    want = wanted(None, None, fee=1_000_000, payer=BUYER.pubkey(), price=1000)
    landed = world.send(signed(unsigned(build_message(want, world.blockhash)), BUYER))
    assert landed.err is None
    assert world.lamports(MERCHANT) - SOL == 12_340_000
    assert world.lamports(OPERATOR) == 1_000_000
    assert SOL - world.lamports(BUYER) == 12_340_000 + 1_000_000 + lamports_max(want, 0)


def test_token_accounts_that_ask_for_a_memo_are_paid(world: World) -> None:
    asking = extension(Kind.MEMO_TRANSFER, b"\x01")
    world.put_tokens(BUYER, PYUSD, 20_000_000, TOKEN_2022, _of_a_new_holding(TOKEN_2022))
    for owner in (MERCHANT, OPERATOR):
        world.put_tokens(owner, PYUSD, 0, TOKEN_2022, _of_a_new_holding(TOKEN_2022) + asking)
    message = build_message(wanted(PYUSD, TOKEN_2022, fee=1000), world.blockhash)
    assert world.send(signed(unsigned(message), PAYER, BUYER)).err is None
    assert world.tokens(OPERATOR, PYUSD, TOKEN_2022) == 1000


@pytest.mark.parametrize(
    ("want", "order"),
    [
        (wanted(), [MEMO, TOKEN]),
        (wanted(fee=1), [MEMO, TOKEN, TOKEN]),
        (wanted(create=True), [ASSOCIATED_TOKEN, MEMO, TOKEN]),
        (wanted(PYUSD, TOKEN_2022, fee=1), [MEMO, TOKEN_2022, MEMO, TOKEN_2022]),
        (wanted(None, None), [MEMO, SYSTEM]),
    ],
)
def test_the_compute_budget_stands_first_and_a_memo_right_before_the_transfer(
    want: Wanted, order: list[Pubkey]
) -> None:
    assert programs(build_message(want, ONES)) == [COMPUTE_BUDGET, COMPUTE_BUDGET, *order]


@pytest.mark.parametrize("want", [wanted(fee=1), wanted(None, None, fee=1), wanted(PYUSD, TOKEN_2022, fee=1)])
def test_the_reference_is_named_by_the_merchants_transfer_only_and_can_do_nothing(want: Wanted) -> None:
    message = Message.from_bytes(build_message(want, ONES))
    place = message.account_keys.index(reference_key(PAYMENT))
    naming = [one for one in message.instructions if place in one.accounts]
    assert [int.from_bytes(one.data[-9:-1] if want.mint else one.data[-8:], "little") for one in naming] == [
        12_340_000
    ]
    assert not message.is_signer(place)
    assert place >= len(message.account_keys) - message.header.num_readonly_unsigned_accounts


def test_the_memo_is_that_of_the_reference() -> None:
    message = Message.from_bytes(build_message(wanted(), ONES))
    memo = next(one for one in message.instructions if message.account_keys[one.program_id_index] == MEMO)
    assert bytes(memo.data).decode() == memo_of(reference_of(PAYMENT))
    assert PAYMENT.encode() not in bytes(message)


@pytest.mark.parametrize("price", [0, 1, 999_999, 1_000_000])
def test_what_landing_costs_is_what_the_chain_takes(world: World, price: int) -> None:
    world.put_tokens(BUYER, USDC, 20_000_000)
    world.put_tokens(MERCHANT, USDC, 0)
    want = wanted(price=price)
    message = build_message(want, world.blockhash)
    landed = world.send(signed(unsigned(message), PAYER, BUYER))
    assert landed.err is None
    assert landed.fee == lamports_max(want, 0) == fee_of(message)


def test_no_transaction_pays_for_more_units_than_it_can_take(world: World) -> None:
    limit, price = set_compute_unit_limit(UNITS_MAX + 1_000_000), set_compute_unit_price(MICRO)
    message = Message.new_with_blockhash([limit, price], PAYER.pubkey(), Hash.from_string(world.blockhash))
    landed = world.send(signed(unsigned(bytes(message)), PAYER))
    assert landed.fee == fee_of(bytes(message)) == network_fee(1, UNITS_MAX, MICRO)


def test_a_fraction_of_a_lamport_is_a_lamport() -> None:
    assert network_fee(1, 1, 1) == 5001
    assert network_fee(2, 1_000_000, 1) == 10_001


@pytest.mark.parametrize(
    "want",
    [
        wanted(fee=1000),
        wanted(fee=1000, create=True),
        wanted(PYUSD, TOKEN_2022, fee=1000),
        wanted(PYUSD, TOKEN_2022, fee=1000, create=True),
        wanted(None, None, fee=1_000_000),
    ],
)
def test_the_unit_limit_is_enough(world: World, want: Wanted) -> None:
    if want.mint is None:
        world.put_sol(BUYER, SOL)
        world.put_sol(MERCHANT, SOL)
    else:
        assert want.program is not None
        for owner in (BUYER, *(() if want.create else (MERCHANT, OPERATOR))):
            world.put_tokens(owner, want.mint, 20_000_000, want.program, _of_a_new_holding(want.program))
    answer = world.answer_of(signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER))
    assert answer["meta"]["err"] is None
    # The guards of a wallet come on top.
    assert answer["meta"]["computeUnitsConsumed"] * 2 < unit_limit_for(want) - 30_000 < 250_000


def test_the_largest_payment_leaves_room_for_guards() -> None:
    raw = unsigned(build_message(wanted(PYUSD, TOKEN_2022, fee=2**63, create=True), ONES))
    assert len(raw) < TRANSACTION_BYTES_MAX - 200


def test_what_does_not_fit_a_packet_is_not_built() -> None:
    legs = tuple(Leg(Pubkey(bytes([n]) * 32), n) for n in range(1, 20))
    with pytest.raises(ValueError, match="bytes"):
        build_message(
            Wanted(reference_of(PAYMENT), BUYER.pubkey(), PAYER.pubkey(), USDC, TOKEN, 6, legs), ONES
        )


@pytest.mark.parametrize("legs", [(), (Leg(MERCHANT.pubkey(), 0),), (Leg(MERCHANT.pubkey(), 2**64),)])
def test_a_payment_moves_something(legs: tuple[Leg, ...]) -> None:
    with pytest.raises(ValueError, match="moves something"):
        build_message(
            Wanted(reference_of(PAYMENT), BUYER.pubkey(), PAYER.pubkey(), USDC, TOKEN, 6, legs), ONES
        )


def test_no_token_account_is_created_for_sol() -> None:
    with pytest.raises(ValueError, match="SOL"):
        build_message(wanted(None, None, create=True), ONES)


def test_the_same_payment_gives_the_same_bytes() -> None:
    assert build_message(wanted(fee=1), ONES) == build_message(wanted(fee=1), ONES)


def test_a_signature_goes_to_the_place_of_its_signer() -> None:
    raw = unsigned(build_message(wanted(), ONES))
    assert split(raw)[0] == [bytes(64)] * 2
    one, two = bytes([1] * 64), bytes([2] * 64)
    raw = with_signature(with_signature(raw, BUYER.pubkey(), two), PAYER.pubkey(), one)
    assert split(raw) == ([one, two], build_message(wanted(), ONES))


def test_who_does_not_sign_has_no_place() -> None:
    raw = unsigned(build_message(wanted(), ONES))
    with pytest.raises(ValueError, match="does not sign"):
        with_signature(raw, STRANGER.pubkey(), bytes(64))
    with pytest.raises(ValueError, match=r"expected a sequence|64"):
        with_signature(raw, BUYER.pubkey(), bytes(63))


@pytest.mark.parametrize("raw", [b"", b"\0" + bytes(100), b"\x80" + bytes(9000), b"\x01" + bytes(64)])
def test_bytes_without_signatures_or_message_are_no_transaction(raw: bytes) -> None:
    with pytest.raises(ValueError, match="no transaction"):
        split(raw)


def test_a_plain_mint_has_plain_token_accounts() -> None:
    assert Mint(TOKEN, 6, is_initialized=True).holding_bytes == 165
    assert token_account(BUYER.pubkey(), USDC, TOKEN) != token_account(BUYER.pubkey(), USDC, TOKEN_2022)
