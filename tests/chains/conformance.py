"""What every chain must do, whatever is behind it: subclass `ChainConformance` and give it a `case`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from payd.chains.base import Accepted, Chain, Misaligned, Refused
from payd.core.caip import AccountId, AssetId, ChainId, canonical_chain
from payd.core.errors import InvalidParams
from payd.core.money import asset_amount, convert_up, exponent
from payd.core.option import ACTIONS_MAX, Build, Offer, Quote, Result, WalletRpc
from payd.core.payment import FundsCommitted, Payment, transition


class Case(msgspec.Struct, frozen=True):
    """One way to pay on one chain.

    Attributes:
        chain: What is tested.
        payment: An open payment.
        asset: What it is paid in.
        account: Who pays.
        destination: CAIP-10 of who is paid.
        now_ms: When, within the payment's window.
        sign: What an honest wallet hands back for executable actions, in order.
    """

    chain: Chain
    payment: Payment
    asset: AssetId
    account: AccountId
    destination: str
    now_ms: int
    sign: Callable[[Sequence[WalletRpc]], list[Result]]

    async def offer(self) -> Offer:
        """The offer for this case, which must exist."""
        offer = await self.chain.offer(self.payment, self.asset, self.account, self.destination, self.now_ms)
        assert offer is not None
        return offer

    async def quote(self) -> Quote:
        """The offer as it is handed out."""
        offer = await self.offer()
        return Quote(
            option_id="opt_1",
            payment_id=self.payment.id,
            asset=offer.asset,
            account=offer.account,
            amount=offer.amount,
            destination=self.destination,
            actions=offer.actions,
            valid_from_ms=self.now_ms,
            valid_until_ms=offer.valid_until_ms,
        )

    async def executable(self, quote: Quote) -> list[WalletRpc]:
        """The quote's actions with every build action resolved."""
        found: list[WalletRpc] = []
        for action in quote.actions:
            if isinstance(action, Build):
                found += (await self.chain.resolve(self.payment, quote, action.data, self.now_ms)).calls
            else:
                found.append(action)
        return found

    async def resolved(self) -> Quote:
        """The same as a wallet can execute it."""
        quote = await self.quote()
        return msgspec.structs.replace(quote, actions=tuple(await self.executable(quote)))

    async def paid(self) -> Payment:
        """The payment after an honest wallet confirmed."""
        quote = await self.resolved()
        results = self.sign(await self.executable(quote))
        verdict = await self.chain.check(self.payment, quote, results, self.now_ms)
        assert isinstance(verdict, Accepted)
        return transition(self.payment, FundsCommitted(verdict.processing), self.now_ms).payment


