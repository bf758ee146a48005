"""What a wallet fetches: a transaction that pays what was quoted, and costs us no more than it may."""

from __future__ import annotations

from base64 import b64encode
from fractions import Fraction
from typing import Any

import msgspec
import pytest
import trio
from solders.signature import Signature

from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.answers import decode_landed
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.budget import PURSE_EMPTY, SPENT, SPENT_ON_BUYER
from payd.chains.solana.facts import KEPT_MS
from payd.chains.solana.keys import (
    ASSOCIATED_TOKEN,
    COMPUTE_BUDGET,
    MEMO,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    token_account,
)
from payd.chains.solana.plan import write_plan
from payd.chains.solana.proof import Watched, paid_by
from payd.chains.solana.resolve import BY_LINK, CHANGED, METHOD
from payd.chains.solana.ways import BUYER_NO_HOLDING, NO_SOL, NOT_THE_MERCHANTS, TOO_LITTLE
from payd.core.caip import parse_asset
from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidState,
    PaydError,
    QuoteExpired,
    RateLimited,
)
from payd.core.option import QUOTES_VALID_MAX, Build, Quote
from payd.core.payment import Payment
from payd.store.builds import end_builds, find_build, hash_message, reserved_on_builds
from payd.store.db import Database
from payd.store.options import quotes_of
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, Desk, Fetched, open_desk
from tests.live.anvil import Refused
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    MERCHANT_2,
    OPERATOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    account_id,
    address,
    hand_over,
    keypair,
    pubkey,
)

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
REFERENCE = reference_of(PAYMENT_ID)
FEE = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR))
# Blocks of a third of a blockhash's life.
THIRD = 50


async def poor(desk: Desk, place: int = BUYER) -> None:
    """A buyer without SOL."""
    await desk.without_sol(place)
    await desk.solana.confirm()


async def refused(desk: Desk, error: type[PaydError], payment: Payment, quote: Quote) -> str:
    """The words with which a fetch is refused; nothing is signed or reserved for it."""
    signed, reserved = len(desk.pen.signed), desk.db.point(reserved_on_builds, CHAIN)
    with pytest.raises(error) as caught:
        await desk.fetch(payment, quote)
    assert len(desk.pen.signed) == signed
    assert desk.db.point(reserved_on_builds, CHAIN) == reserved
    return caught.value.message


def build_of(desk: Desk, fetched: Fetched) -> Any:
    return desk.db.point(find_build, hash_message(fetched.bytes))


# What is built.


async def test_who_has_sol_signs_alone_and_pays_for_it(desk: Desk) -> None:
    payment = await desk.payment()
    fetched = await desk.fetch(payment, await desk.quote(payment))

    assert fetched.call.chain_id == CHAIN
    assert fetched.call.method == METHOD == "solana_signTransaction"
    assert fetched.params["pubkey"] == address(BUYER)
    assert fetched.fee_payer == pubkey(BUYER)
    assert fetched.signatures == [bytes(64)]
    assert fetched.programs == [COMPUTE_BUDGET, COMPUTE_BUDGET, MEMO, TOKEN]
    build = build_of(desk, fetched)
    assert (build.tx_id, build.cost, build.buyer) == (None, 0, account_id(BUYER))
    assert desk.pen.signed == []


async def test_for_who_has_no_sol_we_sign_first(desk: Desk) -> None:
    payment = await desk.payment()
    await poor(desk)
    fetched = await desk.fetch(payment, await desk.quote(payment))
    ours, theirs = fetched.signatures

    assert fetched.fee_payer == pubkey(FEE_PAYER)
    assert Signature.from_bytes(ours).verify(pubkey(FEE_PAYER), fetched.bytes)
    assert theirs == bytes(64)
    build = build_of(desk, fetched)
    assert build.tx_id == str(Signature.from_bytes(ours))
    assert build.cost == desk.db.point(reserved_on_builds, CHAIN).cost > 10_000


@pytest.mark.parametrize("asset", [USDC, PYUSD])
@pytest.mark.parametrize("is_poor", [False, True])
async def test_what_was_built_pays_exactly_what_was_quoted(desk: Desk, asset: str, is_poor: bool) -> None:
    payment = await desk.payment()
    if is_poor:
        await poor(desk)
    fetched = await desk.fetch(payment, await desk.quote(payment, asset))
    landed = decode_landed(await desk.solana.landed(await desk.land(fetched)))
    watched = Watched(owners={pubkey(MERCHANT)}, mints={USDC_MINT: USDC, PYUSD_MINT: PYUSD}, native=SOL)

    assert landed is not None
    [paid] = paid_by(desk.terms.chain, landed, watched, {(REFERENCE, asset)})
    assert (paid.value, paid.asset, paid.binding) == (AMOUNT, asset, REFERENCE)
    assert (paid.sender, paid.recipient) == (account_id(BUYER), account_id(MERCHANT))
    assert str(reference_key(PAYMENT_ID)) in map(str, landed.keys)
    if is_poor:
        assert landed.fee == build_of(desk, fetched).cost
        assert await desk.solana.lamports(pubkey(FEE_PAYER)) == 10**9 - landed.fee


