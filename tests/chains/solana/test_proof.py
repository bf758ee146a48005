"""What a landed transaction paid: balances of real transactions in LiteSVM, and odd ones made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from solders.account import Account
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from payd.chains.solana.answers import Landed, TokenBalance
from payd.chains.solana.binding import memo_of, reference_of
from payd.chains.solana.build import Leg, Wanted, build_message, unsigned
from payd.chains.solana.keys import MEMO, MEMO_V1, TOKEN, token_account
from payd.chains.solana.proof import Known, Paid, Watched, candidate_bindings, paid_by
from payd.core.caip import ChainId
from tests.chains.solana.vm import (
    BUYER,
    MERCHANT,
    OPERATOR,
    PAYER,
    SOL,
    STRANGER,
    USDC,
    World,
    holding_data,
    signed,
)
from tests.live.solana import close_holding, create_holding

CHAIN = ChainId("solana", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
DOLLARS = f"{CHAIN}/token:{USDC}"
COIN = f"{CHAIN}/slip44:501"
# The same letters as USDC's in a table, and another mint.
FALSE_USDC = Pubkey(bytes([9] * 32))
WATCHED = Watched({MERCHANT.pubkey()}, {USDC: DOLLARS}, COIN)

ONE, TWO = reference_of("pay_1"), reference_of("pay_2")
PRICE = 5_000_000


def account(who: Keypair) -> str:
    return f"{CHAIN}:{who.pubkey()}"


@pytest.fixture
def world() -> World:
    world = World()
    world.put_sol(PAYER, SOL)
    world.put_mint(USDC)
    world.put_mint(FALSE_USDC)
    for mint in (USDC, FALSE_USDC):
        for owner in (BUYER, MERCHANT, OPERATOR, STRANGER):
            world.put_tokens(owner, mint, 100_000_000)
    for owner in (BUYER, MERCHANT, OPERATOR, STRANGER):
        world.put_sol(owner, SOL)
    return world


def wanted(mint: Pubkey | None = USDC, *legs: Leg, payer: Keypair = PAYER) -> Wanted:
    return Wanted(
        reference_of("pay_1"),
        BUYER.pubkey(),
        payer.pubkey(),
        mint,
        TOKEN if mint else None,
        6,
        legs or (Leg(MERCHANT.pubkey(), PRICE),),
    )


def paid(world: World, want: Wanted, known: Known = ((ONE, DOLLARS), (ONE, COIN))) -> list[Paid]:
    signers = {want.buyer: BUYER, want.fee_payer: PAYER if want.fee_payer == PAYER.pubkey() else BUYER}
    landed = world.send(signed(unsigned(build_message(want, world.blockhash)), *signers.values()))
    return paid_by(CHAIN, landed, WATCHED, known)


def move(
    amount: int, to: Pubkey, *references: bytes, sender: Keypair = BUYER, mint: Pubkey = USDC
) -> Instruction:
    """A transfer of a token that names references."""
    accounts = [
        AccountMeta(token_account(sender.pubkey(), mint, TOKEN), is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(to, is_signer=False, is_writable=True),
        AccountMeta(sender.pubkey(), is_signer=True, is_writable=False),
        *(AccountMeta(Pubkey(one), is_signer=False, is_writable=False) for one in references),
    ]
    return Instruction(TOKEN, b"\x0c" + amount.to_bytes(8, "little") + b"\x06", accounts)


def mint(amount: int, to: Pubkey) -> Instruction:
    """What a bridge does at whoever's word: its own program calls the token's for it."""
    accounts = [
        AccountMeta(USDC, is_signer=False, is_writable=True),
        AccountMeta(to, is_signer=False, is_writable=True),
        AccountMeta(STRANGER.pubkey(), is_signer=True, is_writable=False),
    ]
    return Instruction(TOKEN, b"\x07" + amount.to_bytes(8, "little"), accounts)


def memo(reference: bytes, program: Pubkey = MEMO) -> Instruction:
    return Instruction(program, memo_of(reference).encode(), [])


def sent(world: World, instructions: Sequence[Instruction], *signers: Keypair) -> Landed:
    """Let a transaction of somebody else's making run; the first signer pays its fee."""
    message = Message.new_with_blockhash(
        list(instructions), signers[0].pubkey(), Hash.from_string(world.blockhash)
    )
    return world.send(signed(unsigned(bytes(message)), *signers))


def place_of(who: Keypair) -> Pubkey:
    return token_account(who.pubkey(), USDC, TOKEN)