class ChainConformance:
    """The cases; a subclass gives the fixture `case`."""

    @pytest.fixture
    def case(self) -> Case:
        raise NotImplementedError

    async def test_it_serves_the_chain_of_its_asset(self, case: Case) -> None:
        assert case.chain.serves(str(canonical_chain(case.asset.chain)))

    async def test_it_can_show_amounts_of_its_asset(self, case: Case) -> None:
        display = case.chain.display(case.asset)

        assert display is not None
        assert display.asset_symbol
        assert display.asset_name
        assert 0 <= display.decimals <= 18

    async def test_its_rate_is_what_an_offer_is_priced_at(self, case: Case) -> None:
        rate = await case.chain.rate(case.payment.currency, case.asset, case.now_ms)
        display = case.chain.display(case.asset)

        assert rate is not None
        assert display is not None
        digits = exponent(case.payment.currency)
        asked = convert_up(case.payment.value, digits, rate, display.decimals)
        assert (await case.offer()).amount == asked

    async def test_an_offer_says_what_was_asked_for_and_holds_for_a_while_within_the_window(
        self, case: Case
    ) -> None:
        offer = await case.offer()

        assert offer.asset == str(case.asset)
        assert offer.account == str(case.account)
        assert offer.amount > 0
        assert type(offer.eta_s) is int
        assert offer.eta_s >= 0
        assert case.now_ms < offer.valid_until_ms <= case.payment.expires_at_ms

    async def test_the_actions_can_be_executed_on_the_chain_of_the_asset(self, case: Case) -> None:
        actions = await case.executable(await case.quote())

        assert 1 <= len(actions) <= ACTIONS_MAX
        assert {action.chain_id for action in actions} == {str(canonical_chain(case.asset.chain))}
        assert msgspec.json.decode(msgspec.json.encode(actions), type=list[WalletRpc]) == actions

    async def test_the_same_question_at_the_same_time_has_the_same_answer(self, case: Case) -> None:
        assert await case.offer() == await case.offer()

    async def test_no_action_shows_the_payment_id(self, case: Case) -> None:
        quote = await case.quote()
        told = msgspec.json.encode([quote.actions, await case.executable(quote)]).lower()

        assert case.payment.id.encode() not in told
        assert case.payment.id.encode().hex().encode() not in told

    async def test_two_payments_are_never_asked_for_the_same_signature(self, case: Case) -> None:
        other = msgspec.structs.replace(
            case, payment=msgspec.structs.replace(case.payment, id=case.payment.id[:-1] + "z")
        )
        first = await case.executable(await case.quote())
        second = await other.executable(await other.quote())

        assert first[-1] != second[-1]

    async def test_an_account_of_another_chain_has_no_offer(self, case: Case) -> None:
        elsewhere = AccountId(ChainId("eip155", "999999"), "0x" + "11" * 20)
        offer = await case.chain.offer(case.payment, case.asset, elsewhere, case.destination, case.now_ms)

        assert offer is None

    async def test_a_closed_window_has_no_offer(self, case: Case) -> None:
        offer = await case.chain.offer(
            case.payment, case.asset, case.account, case.destination, case.payment.expires_at_ms
        )

        assert offer is None

    async def test_data_of_no_build_action_resolves_into_nothing(self, case: Case) -> None:
        with pytest.raises(InvalidParams):
            await case.chain.resolve(case.payment, await case.quote(), "nonsense", case.now_ms)

    async def test_honest_results_commit_what_was_quoted(self, case: Case) -> None:
        quote = await case.resolved()
        results = case.sign(await case.executable(quote))
        verdict = await case.chain.check(case.payment, quote, results, case.now_ms)

        assert isinstance(verdict, Accepted)
        processing = verdict.processing
        assert processing.processing_at_ms == case.now_ms
        assert processing.option_amount == asset_amount(quote.asset, quote.amount)
        assert processing.settlement_amount.unit == processing.option_amount.unit
        assert processing.buyer == quote.account
        assert processing.chain == str(canonical_chain(case.asset.chain))

    async def test_a_check_has_no_effect_on_the_next(self, case: Case) -> None:
        quote = await case.resolved()
        results = case.sign(await case.executable(quote))
        first = await case.chain.check(case.payment, quote, results, case.now_ms)

        assert await case.chain.check(case.payment, quote, results, case.now_ms) == first

    async def test_another_number_of_results_is_misaligned(self, case: Case) -> None:
        quote = await case.resolved()
        results = case.sign(await case.executable(quote))
        for wrong in ([], results[:-1], [*results, results[0]]):
            verdict = await case.chain.check(case.payment, quote, wrong, case.now_ms)

            assert verdict == Misaligned()

    @pytest.mark.parametrize("data", [[], [7], [None], [["0x00"]], ["not a result"], [""], ["0x00", "0x00"]])
    async def test_unusable_results_are_refused_as_invalid_params(
        self, case: Case, data: list[object]
    ) -> None:
        quote = await case.resolved()
        results = case.sign(await case.executable(quote))
        results[-1] = Result("walletRpc", data)
        verdict = await case.chain.check(case.payment, quote, results, case.now_ms)

        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, InvalidParams)

    async def test_there_is_nothing_to_look_for_before_funds_are_committed(self, case: Case) -> None:
        assert case.chain.due_at_ms(case.payment) is None
        assert await case.chain.look(case.payment, case.payment.expires_at_ms * 2) is None

    async def test_a_committed_payment_is_due_for_a_look(self, case: Case) -> None:
        due_at_ms = case.chain.due_at_ms(await case.paid())

        assert due_at_ms is not None
        assert due_at_ms >= case.now_ms
