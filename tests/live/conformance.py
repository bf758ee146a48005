"""What every realm's payments must do, from the options to the settlement: subclass `PaymentConformance`.

It speaks of payments, wallets and statuses alone, so that the simulated chain passes it as real ones do.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol

import pytest
import trio

Way = Literal["signed", "sent", "native"]
WAYS: Final[tuple[Way, ...]] = ("signed", "sent", "native")

ALL_EVENTS: Final = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]
IN_FLIGHT: Final = 60


class Market(Protocol):
    """A shop and its buyers, on whatever chain."""

    async def payment(self, **more: Any) -> str:
        """A payment's id."""

    async def option(self, payment_id: str, way: Way) -> dict[str, Any]:
        """The option that is paid this way."""

    async def execute(self, option: dict[str, Any]) -> list[str]:
        """What an honest wallet hands back for it."""

    async def confirm(self, payment_id: str, option: dict[str, Any], *data: str) -> tuple[int, Any]:
        """The status and the body of the answer to results, one string each."""

    async def cancel(self, payment_id: str) -> tuple[int, Any]:
        """The status and the body of the answer to the buyer's cancel."""

    async def until(self, payment_id: str, *wanted: str) -> str:
        """Wait until the payment has one of these statuses, or is `settled`."""

    async def detail(self, payment_id: str) -> dict[str, Any]:
        """Everything that the merchant is shown."""

    async def events(self, payment_id: str) -> list[str]:
        """The types of its events, oldest first."""

    async def expiring(self) -> str:
        """A payment whose window closes soon."""


class PaymentConformance:
    """The scenarios; a subclass gives the fixture `market`."""

    @pytest.fixture
    def market(self) -> Market:
        raise NotImplementedError

    @pytest.mark.parametrize("way", WAYS)
    async def test_a_payment_goes_from_its_option_to_its_settlement(self, market: Market, way: Way) -> None:
        payment_id = await market.payment()
        option = await market.option(payment_id, way)
        status, body = await market.confirm(payment_id, option, *await market.execute(option))
        assert (status, body["isFinal"]) == (200, False)

        await market.until(payment_id, "settled")

        assert await market.events(payment_id) == ALL_EVENTS
        detail = await market.detail(payment_id)
        [transfer] = detail["transfers"]
        assert transfer["kind"] == "matched"
        assert transfer["amount"]["value"] == option["amount"]["value"]
        assert detail["info"]["txId"] == transfer["txId"]
        assert detail["info"]["optionAmount"]["value"] == option["amount"]["value"]

    async def test_asking_again_gives_the_same_option(self, market: Market) -> None:
        payment_id = await market.payment()
        first, second = [await market.option(payment_id, "signed") for _ in range(2)]

        assert first == second

    async def test_the_same_results_are_accepted_in_every_later_state(self, market: Market) -> None:
        payment_id = await market.payment()
        option = await market.option(payment_id, "signed")
        results = await market.execute(option)
        for wanted in ("processing", "succeeded", "settled"):
            status, _ = await market.confirm(payment_id, option, *results)
            assert status == 200
            await market.until(payment_id, *{"processing", "succeeded", "settled", wanted})
        await market.until(payment_id, "settled")
        assert await market.events(payment_id) == ALL_EVENTS

    async def test_confirms_at_the_same_moment_have_one_effect(self, market: Market) -> None:
        payment_id = await market.payment()
        option = await market.option(payment_id, "signed")
        results = await market.execute(option)
        answers: list[int] = []

        async def confirm() -> None:
            status, _ = await market.confirm(payment_id, option, *results)
            answers.append(status)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(confirm)

        assert answers == [200] * 8
        await market.until(payment_id, "settled")
        assert await market.events(payment_id) == ALL_EVENTS
        assert len((await market.detail(payment_id))["transfers"]) == 1

    async def test_a_confirm_and_a_cancel_that_race_end_in_exactly_one_of_the_two(
        self, market: Market
    ) -> None:
        for _ in range(4):
            payment_id = await market.payment()
            option = await market.option(payment_id, "signed")
            results = await market.execute(option)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(market.confirm, payment_id, option, *results)
                nursery.start_soon(market.cancel, payment_id)
            ended = await market.until(payment_id, "settled", "cancelled")
            events = await market.events(payment_id)
            assert events == (ALL_EVENTS if ended == "settled" else ["payment.created", "payment.cancelled"])

    async def test_unusable_results_leave_the_payment_open(self, market: Market) -> None:
        payment_id = await market.payment()
        option = await market.option(payment_id, "signed")
        for junk in ("0x1234", "not hex", "0x"):
            status, _ = await market.confirm(payment_id, option, junk)
            assert status in (400, 422)

        status, _ = await market.confirm(payment_id, option, *await market.execute(option))
        assert status == 200
        await market.until(payment_id, "settled")

    async def test_another_number_of_results_fails_the_payment(self, market: Market) -> None:
        payment_id = await market.payment()
        option = await market.option(payment_id, "signed")
        [result] = await market.execute(option)
        status, body = await market.confirm(payment_id, option, result, result)

        assert (status, body["status"]) == (200, "failed")
        assert await market.events(payment_id) == ["payment.created", "payment.failed"]

    async def test_an_unpaid_payment_expires(self, market: Market) -> None:
        payment_id = await market.expiring()
        await market.option(payment_id, "sent")
        await market.until(payment_id, "expired")

        assert await market.events(payment_id) == ["payment.created", "payment.expired"]

    async def test_many_payments_in_flight_end_each_with_a_transfer_of_its_own(self, market: Market) -> None:
        payments = [await market.payment() for _ in range(IN_FLIGHT)]

        async def pay(payment_id: str) -> None:
            option = await market.option(payment_id, "signed")
            status, _ = await market.confirm(payment_id, option, *await market.execute(option))
            assert status == 200

        async with trio.open_nursery() as nursery:
            for payment_id in payments:
                nursery.start_soon(pay, payment_id)
        transfers = set()
        for payment_id in payments:
            await market.until(payment_id, "settled")
            assert await market.events(payment_id) == ALL_EVENTS
            [transfer] = (await market.detail(payment_id))["transfers"]
            transfers.add(transfer["txId"])
        assert len(transfers) == IN_FLIGHT