def second_account(world: World) -> Pubkey:
    """Another token account of the merchant's."""
    place = Pubkey(bytes([1] * 32))
    world.svm.set_account(place, Account(SOL, holding_data(USDC, MERCHANT.pubkey(), 0), TOKEN))
    return place


def test_a_payment_in_a_token_is_found_and_bound(world: World) -> None:
    want = wanted()
    keys = Message.from_bytes(build_message(want, world.blockhash)).account_keys
    assert paid(world, want) == [
        Paid(DOLLARS, account(BUYER), account(MERCHANT), PRICE, keys.index(place_of(MERCHANT)), ONE)
    ]


def test_a_payment_in_sol_is_found_and_bound_and_its_fee_is_not_the_senders_loss(world: World) -> None:
    want = wanted(None, payer=BUYER)
    keys = Message.from_bytes(build_message(want, world.blockhash)).account_keys
    assert paid(world, want) == [
        Paid(COIN, account(BUYER), account(MERCHANT), PRICE, keys.index(MERCHANT.pubkey()), ONE)
    ]


def test_a_fee_payer_who_loses_more_than_the_buyer_pays_is_not_the_sender(world: World) -> None:
    want = msgspec.structs.replace(
        wanted(None, Leg(MERCHANT.pubkey(), 2000)), unit_limit=1_000_000, unit_price=1_000_000
    )
    assert [(one.sender, one.value) for one in paid(world, want)] == [(account(BUYER), 2000)]


def test_the_operators_leg_does_not_pay_the_merchant(world: World) -> None:
    legs = Leg(MERCHANT.pubkey(), PRICE), Leg(OPERATOR.pubkey(), 70)
    assert [one.value for one in paid(world, wanted(USDC, *legs))] == [PRICE]


@pytest.mark.parametrize("amounts", [(PRICE, 70), (70, PRICE), (PRICE, PRICE)])
def test_of_two_watched_wallets_the_one_that_the_reference_stands_beside_is_bound(
    world: World, amounts: tuple[int, int]
) -> None:
    watched = Watched({MERCHANT.pubkey(), OPERATOR.pubkey()}, {USDC: DOLLARS})
    legs = (Leg(MERCHANT.pubkey(), amounts[0]), Leg(OPERATOR.pubkey(), amounts[1]))
    want = wanted(USDC, *legs)
    landed = world.send(signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER))
    found = {
        one.recipient: (one.value, one.binding) for one in paid_by(CHAIN, landed, watched, [(ONE, DOLLARS)])
    }
    assert found == {account(MERCHANT): (amounts[0], ONE), account(OPERATOR): (amounts[1], None)}


def test_a_failed_transaction_pays_nothing(world: World) -> None:
    assert paid(world, wanted(USDC, Leg(MERCHANT.pubkey(), 10**12))) == []


def test_an_error_counts_more_than_balances(world: World) -> None:
    landed = world.send(signed(unsigned(build_message(wanted(), world.blockhash)), PAYER, BUYER))
    failed = msgspec.structs.replace(landed, err={"InstructionError": [0, "x"]})
    assert paid_by(CHAIN, failed, WATCHED, [(ONE, DOLLARS)]) == []


def test_a_token_with_the_same_symbol_pays_nothing(world: World) -> None:
    assert paid(world, wanted(FALSE_USDC)) == []


def test_without_a_memo_nothing_is_bound(world: World) -> None:
    landed = sent(world, [move(PRICE, place_of(MERCHANT), ONE)], BUYER)
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [None]
    assert candidate_bindings(landed) == ()


def test_without_the_reference_a_memo_binds_nothing(world: World) -> None:
    landed = sent(world, [memo(ONE), move(PRICE, place_of(MERCHANT))], BUYER)
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [None]


@pytest.mark.parametrize("program", [MEMO, MEMO_V1])
@pytest.mark.parametrize("order", [1, -1])
def test_a_wallet_writes_its_memo_before_or_behind_with_either_program(
    world: World, program: Pubkey, order: int
) -> None:
    landed = sent(world, [memo(ONE, program), move(PRICE, place_of(MERCHANT), ONE)][::order], BUYER)
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [ONE]


def test_another_program_with_the_memos_words_writes_no_memo(world: World) -> None:
    landed = sent(world, [memo(ONE), move(PRICE, place_of(MERCHANT), ONE)], BUYER)
    elsewhere = [STRANGER.pubkey() if key == MEMO else key for key in landed.keys]
    changed = msgspec.structs.replace(landed, keys=tuple(elsewhere))
    assert candidate_bindings(landed) == (ONE,)
    assert candidate_bindings(changed) == ()


