"""The simulated chain: what it offers, which results it takes, and when it confirms and settles."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from payd.chains.base import Accepted, Chain, Found, Misaligned, Refused, SeenTransfer
from payd.chains.rates import RateTable
from payd.chains.simulated import (
    HOLD_GRACE_MS,
    QUOTE_LIFETIME_MS,
    Magic,
    SimulatedChain,
    magic_account,
    magic_of,
)
from payd.core.caip import AccountId, AssetId, ChainId, account_problem, parse_account, parse_asset
from payd.core.errors import InvalidParams, InvalidSignature
from payd.core.option import Offer, Quote, Result, WalletRpc
from payd.core.payment import (
    Payment,
    SettlementCompleted,
    TransferConfirmed,
    WindowClosed,
    transition,
)
from tests.chains.conformance import Case, ChainConformance

NOW_MS = 1_780_000_000_000
CONFIRM_MS = 1000
SETTLE_MS = 2000
PAYMENT = Payment(
    id="pay_t01jw0000000000000000000000000000000a",
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="USD",
    value=1000,
    created_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 900_000,
    updated_at_ms=NOW_MS,
)

BASE_USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ETH_USDT = "eip155:1/erc20:0xdAC17F958D2ee523a2206206994597C13D831ec7"
UNKNOWN_TOKEN = "eip155:8453/erc20:0x" + "cd" * 20
BASE_ETH = "eip155:8453/slip44:60"
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
SOLANA_USDC = f"{SOLANA}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SOLANA_SOL = f"{SOLANA}/slip44:501"
BITCOIN = "bip122:000000000019d6689c085ae165831e93/slip44:0"

EVM_BUYER = "0x" + "ab" * 20
EVM_SHOP = "0x" + "5e" * 20
SOLANA_BUYER = "7v91N7iZ9mNicL8WfG6cgSCKyRXydQjLh6UYBWwm6y1Q"
SOLANA_SHOP = "2wmVCSfPxGPjrnMMn7rchp4uaeoTqN39mXFC2zhPdri9"
BITCOIN_ADDRESS = "128Lkh3S7CkDTBZ8W7BbpsN3YYizJMp8p6"

SIGNATURE = "0x" + "11" * 65
TX_HASH = "0x" + "22" * 32

ALL_ASSETS = [BASE_USDC, ETH_USDT, UNKNOWN_TOKEN, BASE_ETH, SOLANA_USDC, SOLANA_SOL, BITCOIN]


@pytest.fixture
def chain() -> SimulatedChain:
    return SimulatedChain(CONFIRM_MS, SETTLE_MS, RateTable())


def buyer_of(asset: AssetId) -> AccountId:
    addresses = {"eip155": EVM_BUYER, "solana": SOLANA_BUYER, "bip122": BITCOIN_ADDRESS}
    return AccountId(asset.chain, addresses[asset.chain.namespace])


def shop_of(asset: AssetId) -> AccountId:
    addresses = {"eip155": EVM_SHOP, "solana": SOLANA_SHOP, "bip122": BITCOIN_ADDRESS}
    return AccountId(asset.chain, addresses[asset.chain.namespace])


def answer(action: WalletRpc) -> Result:
    if action.method == "eth_sendTransaction":
        return Result("walletRpc", [TX_HASH])
    if action.method == "solana_signTransaction":
        return Result("walletRpc", [action.params[0]["transaction"]])
    return Result("walletRpc", [SIGNATURE])


def sign(actions: Sequence[WalletRpc]) -> list[Result]:
    return [answer(action) for action in actions]


def case_of(
    chain: Chain, asset: str = BASE_USDC, account: AccountId | None = None, payment: Payment = PAYMENT
) -> Case:
    parsed = parse_asset(asset)
    return Case(
        chain=chain,
        payment=payment,
        asset=parsed,
        account=account or buyer_of(parsed),
        destination=str(shop_of(parsed)),
        now_ms=NOW_MS,
        sign=sign,
    )


def magic_case(chain: Chain, magic: Magic, asset: str = BASE_USDC) -> Case:
    return case_of(chain, asset, magic_account(parse_asset(asset).chain, magic))


@pytest.mark.parametrize("asset", ALL_ASSETS)
class TestSimulatedChainConforms(ChainConformance):
    @pytest.fixture
    def case(self, chain: SimulatedChain, asset: str) -> Case:
        return case_of(chain, asset)


# What is shown


def test_an_unknown_asset_has_six_decimals_and_a_symbol_of_its_own(chain: SimulatedChain) -> None:
    display = chain.display(parse_asset(UNKNOWN_TOKEN))

    assert display.decimals == 6
    assert display.asset_name == "Test asset"
    assert display.asset_symbol == "TCDCDCD"
    assert display.network_name == "Base"


def test_every_chain_is_served(chain: SimulatedChain) -> None:
    assert chain.serves("eip155:1")
    assert chain.serves("nobody:knows")


# Offers


@pytest.mark.parametrize(
    ("asset", "amount"),
    [
        (BASE_USDC, 10_000_000),
        (UNKNOWN_TOKEN, 10_000_000),
        (BASE_ETH, 3_333_333_333_333_334),  # a three hundredth, rounded up
        (SOLANA_SOL, 66_666_667),
    ],
)
async def test_ten_dollars_cost_what_the_table_says_rounded_up(
    chain: SimulatedChain, asset: str, amount: int
) -> None:
    offer = await case_of(chain, asset).offer()

    assert offer.amount == amount


async def test_a_currency_without_minor_unit_counts_whole_units(chain: SimulatedChain) -> None:
    payment = msgspec.structs.replace(PAYMENT, currency="JPY", value=1000)
    offer = await case_of(chain, payment=payment).offer()

    assert offer.amount == 6_500_000


async def test_a_rate_at_par_holds_as_long_as_the_payment(chain: SimulatedChain) -> None:
    offer = await case_of(chain, BASE_USDC).offer()

    assert offer.valid_until_ms == PAYMENT.expires_at_ms


@pytest.mark.parametrize(
    ("asset", "currency"), [(BASE_ETH, "USD"), (UNKNOWN_TOKEN, "USD"), (BASE_USDC, "EUR")]
)
async def test_any_other_rate_holds_for_ten_minutes(chain: SimulatedChain, asset: str, currency: str) -> None:
    payment = msgspec.structs.replace(PAYMENT, currency=currency)
    offer = await case_of(chain, asset, payment=payment).offer()

    assert offer.valid_until_ms == NOW_MS + QUOTE_LIFETIME_MS
    assert QUOTE_LIFETIME_MS == 600_000


async def test_no_rate_outlives_the_payment(chain: SimulatedChain) -> None:
    payment = msgspec.structs.replace(PAYMENT, expires_at_ms=NOW_MS + 300_000)
    offer = await case_of(chain, BASE_ETH, payment=payment).offer()

    assert offer.valid_until_ms == NOW_MS + 300_000


async def test_the_eta_is_the_time_to_confirm_in_whole_seconds_rounded_up() -> None:
    offer = await case_of(SimulatedChain(1001, SETTLE_MS, RateTable())).offer()

    assert offer.eta_s == 2


async def test_an_offer_names_asset_and_account_as_they_were_asked_for(chain: SimulatedChain) -> None:
    offer = await case_of(chain, BASE_USDC).offer()

    assert (offer.asset, offer.account) == (BASE_USDC, f"eip155:8453:{EVM_BUYER}")


async def test_chain_aliases_are_one_chain(chain: SimulatedChain) -> None:
    account = AccountId(ChainId("solana", "mainnet"), SOLANA_BUYER)

    assert isinstance(await case_of(chain, SOLANA_SOL, account).offer(), Offer)


async def test_an_amount_that_solana_cannot_carry_has_no_offer(chain: SimulatedChain) -> None:
    payment = msgspec.structs.replace(PAYMENT, value=10**18 - 1)
    asset = parse_asset(SOLANA_SOL)
    offer = await chain.offer(payment, asset, buyer_of(asset), str(shop_of(asset)), NOW_MS)

    assert offer is None


# Results


async def confirm(case: Case, results: list[list[object]]) -> object:
    wrapped = [Result("walletRpc", data) for data in results]
    return await case.chain.check(case.payment, await case.quote(), wrapped, case.now_ms)


@pytest.mark.parametrize("signature", [SIGNATURE, SIGNATURE.upper().replace("0X", "0x")])
async def test_a_signature_of_65_bytes_is_accepted(chain: SimulatedChain, signature: str) -> None:
    assert isinstance(await confirm(case_of(chain, BASE_USDC), [[signature]]), Accepted)


@pytest.mark.parametrize("asset", [BASE_USDC, BITCOIN])
@pytest.mark.parametrize("wrong", [TX_HASH, "0x" + "11" * 64, "0x" + "11" * 66])
async def test_a_signature_of_another_length_is_refused(
    chain: SimulatedChain, asset: str, wrong: str
) -> None:
    verdict = await confirm(case_of(chain, asset), [[wrong]])

    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidSignature)


@pytest.mark.parametrize("asset", [BASE_ETH, UNKNOWN_TOKEN])
@pytest.mark.parametrize("wrong", [SIGNATURE, "0x" + "22" * 31])
async def test_a_hash_of_another_length_is_refused(chain: SimulatedChain, asset: str, wrong: str) -> None:
    verdict = await confirm(case_of(chain, asset), [[wrong]])

    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidSignature)


async def test_two_results_for_a_resolved_build_action_are_accepted(chain: SimulatedChain) -> None:
    assert isinstance(await confirm(case_of(chain, ETH_USDT), [[TX_HASH], [SIGNATURE]]), Accepted)


async def test_swapped_results_are_misaligned(chain: SimulatedChain) -> None:
    assert await confirm(case_of(chain, ETH_USDT), [[SIGNATURE], [TX_HASH]]) == Misaligned()


async def test_one_good_result_beside_a_wrong_one_is_refused(chain: SimulatedChain) -> None:
    verdict = await confirm(case_of(chain, ETH_USDT), [[TX_HASH], [TX_HASH]])

    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidSignature)


async def test_data_of_the_build_action_of_another_payment_resolves_into_nothing(
    chain: SimulatedChain,
) -> None:
    other = msgspec.structs.replace(PAYMENT, id=PAYMENT.id[:-1] + "b")
    theirs = await case_of(chain, ETH_USDT, payment=other).quote()
    ours = await case_of(chain, ETH_USDT).quote()
    with pytest.raises(InvalidParams):
        await chain.resolve(PAYMENT, ours, theirs.actions[0].data, NOW_MS)  # type: ignore[union-attr]


async def test_an_option_without_build_action_resolves_into_nothing(chain: SimulatedChain) -> None:
    build = await case_of(chain, ETH_USDT).quote()
    with pytest.raises(InvalidParams):
        await chain.resolve(
            PAYMENT,
            await case_of(chain, BASE_USDC).quote(),
            build.actions[0].data,  # type: ignore[union-attr]
            NOW_MS,
        )


# Time


async def test_a_payment_confirms_when_due_and_not_a_millisecond_earlier(chain: SimulatedChain) -> None:
    payment = await case_of(chain).paid()

    assert chain.due_at_ms(payment) == NOW_MS + CONFIRM_MS
    assert await chain.look(payment, NOW_MS + CONFIRM_MS - 1) is None
    assert await chain.look(payment, NOW_MS + CONFIRM_MS) == Found(
        TransferConfirmed(f"test:{PAYMENT.id}"),
        (
            SeenTransfer(
                chain="eip155:8453",
                tx_id=f"test:{PAYMENT.id}",
                log_index=0,
                asset=BASE_USDC,
                value=10_000_000,
                sender=f"eip155:8453:{EVM_BUYER}",
                recipient=f"eip155:8453:{EVM_SHOP}",
            ),
        ),
    )


async def test_a_succeeded_payment_settles_when_due_and_only_once(chain: SimulatedChain) -> None:
    at_ms = NOW_MS + 50_000
    succeeded = transition(await case_of(chain).paid(), TransferConfirmed("test:x"), at_ms).payment

    assert chain.due_at_ms(succeeded) == at_ms + SETTLE_MS
    assert await chain.look(succeeded, at_ms + SETTLE_MS - 1) is None
    assert await chain.look(succeeded, at_ms + SETTLE_MS) == Found(SettlementCompleted(f"test:{PAYMENT.id}"))

    settled = transition(succeeded, SettlementCompleted("test:x"), at_ms + SETTLE_MS).payment

    assert chain.due_at_ms(settled) is None
    assert await chain.look(settled, at_ms + 10 * SETTLE_MS) is None


async def test_a_held_commitment_differs_in_the_notes_of_its_chain_alone(chain: SimulatedChain) -> None:
    payment = await case_of(chain).paid()
    assert payment.processing is not None
    held = chain.hold(payment, payment.processing)

    assert held.track != payment.processing.track
    assert msgspec.structs.replace(held, track=payment.processing.track) == payment.processing


async def test_a_held_payment_is_given_up_fifteen_minutes_after_its_window(chain: SimulatedChain) -> None:
    payment = await case_of(chain).paid()
    assert payment.processing is not None
    held = msgspec.structs.replace(payment, processing=chain.hold(payment, payment.processing))
    end_ms = PAYMENT.expires_at_ms + HOLD_GRACE_MS

    assert HOLD_GRACE_MS == 900_000
    assert chain.due_at_ms(held) == end_ms
    assert await chain.look(held, end_ms - 1) is None
    assert await chain.look(held, end_ms) == Found(WindowClosed())


async def test_a_held_payment_that_a_person_moved_settles_as_any_other(chain: SimulatedChain) -> None:
    payment = await case_of(chain).paid()
    assert payment.processing is not None
    held = msgspec.structs.replace(payment, processing=chain.hold(payment, payment.processing))
    succeeded = transition(held, TransferConfirmed("test:x"), NOW_MS + 7).payment

    assert chain.due_at_ms(succeeded) == NOW_MS + 7 + SETTLE_MS


async def test_an_expired_payment_is_not_looked_at_any_more(chain: SimulatedChain) -> None:
    expired = transition(await case_of(chain).paid(), WindowClosed(), NOW_MS).payment

    assert chain.due_at_ms(expired) is None
    assert await chain.look(expired, NOW_MS * 2) is None


# Magic accounts


@pytest.mark.parametrize("chain_text", ["eip155:8453", SOLANA, "bip122:000000000019d6689c085ae165831e93"])
@pytest.mark.parametrize("magic", Magic)
def test_each_magic_account_is_recognised_and_well_formed(chain_text: str, magic: Magic) -> None:
    account = magic_account(parse_account(f"{chain_text}:x").chain, magic)

    assert magic_of(account) is magic
    assert account_problem(account) is None
    assert parse_account(str(account)) == account


def test_the_published_addresses_are_these() -> None:
    assert magic_account(ChainId("eip155", "1"), Magic.APPROVES).address == "0x" + "0" * 39 + "1"
    assert magic_account(ChainId("eip155", "1"), Magic.DATA_COLLECTION).address == "0x" + "0" * 39 + "6"
    assert magic_account(ChainId("solana", "mainnet"), Magic.REFUSED).address == "1" * 31 + "3"


def test_the_zero_address_and_the_seventh_choose_nothing() -> None:
    for number in ("0", "7"):
        assert magic_of(parse_account("eip155:1:0x" + "0" * 39 + number)) is None


@pytest.mark.parametrize("asset", [BASE_USDC, SOLANA_SOL])
@pytest.mark.parametrize("magic", [Magic.APPROVES, Magic.DATA_COLLECTION])
async def test_accounts_1_and_6_approve_whatever_the_wallet_hands_back(
    chain: SimulatedChain, asset: str, magic: Magic
) -> None:
    junk = "0x1234" if asset == BASE_USDC else "AAAA"

    assert isinstance(await confirm(magic_case(chain, magic, asset), [[junk]]), Accepted)


async def test_account_1_cannot_make_swapped_results_right(chain: SimulatedChain) -> None:
    case = magic_case(chain, Magic.APPROVES, ETH_USDT)

    assert await confirm(case, [[SIGNATURE], [TX_HASH]]) == Misaligned()


@pytest.mark.parametrize("asset", [BASE_USDC, SOLANA_SOL])
async def test_the_signature_of_account_2_is_refused(chain: SimulatedChain, asset: str) -> None:
    case = magic_case(chain, Magic.REFUSED, asset)
    results = sign(await case.executable(await case.quote()))
    verdict = await chain.check(PAYMENT, await case.quote(), results, NOW_MS)

    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidSignature)


@pytest.mark.parametrize("text", [BASE_USDC, SOLANA_SOL])
async def test_account_3_has_no_offers(chain: SimulatedChain, text: str) -> None:
    asset = parse_asset(text)
    account = magic_account(asset.chain, Magic.NO_OPTIONS)

    assert await chain.offer(PAYMENT, asset, account, str(shop_of(asset)), NOW_MS) is None


async def test_account_4_stays_processing_until_the_window_is_long_over(chain: SimulatedChain) -> None:
    payment = await magic_case(chain, Magic.HELD).paid()

    assert chain.due_at_ms(payment) == PAYMENT.expires_at_ms + HOLD_GRACE_MS
    assert await chain.look(payment, PAYMENT.expires_at_ms + HOLD_GRACE_MS - 1) is None
    assert await chain.look(payment, PAYMENT.expires_at_ms + HOLD_GRACE_MS) == Found(WindowClosed())


async def test_account_5_confirms_in_time_and_settles_a_minute_late(chain: SimulatedChain) -> None:
    payment = await magic_case(chain, Magic.SETTLES_LATE).paid()
    succeeded = transition(payment, TransferConfirmed("test:x"), NOW_MS + CONFIRM_MS).payment

    assert chain.due_at_ms(payment) == NOW_MS + CONFIRM_MS
    assert chain.due_at_ms(succeeded) == NOW_MS + CONFIRM_MS + SETTLE_MS + 60_000


# Without a wallet


@pytest.mark.parametrize("asset", ALL_ASSETS)
async def test_a_simulated_commitment_is_that_of_the_account_that_approves(
    chain: SimulatedChain, asset: str
) -> None:
    case = magic_case(chain, Magic.APPROVES, asset)
    quote = await case.quote()
    verdict = await chain.check(PAYMENT, quote, sign(await case.executable(quote)), NOW_MS)
    assert isinstance(verdict, Accepted)

    assert chain.simulated_processing(PAYMENT, asset, case.destination, NOW_MS) == verdict.processing


async def test_the_transfer_can_be_shown_before_it_is_due(chain: SimulatedChain) -> None:
    payment = await case_of(chain).paid()
    found = await chain.look(payment, NOW_MS + CONFIRM_MS)
    assert found is not None

    assert chain.transfers(payment) == found.transfers
    assert chain.transfers(PAYMENT) == ()


async def test_a_quote_is_all_that_a_check_needs_after_a_restart(chain: SimulatedChain) -> None:
    quote = await case_of(chain, ETH_USDT).quote()
    stored = msgspec.json.decode(msgspec.json.encode(quote), type=Quote)
    fresh = SimulatedChain(CONFIRM_MS, SETTLE_MS, RateTable())
    results = [Result("walletRpc", [TX_HASH]), Result("walletRpc", [SIGNATURE])]

    assert isinstance(await fresh.check(PAYMENT, stored, results, NOW_MS), Accepted)


@pytest.mark.parametrize("tx_id", [TX_HASH, "test:refund-1", "5" * 64, "z" * 88])
async def test_a_refund_names_what_looks_like_a_transaction(chain: SimulatedChain, tx_id: str) -> None:
    assert await chain.refund_problem(case_of(chain, BASE_USDC).payment, tx_id) is None


@pytest.mark.parametrize("tx_id", ["", "x", "0x12", "0x" + "zz" * 32, "test:", "no transaction of any chain"])
async def test_a_refund_that_names_something_else_is_told_what_to_send(
    chain: SimulatedChain, tx_id: str
) -> None:
    problem = await chain.refund_problem(case_of(chain, BASE_USDC).payment, tx_id)
    assert problem is not None
    assert "64 hex digits" in problem
