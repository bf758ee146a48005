"""What a wallet fetches: a transaction that pays what was quoted, and costs us no more than it may."""

from __future__ import annotations

from base64 import b64encode
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from solders.signature import Signature

from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.answers import decode_landed
from payd.chains.solana.binding import memo_of, reference_key, reference_of
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
from payd.chains.solana.pay_links import pay_offer
from payd.chains.solana.plan import write_plan
from payd.chains.solana.proof import Watched, paid_by
from payd.chains.solana.resolve import BY_LINK, CHANGED, METHOD
from payd.chains.solana.ways import BUYER_NO_HOLDING, NO_SOL, NOT_THE_MERCHANTS, TOO_LITTLE
from payd.core.caip import parse_asset
from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidState,
    QuoteExpired,
)
from payd.core.option import Build
from payd.store.builds import reserved_on_builds
from payd.store.db import Database
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, Desk, open_desk
from tests.chains.solana.vm import PYUSD_EXTENSIONS
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
    build = desk.build_of(fetched)
    assert (build.tx_id, build.cost, build.buyer) == (None, 0, account_id(BUYER))
    assert desk.pen.signed == []


async def test_for_who_has_no_sol_we_sign_first(desk: Desk) -> None:
    payment = await desk.payment()
    await desk.poor()
    fetched = await desk.fetch(payment, await desk.quote(payment))
    ours, theirs = fetched.signatures

    assert fetched.fee_payer == pubkey(FEE_PAYER)
    assert Signature.from_bytes(ours).verify(pubkey(FEE_PAYER), fetched.bytes)
    assert theirs == bytes(64)
    build = desk.build_of(fetched)
    assert build.tx_id == str(Signature.from_bytes(ours))
    assert build.cost == desk.db.point(reserved_on_builds, CHAIN).cost > 10_000


@pytest.mark.parametrize("asset", [USDC, PYUSD])
@pytest.mark.parametrize("is_poor", [False, True])
async def test_what_was_built_pays_exactly_what_was_quoted(desk: Desk, asset: str, is_poor: bool) -> None:
    payment = await desk.payment()
    if is_poor:
        await desk.poor()
    fetched = await desk.fetch(payment, await desk.quote(payment, asset))
    landed = decode_landed(await desk.solana.landed(await desk.land(fetched)))
    watched = Watched(owners={pubkey(MERCHANT)}, mints={USDC_MINT: USDC, PYUSD_MINT: PYUSD}, native=SOL)

    assert landed is not None
    [paid] = paid_by(desk.terms.chain, landed, watched, {(REFERENCE, asset)})
    assert (paid.value, paid.asset, paid.binding) == (AMOUNT, asset, REFERENCE)
    assert (paid.sender, paid.recipient) == (account_id(BUYER), account_id(MERCHANT))
    assert str(reference_key(PAYMENT_ID)) in map(str, landed.keys)
    if is_poor:
        assert landed.fee == desk.build_of(fetched).cost
        assert await desk.solana.lamports(pubkey(FEE_PAYER)) == 10**9 - landed.fee


async def test_a_token_with_the_extensions_of_pyusd_is_paid_exactly_and_its_account_costs_what_was_reserved(
    desk: Desk,
) -> None:
    await desk.solana.mint(PYUSD_MINT, TOKEN_2022, extensions=PYUSD_EXTENSIONS)
    payment = await desk.payment()
    await desk.poor()
    fetched = await desk.fetch(payment, await desk.quote(payment, PYUSD, merchant=MERCHANT_2))
    await desk.land(fetched)

    assert await desk.solana.tokens(pubkey(MERCHANT_2), PYUSD_MINT, TOKEN_2022) == AMOUNT
    assert await desk.solana.lamports(pubkey(FEE_PAYER)) == 10**9 - desk.build_of(fetched).cost


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
        await desk.poor()
    fetched = await desk.fetch(payment, await desk.quote(payment, asset, merchant=MERCHANT_2))
    await desk.land(fetched)

    assert ASSOCIATED_TOKEN in fetched.programs
    mint = USDC_MINT if asset == USDC else PYUSD_MINT
    assert await desk.solana.tokens(pubkey(MERCHANT_2), mint, program) == AMOUNT
    if is_poor:
        assert await desk.solana.lamports(pubkey(FEE_PAYER)) == 10**9 - desk.build_of(fetched).cost


async def test_what_pays_into_an_account_that_is_there_opens_none(desk: Desk) -> None:
    await desk.poor()
    payment = await desk.payment()
    build = desk.build_of(await desk.fetch(payment, await desk.quote(payment)))

    assert build.cost > 0
    assert build.opens is None