def test_a_binding_of_another_asset_or_of_nobody_binds_nothing(world: World) -> None:
    assert [one.binding for one in paid(world, wanted(), [(ONE, COIN)])] == [None]


@pytest.mark.parametrize("known", [[], [(TWO, DOLLARS)]])
def test_what_was_not_handed_out_binds_nothing(world: World, known: Known) -> None:
    assert [one.binding for one in paid(world, wanted(), known)] == [None]


def test_of_several_references_the_first_whose_asset_fits_binds(world: World) -> None:
    landed = sent(world, [memo(ONE), memo(TWO), move(PRICE, place_of(MERCHANT), ONE, TWO)], BUYER)
    first, second = candidate_bindings(landed)
    assert {first, second} == {ONE, TWO}
    known = [(first, DOLLARS), (second, DOLLARS)]
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, known)] == [first]
    known = [(first, COIN), (second, DOLLARS)]
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, known)] == [second]


def test_two_payments_in_one_transaction_are_each_bound_once(world: World) -> None:
    watched = Watched({MERCHANT.pubkey(), OPERATOR.pubkey()}, {USDC: DOLLARS})
    parts = [move(PRICE, place_of(MERCHANT), TWO), move(PRICE, place_of(OPERATOR), ONE)]
    landed = sent(world, [memo(ONE), memo(TWO), *parts], BUYER)
    found = paid_by(CHAIN, landed, watched, [(ONE, DOLLARS), (TWO, DOLLARS)])
    assert {one.recipient: one.binding for one in found} == {account(MERCHANT): TWO, account(OPERATOR): ONE}


def test_one_reference_binds_one_transfer_even_if_both_name_it(world: World) -> None:
    watched = Watched({MERCHANT.pubkey(), OPERATOR.pubkey()}, {USDC: DOLLARS})
    parts = [move(PRICE, place_of(MERCHANT), ONE), move(PRICE, place_of(OPERATOR), ONE)]
    landed = sent(world, [memo(ONE), *parts], BUYER)
    found = paid_by(CHAIN, landed, watched, [(ONE, DOLLARS)])
    assert sorted((one.binding is None) for one in found) == [False, True]


def test_a_reference_beside_the_transfer_binds_what_else_was_paid(world: World) -> None:
    beside = Instruction(MEMO, memo_of(ONE).encode(), [])
    named = transfer(TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=STRANGER.pubkey(), lamports=1))
    reference = AccountMeta(Pubkey(ONE), is_signer=False, is_writable=False)
    named = Instruction(named.program_id, named.data, [*named.accounts, reference])
    landed = sent(world, [beside, named, move(PRICE, place_of(MERCHANT))], BUYER)
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [ONE]


def test_several_accounts_of_one_wallet_are_one_payment_at_the_first_that_received(world: World) -> None:
    second = second_account(world)
    landed = sent(world, [memo(ONE), move(2, place_of(MERCHANT), ONE), move(3, second, ONE)], BUYER)
    [found] = paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])
    assert (found.value, found.binding) == (5, ONE)
    assert found.account_index == min(landed.keys.index(place_of(MERCHANT)), landed.keys.index(second))


def test_an_account_that_has_no_more_than_before_is_not_the_one_that_received(world: World) -> None:
    second = second_account(world)
    sent(world, [move(7, second)], BUYER)
    landed = sent(world, [memo(ONE), move(0, second), move(5, place_of(MERCHANT), ONE)], BUYER)
    [found] = paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])
    assert landed.keys.index(second) < landed.keys.index(place_of(MERCHANT)) == found.account_index


def test_what_a_wallet_moves_between_its_own_accounts_pays_nothing(world: World) -> None:
    second = second_account(world)
    landed = sent(world, [memo(ONE), move(3, second, ONE, sender=MERCHANT)], MERCHANT)
    assert landed.err is None
    assert paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)]) == []


def test_an_account_that_its_owner_gave_away_in_the_same_transaction_pays_the_new_owner(world: World) -> None:
    accounts = [
        AccountMeta(place_of(MERCHANT), is_signer=False, is_writable=True),
        AccountMeta(MERCHANT.pubkey(), is_signer=True, is_writable=False),
    ]
    to_stranger = Instruction(TOKEN, b"\x06\x02\x01" + bytes(STRANGER.pubkey()), accounts)
    landed = sent(world, [memo(ONE), move(PRICE, place_of(MERCHANT), ONE), to_stranger], BUYER, MERCHANT)
    assert landed.err is None
    assert paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)]) == []