async def test_sol_is_paid_by_who_has_it(desk: Desk) -> None:
    payment = await desk.payment()
    fetched = await desk.fetch(payment, await desk.quote(payment, SOL))
    await desk.land(fetched)

    assert fetched.programs == [COMPUTE_BUDGET, COMPUTE_BUDGET, MEMO, SYSTEM]
    assert memo_of(REFERENCE).encode() in fetched.bytes
    assert await desk.solana.lamports(pubkey(MERCHANT)) == 125_000_000


@pytest.mark.parametrize("is_poor", [False, True])
@pytest.mark.parametrize(("asset", "program"), [(USDC, TOKEN), (PYUSD, TOKEN_2022)])
async def test_a_merchants_first_token_account_is_created_for_no_more_than_was_reserved(
    desk: Desk, asset: str, program: Any, is_poor: bool
) -> None:
    payment = await desk.payment()
    if is_poor:
        await poor(desk)
    fetched = await desk.fetch(payment, await desk.quote(payment, asset, merchant=MERCHANT_2))
    await desk.land(fetched)

    assert ASSOCIATED_TOKEN in fetched.programs
    mint = USDC_MINT if asset == USDC else PYUSD_MINT
    assert await desk.solana.tokens(pubkey(MERCHANT_2), mint, program) == AMOUNT
    if is_poor:
        assert await desk.solana.lamports(pubkey(FEE_PAYER)) == 10**9 - build_of(desk, fetched).cost