async def test_two_buyers_of_a_merchant_without_an_account_reserve_its_rent_each(desk: Desk) -> None:
    await desk.poor()
    builds = []
    for payment_id in ("pay_l1", "pay_l2"):
        payment = await desk.payment(id=payment_id)
        quote = await desk.quote(payment, USDC, merchant=MERCHANT_2, option_id=f"opt_{payment_id}")
        builds.append(desk.build_of(await desk.fetch(payment, quote)))

    one, other = builds
    assert one.opens == other.opens is not None
    assert one.cost == other.cost > 2_039_280
    reserved = desk.db.point(reserved_on_builds, CHAIN)
    assert (reserved.cost, reserved.count) == (one.cost + other.cost, 2)


async def test_the_operators_fee_is_in_the_same_transaction(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.poor()
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
    await desk.poor()
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
    await desk.poor()
    await desk.solana.give(pubkey(BUYER), USDC_MINT, AMOUNT - 1)
    await desk.solana.confirm()
    assert await desk.refused(InvalidState, payment, quote) == TOO_LITTLE

    await desk.solana.rpc("payd_put", str(token_account(pubkey(BUYER), USDC_MINT, TOKEN)), 0, str(SYSTEM))
    await desk.solana.confirm()
    assert await desk.refused(InvalidState, payment, quote) == BUYER_NO_HOLDING


async def test_a_frozen_buyer_is_told_so(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await desk.solana.give(pubkey(BUYER), USDC_MINT, AMOUNT, state=2)
    await desk.solana.confirm()

    assert "frozen" in await desk.refused(InvalidState, payment, quote)


async def test_nothing_is_built_for_a_token_account_that_the_merchant_gave_away(desk: Desk) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await desk.solana.fund(pubkey(MERCHANT))
    await desk.solana.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await desk.solana.confirm()

    assert await desk.refused(InvalidState, payment, quote) == NOT_THE_MERCHANTS


async def test_who_has_no_sol_any_more_is_told_so_where_we_do_not_pay(realm_db: Database) -> None:
    async with open_desk(realm_db, sponsor=False) as desk:
        payment = await desk.payment()
        quote = await desk.quote(payment)
        await desk.poor()

        assert await desk.refused(InvalidState, payment, quote) == NO_SOL


async def test_a_fee_whose_place_is_gone_makes_the_quote_old(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        place = await desk.solana.give(pubkey(OPERATOR), USDC_MINT, 0)
        await desk.solana.confirm()
        payment = await desk.payment()
        quote = await desk.quote(payment)
        await desk.solana.rpc("payd_put", str(place), 0, str(SYSTEM))
        await desk.solana.confirm()
        assert await desk.refused(QuoteExpired, payment, quote) == CHANGED


async def test_a_fee_is_paid_to_whom_it_was_quoted_for_or_to_nobody(realm_db: Database) -> None:
    async with open_desk(realm_db, fee=FEE) as desk:
        for place in (OPERATOR, STRANGER):
            await desk.solana.give(pubkey(place), USDC_MINT, 0)
        await desk.solana.confirm()
        payment = await desk.payment()
        quote = await desk.quote(payment)

        for other in (None, msgspec.structs.replace(FEE, address=address(STRANGER))):
            desk.open(fee=other)
            assert await desk.refused(QuoteExpired, payment, quote) == CHANGED


async def test_what_the_chain_would_refuse_is_not_handed_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await desk.payment()
    quote = await desk.quote(payment)
    await desk.poor()
    error = {"InstructionError": [3, {"Custom": 17}]}
    answer = {"context": {"slot": 1}, "value": {"err": error, "logs": [], "unitsConsumed": 1}}
    monkeypatch.setattr(desk.node, "_simulateTransaction", lambda *_: answer)

    assert "a token account is frozen" in await desk.refused(InvalidState, payment, quote)


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
    offer = await pay_offer(desk.offers, payment, parse_asset(USDC), account_id(MERCHANT), NOW_MS)
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
    await desk.poor()
    desk.later(KEPT_MS)

    def answered(*_: Any) -> Any:
        if isinstance(answer, Refused):
            raise answer
        return answer

    monkeypatch.setattr(desk.node, f"_{method}", answered)

    assert await desk.refused(ChainUnavailable, payment, quote)


async def test_other_buyers_have_transactions_of_their_own(desk: Desk) -> None:
    payment = await desk.payment()
    first = await desk.fetch(payment, await desk.quote(payment))
    second = await desk.fetch(payment, await desk.quote(payment, buyer=BUYER_2, option_id="opt_2"))

    assert (first.fee_payer, second.fee_payer) == (pubkey(BUYER), pubkey(BUYER_2))
    assert second.params["pubkey"] == address(BUYER_2)