def test_the_sender_is_who_lost_most_and_not_who_sent(world: World) -> None:
    parts = [move(4, place_of(MERCHANT), ONE), move(6, place_of(MERCHANT), ONE, sender=STRANGER)]
    landed = sent(world, [memo(ONE), *parts], BUYER, STRANGER)
    for known in ([], [(ONE, DOLLARS)]):
        assert [(one.sender, one.value) for one in paid_by(CHAIN, landed, WATCHED, known)] == [
            (account(STRANGER), 10)
        ]


def test_the_sender_is_whose_transfer_names_the_payment_and_not_who_gave_them_what_they_paid_with(
    world: World,
) -> None:
    """A wallet that pays out of an exchange has no less of the token than before; the pool has."""
    swapped = move(PRICE + 1, place_of(BUYER), sender=STRANGER)
    landed = sent(world, [swapped, memo(ONE), move(PRICE, place_of(MERCHANT), ONE)], PAYER, STRANGER, BUYER)
    [found] = paid_by(CHAIN, landed, WATCHED, {(ONE, DOLLARS)})
    assert (found.sender, found.value, found.binding) == (account(BUYER), PRICE, ONE)
    [unbound] = paid_by(CHAIN, landed, WATCHED, ())
    assert unbound.sender == account(STRANGER)


def test_the_sender_out_of_an_account_that_came_and_went_is_who_signed_for_it(world: World) -> None:
    buyer = Keypair()
    world.put_sol(buyer, SOL)
    parts = [
        create_holding(buyer.pubkey(), buyer.pubkey(), USDC),
        move(PRICE, place_of(buyer), sender=STRANGER),
        memo(ONE),
        move(PRICE, place_of(MERCHANT), ONE, sender=buyer),
        close_holding(buyer.pubkey(), USDC),
    ]
    landed = sent(world, parts, PAYER, STRANGER, buyer)
    [found] = paid_by(CHAIN, landed, WATCHED, {(ONE, DOLLARS)})
    assert (found.sender, found.value) == (account(buyer), PRICE)


def test_the_sender_of_sol_is_whose_transfer_names_the_payment(world: World) -> None:
    given = transfer(
        TransferParams(from_pubkey=STRANGER.pubkey(), to_pubkey=BUYER.pubkey(), lamports=PRICE + 1)
    )
    named = transfer(TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=MERCHANT.pubkey(), lamports=PRICE))
    reference = AccountMeta(Pubkey(ONE), is_signer=False, is_writable=False)
    named = Instruction(named.program_id, named.data, [*named.accounts, reference])
    landed = sent(world, [given, memo(ONE), named], PAYER, STRANGER, BUYER)
    [found] = paid_by(CHAIN, landed, WATCHED, {(ONE, COIN)})
    assert (found.sender, found.value, found.binding) == (account(BUYER), PRICE, ONE)


def test_of_two_who_pay_in_one_transaction_each_is_the_sender_of_their_own(world: World) -> None:
    watched = msgspec.structs.replace(WATCHED, owners={MERCHANT.pubkey(), OPERATOR.pubkey()})
    both = [
        memo(ONE),
        memo(TWO),
        move(PRICE, place_of(MERCHANT), ONE),
        move(PRICE - 1, place_of(OPERATOR), TWO, sender=STRANGER),
    ]
    found = paid_by(
        CHAIN, sent(world, both, PAYER, BUYER, STRANGER), watched, {(ONE, DOLLARS), (TWO, DOLLARS)}
    )
    assert {one.binding: one.sender for one in found} == {ONE: account(BUYER), TWO: account(STRANGER)}


def test_what_was_minted_was_sent_by_who_signed_first(world: World) -> None:
    landed = sent(world, [mint(PRICE, place_of(MERCHANT))], BUYER, STRANGER)
    assert landed.err is None
    assert [(one.sender, one.value) for one in paid_by(CHAIN, landed, WATCHED, [])] == [
        (account(BUYER), PRICE)
    ]