async def test_the_operators_fee_is_in_the_same_transaction(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await poor(desk)
        payment = await desk.payment()
        fetched = await desk.fetch(payment, await desk.quote(payment))
        await desk.land(fetched)

        assert await desk.solana.tokens(pubkey(MERCHANT), USDC_MINT) == 24_750_000
        assert await desk.solana.tokens(pubkey(OPERATOR), USDC_MINT) == 250_000
        assert await desk.solana.tokens(pubkey(BUYER), USDC_MINT) == 10_000 * 10**6 - AMOUNT


async def test_a_price_above_the_operators_is_not_paid(desk: Desk) -> None:
    desk.node.prices = [10**9]
    payment = await desk.payment()
    fetched = await desk.fetch(payment, await desk.quote(payment))
    price = next(one.data for one in fetched.message.instructions if one.data[0] == 3)

    assert int.from_bytes(price[1:9], "little") == desk.terms.price_max


# Decided anew at each fetch.


async def test_who_pays_the_network_is_decided_when_it_is_fetched(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await poor(desk)
    first = await desk.fetch(payment, quote)
    await desk.solana.fund(pubkey(BUYER))
    await desk.solana.confirm()
    second = await desk.fetch(payment, quote)

    assert (first.fee_payer, second.fee_payer) == (pubkey(FEE_PAYER), pubkey(BUYER))


async def test_what_is_created_is_decided_when_it_is_fetched(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment, merchant=MERCHANT_2)
    assert ASSOCIATED_TOKEN in (await desk.fetch(payment, quote)).programs
    await desk.solana.give(pubkey(MERCHANT_2), USDC_MINT, 0)
    await desk.solana.confirm()

    assert ASSOCIATED_TOKEN not in (await desk.fetch(payment, quote)).programs


async def test_a_drained_buyer_is_told_so_at_once(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await poor(desk)
    await desk.solana.give(pubkey(BUYER), USDC_MINT, AMOUNT - 1)
    await desk.solana.confirm()
    assert await refused(desk, InvalidState, payment, quote) == TOO_LITTLE

    await desk.solana.rpc("payd_put", str(token_account(pubkey(BUYER), USDC_MINT, TOKEN)), 0, str(SYSTEM))
    await desk.solana.confirm()
    assert await refused(desk, InvalidState, payment, quote) == BUYER_NO_HOLDING


async def test_a_frozen_buyer_is_told_so(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await desk.solana.give(pubkey(BUYER), USDC_MINT, AMOUNT, state=2)
    await desk.solana.confirm()

    assert "frozen" in await refused(desk, InvalidState, payment, quote)


async def test_nothing_is_built_for_a_token_account_that_the_merchant_gave_away(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await desk.solana.confirm()

    assert await refused(desk, InvalidState, payment, quote) == NOT_THE_MERCHANTS


async def test_who_has_no_sol_any_more_is_told_so_where_we_do_not_pay(realm_db: Database) -> None:
    async with open_desk(realm_db, sponsor=False) as desk:
        payment = await desk.payment()
        quote = await desk.quote(payment)
        await poor(desk)

        assert await refused(desk, InvalidState, payment, quote) == NO_SOL


async def test_a_fee_whose_place_is_gone_makes_the_quote_old(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        place = await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.solana.confirm()
        payment = await desk.payment()
        quote = await desk.quote(payment)
        await desk.solana.rpc("payd_put", str(place), 0, str(SYSTEM))
        await desk.solana.confirm()
        assert await refused(desk, QuoteExpired, payment, quote) == CHANGED


async def test_a_fee_is_paid_to_whom_it_was_quoted_for_or_to_nobody(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        for place in (OPERATOR, STRANGER):
            await desk.solana.give(pubkey(place), USDC_MINT, 0)
        await desk.solana.confirm()
        payment = await desk.payment()
        quote = await desk.quote(payment)

        for other in (None, msgspec.structs.replace(FEE, address=address(STRANGER))):
            desk.open(fee=other)
            assert await refused(desk, QuoteExpired, payment, quote) == CHANGED


async def test_what_the_chain_would_refuse_is_not_handed_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await poor(desk)
    error = {"InstructionError": [3, {"Custom": 17}]}
    answer = {"context": {"slot": 1}, "value": {"err": error, "logs": [], "unitsConsumed": 1}}
    monkeypatch.setattr(desk.node, "_simulateTransaction", lambda *_: answer)

    assert "a token account is frozen" in await refused(desk, InvalidState, payment, quote)


# Handed out again.


@pytest.mark.parametrize("is_poor", [False, True])
async def test_who_fetches_again_gets_the_same_bytes(desk: Desk, is_poor: bool) -> None:
    payment = await desk.payment()
    if is_poor:
        await poor(desk)
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    await desk.solana.slots(THIRD)
    desk.later(20_000)
    again = await desk.fetch(payment, quote)

    assert again.raw == first.raw
    assert again.valid_until_ms == first.valid_until_ms
    assert len(desk.pen.signed) == is_poor
    await desk.solana.slots(1)
    fresh = await desk.fetch(payment, quote)
    assert fresh.raw != first.raw
    assert build_of(desk, fresh).valid_until_height > build_of(desk, first).valid_until_height


async def test_what_is_void_or_has_landed_is_not_handed_out_again(desk: Desk) -> None:
    payment = await desk.payment()
    await poor(desk)
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    await desk.db.write(end_builds, [(hash_message(first.bytes), "void", 0)])
    with pytest.raises(QuoteExpired):
        await desk.fetch(payment, quote)
    await desk.solana.confirm()

    assert (await desk.fetch(payment, quote)).raw != first.raw


async def test_prices_that_change_a_little_change_no_transaction(desk: Desk) -> None:
    desk.node.prices = [41_000]
    payment = await desk.payment()
    quote = await desk.quote(payment)
    first = await desk.fetch(payment, quote)
    desk.node.prices = [70_000]
    desk.later(20_000)

    assert (await desk.fetch(payment, quote)).raw == first.raw


async def test_a_wallet_that_fetches_all_the_time_is_never_refused(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    transactions = set()
    for _ in range(170):
        transactions.add((await desk.fetch(payment, quote)).raw)
        await desk.solana.slots(12)
        desk.later(5_000)

    valid = [one for one in desk.db.point(quotes_of, PAYMENT_ID, "opt_1", desk.now_ms) if one.resolved]
    assert 30 < len(transactions) < 50
    assert len(valid) < QUOTES_VALID_MAX


async def test_a_fetched_transaction_is_good_for_two_minutes_at_most(desk: Desk) -> None:
    payment = await desk.payment()
    fetched = await desk.fetch(payment, await desk.quote(payment))

    assert fetched.valid_until_ms == NOW_MS + 120_000


# What it may cost us.


async def test_two_that_fetch_at_once_cost_what_one_does(desk: Desk) -> None:
    payment = await desk.payment()
    await poor(desk)
    quote = await desk.quote(payment)
    got: list[bytes] = []

    async def fetch() -> None:
        got.append((await desk.fetch(payment, quote)).raw)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(fetch)

    assert len(set(got)) == 1
    assert desk.db.point(reserved_on_builds, CHAIN).count == 1


async def test_of_many_payments_at_once_no_more_are_signed_than_the_budget_has(realm_db: Database) -> None:
    async with open_desk(realm_db, spend_per_day=35_000) as desk:
        await poor(desk)
        payments = [await desk.payment(id=f"pay_{n}") for n in range(6)]
        quotes = [await desk.quote(one, option_id=f"opt_{n}") for n, one in enumerate(payments)]
        got: list[Fetched] = []
        words: list[str] = []

        async def fetch(payment: Payment, quote: Quote) -> None:
            try:
                got.append(await desk.fetch(payment, quote))
            except RateLimited as limited:
                words.append(limited.message)

        async with trio.open_nursery() as nursery:
            for payment, quote in zip(payments, quotes, strict=True):
                nursery.start_soon(fetch, payment, quote)

        assert words == [SPENT] * 3
        assert {one.bytes for one in got} == set(desk.pen.signed)
        assert len(got) == 3
        assert desk.db.point(reserved_on_builds, CHAIN).cost <= 35_000


async def test_a_buyer_that_we_paid_for_often_enough_pays_oneself(realm_db: Database) -> None:
    async with open_desk(realm_db, relays_per_buyer=1) as desk:
        await poor(desk)
        first, second = await desk.payment(), await desk.payment(id="pay_2")
        await desk.fetch(first, await desk.quote(first))
        quote = await desk.quote(second, option_id="opt_2")
        assert await refused(desk, RateLimited, second, quote) == SPENT_ON_BUYER

        await desk.solana.fund(pubkey(BUYER))
        await desk.solana.confirm()
        assert (await desk.fetch(second, quote)).fee_payer == pubkey(BUYER)


@pytest.mark.parametrize("lamports", [0, 890_880 + 10_000])
async def test_an_empty_purse_signs_nothing(realm_db: Database, lamports: int) -> None:
    async with open_desk(realm_db, fee_payer_sol=lamports) as desk:
        await poor(desk)
        payment = await desk.payment()

        assert await refused(desk, InvalidState, payment, await desk.quote(payment)) == PURSE_EMPTY


async def test_sol_is_not_sponsored_at_a_fetch_either(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment, SOL)
    await desk.solana.fund(pubkey(BUYER), 125_000_000 + 5_000)
    await desk.solana.confirm()

    assert await refused(desk, InvalidState, payment, quote) == NO_SOL


# What is no build action.


async def test_data_that_was_not_handed_out_resolves_into_nothing(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    same = b64encode(b'{"amount": "25000000"}').decode().rstrip("=")
    for data in ("nonsense", write_plan(1, 0, None), same):
        with pytest.raises(InvalidParams):
            await desk.resolver.resolve(payment, quote, data, NOW_MS)


async def test_a_plan_that_is_not_the_quotes_resolves_into_nothing(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    for data in (write_plan(1, 0, None), write_plan(AMOUNT, 5, address(OPERATOR))):
        wrong = msgspec.structs.replace(quote, actions=(Build(data),))
        with pytest.raises(InvalidParams):
            await desk.resolver.resolve(payment, wrong, data, NOW_MS)


async def test_a_link_is_for_wallets(desk: Desk) -> None:
    payment = await desk.payment()
    offer = await desk.links.pay_offer(payment, parse_asset(USDC), account_id(MERCHANT), NOW_MS)
    assert offer is not None
    [action] = offer.actions
    assert isinstance(action, Build)
    quote = msgspec.structs.replace(await desk.quote(payment), actions=offer.actions, account=offer.account)
    with pytest.raises(InvalidParams) as caught:
        await desk.resolver.resolve(payment, quote, action.data, NOW_MS)

    assert caught.value.message == BY_LINK


async def test_an_asset_that_the_operator_took_out_makes_the_quote_old(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    gone = msgspec.structs.replace(quote, asset=f"{CHAIN}/token:{address(STRANGER)}")
    with pytest.raises(QuoteExpired):
        await desk.fetch(payment, gone)

    assert desk.pen.signed == []


# Nodes.


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("getLatestBlockhash", {"context": {"slot": 1}, "value": None}),
        ("getMultipleAccounts", {"context": {"slot": 1}, "value": []}),
        ("simulateTransaction", {"context": {"slot": 1}, "value": {"err": "BlockhashNotFound"}}),
        ("simulateTransaction", None),
        ("simulateTransaction", Refused(-32016, "Minimum context slot has not been reached")),
    ],
)
async def test_a_node_that_does_not_answer_is_no_reason_to_sign(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any
) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await poor(desk)
    desk.later(KEPT_MS)

    def answered(*_: Any) -> Any:
        if isinstance(answer, Refused):
            raise answer
        return answer

    monkeypatch.setattr(desk.node, f"_{method}", answered)

    assert await refused(desk, ChainUnavailable, payment, quote)


async def test_other_buyers_have_transactions_of_their_own(desk: Desk) -> None:
    payment = await desk.payment()
    first = await desk.fetch(payment, await desk.quote(payment))
    second = await desk.fetch(payment, await desk.quote(payment, buyer=BUYER_2, option_id="opt_2"))

    assert (first.fee_payer, second.fee_payer) == (pubkey(BUYER), pubkey(BUYER_2))
    assert second.params["pubkey"] == address(BUYER_2)