@pytest.mark.parametrize(
    "beside",
    [
        [],
        [move(1, place_of(OPERATOR))],
        [move(1, place_of(MERCHANT))],
        # It names the shop's account, and brings nothing there.
        [move(PRICE, place_of(OPERATOR), bytes(place_of(MERCHANT)))],
    ],
)
def test_whoever_brings_a_bridge_its_message_cannot_claim_what_it_mints_for_a_shop(
    world: World, beside: list[Instruction]
) -> None:
    named = transfer(TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=STRANGER.pubkey(), lamports=1))
    reference = AccountMeta(Pubkey(ONE), is_signer=False, is_writable=False)
    named = Instruction(named.program_id, named.data, [*named.accounts, reference])
    landed = sent(world, [memo(ONE), named, mint(PRICE, place_of(MERCHANT)), *beside], BUYER, STRANGER)
    assert landed.err is None
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [None]


def test_a_transfer_that_a_node_tells_of_without_accounts_brings_nothing(world: World) -> None:
    landed = sent(world, [memo(ONE), mint(PRICE, place_of(MERCHANT))], BUYER, STRANGER)
    message = landed.message
    assert isinstance(message, Message)
    cut = [
        CompiledInstruction(one.program_id_index, b"\x0c", b"") if bytes(one.data)[:1] == b"\x07" else one
        for one in message.instructions
    ]
    header = message.header
    odd = Message.new_with_compiled_instructions(
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
        message.account_keys,
        message.recent_blockhash,
        cut,
    )
    [found] = paid_by(CHAIN, msgspec.structs.replace(landed, message=odd), WATCHED, [])
    assert (found.value, found.binding) == (PRICE, None)


def test_what_the_buyer_had_minted_and_then_paid_with_is_bound(world: World) -> None:
    parts = [mint(PRICE, place_of(BUYER)), memo(ONE), move(PRICE, place_of(MERCHANT), ONE)]
    landed = sent(world, parts, BUYER, STRANGER)
    assert [one.binding for one in paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS)])] == [ONE]


def test_a_coin_and_a_token_in_one_transaction_are_two_payments(world: World) -> None:
    coin = transfer(TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=MERCHANT.pubkey(), lamports=9))
    landed = sent(world, [memo(ONE), coin, move(7, place_of(MERCHANT), ONE)], BUYER)
    found = paid_by(CHAIN, landed, WATCHED, [(ONE, DOLLARS), (ONE, COIN)])
    assert [(one.asset, one.value, one.binding) for one in found] == [(DOLLARS, 7, ONE), (COIN, 9, None)]


def test_sol_is_not_looked_for_where_it_is_not_watched(world: World) -> None:
    coin = transfer(TransferParams(from_pubkey=BUYER.pubkey(), to_pubkey=MERCHANT.pubkey(), lamports=9))
    landed = sent(world, [coin], BUYER)
    assert paid_by(CHAIN, landed, msgspec.structs.replace(WATCHED, native=None), []) == []
    assert [one.value for one in paid_by(CHAIN, landed, WATCHED, [])] == [9]


def test_balances_without_an_owner_are_nobodys(world: World) -> None:
    landed = sent(world, [move(7, place_of(MERCHANT))], BUYER)
    ownerless = tuple(msgspec.structs.replace(one, owner=None) for one in landed.post_tokens)
    changed = msgspec.structs.replace(landed, post_tokens=ownerless)
    assert paid_by(CHAIN, changed, WATCHED, []) == []


def test_an_account_that_did_not_exist_received_all_that_it_holds() -> None:
    world = World()
    world.put_sol(PAYER, SOL)
    world.put_mint(USDC)
    world.put_tokens(BUYER, USDC, PRICE)
    want = msgspec.structs.replace(wanted(), create=(MERCHANT.pubkey(),))
    landed = world.send(signed(unsigned(build_message(want, world.blockhash)), PAYER, BUYER))
    assert [one.value for one in paid_by(CHAIN, landed, WATCHED, [])] == [PRICE]


def test_the_order_of_balances_changes_nothing(world: World) -> None:
    legs = Leg(MERCHANT.pubkey(), PRICE), Leg(OPERATOR.pubkey(), 70)
    landed = world.send(signed(unsigned(build_message(wanted(USDC, *legs), world.blockhash)), PAYER, BUYER))
    watched = Watched({MERCHANT.pubkey(), OPERATOR.pubkey()}, {USDC: DOLLARS})
    turned = msgspec.structs.replace(
        landed, pre_tokens=landed.pre_tokens[::-1], post_tokens=landed.post_tokens[::-1]
    )
    known = [(ONE, DOLLARS)]
    assert paid_by(CHAIN, turned, watched, known) == paid_by(CHAIN, landed, watched, known)
    assert isinstance(turned.pre_tokens[0], TokenBalance)
