"""The examples of the description: one order of one shop, made by the code that answers requests.

Every value is of the type that it is an example of; ids are made as real ones are, from nothing random.

Source: SPEC.md, "What the service does".
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from payd.core.collect import Field, schema_of
from payd.core.event import iso_ms, sample_event
from payd.core.ids import ENTROPY_BYTES, make_id
from payd.core.money import AmountWire
from payd.core.option import Result, WalletRpc
from payd.core.payment import (
    CANCELLED_BY_MERCHANT,
    FundsCommitted,
    Payment,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
    Trigger,
    transition,
)
from payd.core.scenario import SCENARIOS
from payd.core.status import merchant_word
from payd.core.version import VERSIONS, is_preview
from payd.store.transfers import Transfer
from payd.web import (
    deliveries,
    events,
    faults,
    gateway,
    health,
    merchants,
    payments,
    samples,
    scenarios,
    settlement_changes,
    settlements,
    simulation,
    transfers,
    webhooks,
)
from payd.web import solana_pay as solana
from payd.web.accounts import AccountsIn
from payd.web.actions import render_action
from payd.web.logos import LogoAnswer, LogoOut
from payd.web.schema import (
    AmountIn,
    BuyerPage,
    CheckoutIn,
    CreatePayment,
    Deleted,
    MerchantPaymentStatus,
    PaymentCancelledOut,
    PaymentCreated,
    PaymentCreatedBoth,
    PaymentDetail,
    PaymentPage,
    PaymentRead,
    PaymentStatus,
    RefundOut,
    SettlementOut,
    TransferOut,
    TransferPage,
    Words,
    buyer_page,
    poll_in_ms,
)

Examples = dict[str, Any]
"""Values by the name that they are shown under."""

BASE_URL: Final = "https://pay.example"
AT_MS: Final = 1_779_098_340_007
ASSET: Final = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
CHAIN: Final = "eip155:8453"
WALLET: Final = f"{CHAIN}:0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BUYER: Final = f"{CHAIN}:0x0000000000000000000000000000000000000001"
SOLANA_ASSET: Final = (
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
)
SIGNATURE: Final = "0x" + "11" * 64 + "1b"
TX_HASH: Final = "0x" + "ab" * 32
SECRET: Final = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
WORDS: Final = Words(())


def made_id(prefix: str) -> str:
    """An id as payd makes them, always the same one."""
    return make_id(prefix, AT_MS, hashlib.sha256(prefix.encode()).digest()[:ENTROPY_BYTES])


PAYMENT_ID: Final = made_id("pay_t")
MERCHANT_ID: Final = made_id("mrch_")
URL: Final = f"{BASE_URL}/pay/{PAYMENT_ID}"
PAID: Final = AmountWire(f"caip19/{ASSET}", "12500000")

_DRAFT: Final = Payment(
    id=PAYMENT_ID,
    account_id="",
    merchant_id=MERCHANT_ID,
    reference_id="ORDER-1042",
    currency="USD",
    value=1250,
    created_at_ms=AT_MS,
    expires_at_ms=1_779_099_240_000,
    updated_at_ms=AT_MS,
)
_TX: Final = f"test:{PAYMENT_ID}"
_FUNDS: Final = FundsCommitted(Processing(AT_MS + 1000, PAID, PAID, BUYER, CHAIN))


def _after(*triggers: Trigger) -> Payment:
    payment = _DRAFT
    for number, trigger in enumerate(triggers):
        payment = transition(payment, trigger, AT_MS + 1000 * (number + 1)).payment
    return payment


OPEN: Final = _after()
SETTLED: Final = _after(_FUNDS, TransferConfirmed(_TX), SettlementCompleted(_TX))

_TRANSFER: Final = Transfer(
    "", PAYMENT_ID, CHAIN, TX_HASH, 0, ASSET, "12500000", BUYER, WALLET, "matched", AT_MS + 2000
)
_FIELDS: Final = (Field("fullName", "text", "Full name"),)
_SETTLEMENT: Final = SettlementOut(made_id("crypto_"), ASSET, WALLET)
_LOGO: Final = LogoOut("ready", f"{BASE_URL}/logo/{hashlib.sha256(b'logo').hexdigest()[:32]}.webp", None)
_MERCHANT: Final = merchants.MerchantOut(
    MERCHANT_ID, "My Shop", "shop@example.com", "active", None, iso_ms(AT_MS), (), (), _LOGO
)
_TRANSFER_OUT: Final[TransferOut] = WORDS.transfer(_TRANSFER)
_ENVELOPE: Final = sample_event(
    "payment.succeeded",
    event_id=made_id("evt_"),
    payment_id=PAYMENT_ID,
    merchant_id=MERCHANT_ID,
    now_ms=AT_MS,
)
_EVENT: Final = events.EventOut(
    made_id("evt_"), "payment.succeeded", iso_ms(AT_MS), PAYMENT_ID, msgspec.Raw(_ENVELOPE)
)
_DELIVERY: Final = deliveries.DeliveryOut(
    made_id("dlv_"),
    made_id("msg_"),
    made_id("evt_"),
    "payment.succeeded",
    PAYMENT_ID,
    "pending",
    None,
    1,
    500,
    iso_ms(AT_MS + 5000),
    iso_ms(AT_MS),
    "enabled",
)
_ATTEMPT: Final = deliveries.AttemptOut(
    n=1,
    trigger="auto",
    at=iso_ms(AT_MS),
    status=500,
    error_class="http_status",
    error="HTTP 500",
    advice="The receiver failed. Its own log says why.",
    duration_ms=31,
    timing=deliveries.TimingOut(2, 9, 14, 31),
    remote_ip="203.0.113.7",
    retry_after_s=None,
    next_attempt_at=iso_ms(AT_MS + 5000),
    headers="content-type: text/plain\r\n",
    body="out of order",
    truncated=False,
    fault=None,
)
_FAULT: Final = faults.FaultOut(
    made_id("flt_"), "duplicate", "active", 3, 2, None, None, (), None, 1, iso_ms(AT_MS)
)
_SCENARIO: Final = SCENARIOS[0]
_SAMPLE: Final = samples.SampleOut("payment.succeeded", samples.VERSIONS[-1], msgspec.Raw(_ENVELOPE))
_JOB: Final = deliveries.JobOut(made_id("job_"), "recover", iso_ms(AT_MS), "running", 12, 12, 9, 0, 0, 3)
_ENDPOINT: Final = webhooks.EndpointOut(
    id=made_id("ep_"),
    url="https://shop.example/webhook",
    events=("payment.succeeded", "payment.failed"),
    headers=(),
    state="enabled",
    failing_since=None,
    disables_at=None,
    off_since=None,
    old_secrets_until=None,
    source_addresses=(),
)
_COLLECT: Final = gateway.CollectData(
    list(_FIELDS), schema_of(_FIELDS), f"{BASE_URL}/collect/{PAYMENT_ID}?accounts={BUYER}"
)
_INFO: Final = gateway.PaymentInfo(
    "requires_action",
    WORDS.amount(OPEN.amount),
    OPEN.expires_at_ms // 1000,
    gateway.MerchantInfo("My Shop"),
    None,
)
_CALL: Final = WalletRpc(
    CHAIN, "eth_signTypedData_v4", [BUYER.rpartition(":")[2], '{"types":{},"message":{}}']
)
_GIVEN: Final = {"fullName": "Ada Lovelace"}


def _options(version: str, collect: gateway.CollectData | None) -> gateway.OptionsOut:
    option = gateway.OptionOut(
        made_id("opt_"), BUYER, WORDS.amount(PAID), 5, None, [render_action(version, _CALL)], collect
    )
    return gateway.OptionsOut([option], _INFO, collect)


def _of_merchants() -> dict[Any, Examples]:
    with_settlements = merchants.MerchantWithSettlements(
        **msgspec.structs.asdict(_MERCHANT), settlements=merchants.SettlementsOut([_SETTLEMENT], [])
    )
    return {
        merchants.CreateMerchant: {"shop": merchants.CreateMerchant("My Shop", "shop@example.com")},
        merchants.PatchMerchant: {
            "name": merchants.PatchMerchant(merchant_name="Our Shop"),
            "questions": merchants.PatchMerchant(collect=_FIELDS),
        },
        merchants.MerchantCreated: {"shop": merchants.MerchantCreated(_MERCHANT)},
        merchants.MerchantOut: {"shop": _MERCHANT},
        merchants.MerchantWithSettlements: {"shop": with_settlements},
        merchants.MerchantPage: {"one": merchants.MerchantPage([_MERCHANT], [_MERCHANT], 1, None)},
        merchants.SettlementsOut: {"one": merchants.SettlementsOut([_SETTLEMENT], [])},
        LogoAnswer: {"logo": LogoAnswer(MERCHANT_ID, _LOGO), "none": LogoAnswer(MERCHANT_ID, None)},
        settlements.CreateSettlements: {
            "usdc": settlements.CreateSettlements([settlements.SettlementIn(ASSET, WALLET)])
        },
        settlements.SettlementsCreated: {"usdc": settlements.SettlementsCreated([_SETTLEMENT])},
        settlement_changes.PutSettlement: {"wallet": settlement_changes.PutSettlement(WALLET)},
        SettlementOut: {"usdc": _SETTLEMENT},
        Deleted: {"deleted": Deleted(MERCHANT_ID)},
    }


def _of_payments() -> dict[Any, Examples]:
    both = PaymentCreatedBoth(
        PAYMENT_ID, URL, "requires_action", OPEN.expires_at_ms // 1000, False, 1000, PAYMENT_ID, URL
    )
    refund = RefundOut(_TX, "Returned", iso_ms(AT_MS + 86_400_000))
    read = PaymentRead(
        **msgspec.structs.asdict(WORDS.detail(SETTLED, [])), collected_data=None, refund=refund
    )
    info = WORDS.info(SETTLED)
    cancelled = PaymentCancelledOut(PAYMENT_ID, "cancelled", CANCELLED_BY_MERCHANT, iso_ms(AT_MS))
    matched = transfers.Matched(
        WORDS.detail(OPEN, [_TRANSFER]),
        transfers.MatchOut("matched", "It pays this payment.", [_TRANSFER_OUT]),
    )
    return {
        CreatePayment: {
            "order": CreatePayment("ORDER-1042", AmountIn("iso4217/USD", "1250")),
            "with a way back": CreatePayment(
                "ORDER-1043",
                AmountIn("iso4217/EUR", "990"),
                CheckoutIn("https://shop.example/paid", "https://shop.example/cart"),
            ),
        },
        PaymentCreatedBoth: {"new": both},
        PaymentCreated: {
            "new": PaymentCreated(
                PAYMENT_ID, URL, merchant_word(OPEN.status), OPEN.expires_at_ms // 1000, False, 1000
            )
        },
        PaymentRead: {"succeeded": read},
        PaymentDetail: {"open": WORDS.detail(OPEN, []), "succeeded": WORDS.detail(SETTLED, [])},
        PaymentStatus: {
            "open": PaymentStatus("requires_action", False, poll_in_ms(OPEN), None),
            "succeeded": PaymentStatus("succeeded", True, None, info),
        },
        MerchantPaymentStatus: {
            "open": MerchantPaymentStatus("pending", False),
            "succeeded": MerchantPaymentStatus("succeeded", True),
        },
        PaymentPage: {"one": PaymentPage([WORDS.item(SETTLED, ("My Shop", None))], None)},
        PaymentCancelledOut: {"cancelled": cancelled},
        TransferPage: {"one": TransferPage([_TRANSFER_OUT], None)},
        transfers.MatchIn: {"transaction": transfers.MatchIn(TX_HASH, CHAIN)},
        transfers.Matched: {"matched": matched},
        payments.RecordRefund: {"whole": payments.RecordRefund(PAYMENT_ID, note="Returned")},
        payments.RefundRecorded: {"recorded": payments.RefundRecorded(PAYMENT_ID)},
    }


def _of_test_mode() -> dict[Any, Examples]:
    return {
        simulation.SimulateIn: {
            "paid": simulation.SimulateIn("succeeded"),
            "failed": simulation.SimulateIn("failed", "The card was eaten"),
        },
        simulation.ClockIn: {"a day": simulation.ClockIn("1d")},
        simulation.ClockOut: {
            "real time": simulation.ClockOut(iso_ms(AT_MS), 0),
            "ahead": simulation.ClockOut(
                iso_ms(AT_MS + 86_400_000), 86_400, simulation.ClockJob(made_id("job_"), "running", 0)
            ),
        },
        faults.InjectIn: {
            "twice": faults.InjectIn(fault="duplicate", deliveries=3),
            "lost for a while": faults.InjectIn(fault="drop", lasts="10m", events=["payment.succeeded"]),
        },
        faults.FaultOut: {"twice": _FAULT},
        faults.FaultList: {"one": faults.FaultList([_FAULT])},
        samples.SampleOut: {"settled": _SAMPLE},
        samples.SampleList: {"one": samples.SampleList([_SAMPLE])},
        scenarios.ScenarioList: {
            "one": scenarios.ScenarioList(
                [scenarios.ScenarioOut(_SCENARIO.name, _SCENARIO.words, False, _SCENARIO.tells)]
            )
        },
        scenarios.RunScenario: {
            "an amount": scenarios.RunScenario(amount=AmountIn("iso4217/EUR", "1999")),
            "a payment that is there": scenarios.RunScenario(PAYMENT_ID),
        },
        scenarios.RunOut: {
            "run": scenarios.RunOut(
                _SCENARIO.name,
                PAYMENT_ID,
                MERCHANT_ID,
                "created-1042",
                URL,
                "requires_action",
                [scenarios.StepOut("create")],
                _SCENARIO.tells,
            )
        },
    }


def _of_gateway() -> dict[Any, Examples]:
    link = solana.LinkOut(
        SOLANA_ASSET,
        "USDC",
        WORDS.amount(AmountWire(f"caip19/{SOLANA_ASSET}", "12500000")),
        f"solana:{WALLET.rpartition(':')[2]}?amount=12.5",
        OPEN.expires_at_ms // 1000,
        None,
    )
    return {
        gateway.PaymentInfo: {"open": _INFO},
        list[str] | AccountsIn: {"list": [BUYER], "object": AccountsIn([BUYER])},
        gateway.FetchIn: {"build": gateway.FetchIn(made_id("opt_"), "b3BhcXVl")},
        gateway.ConfirmIn: {
            "signature": gateway.ConfirmIn(made_id("opt_"), [Result("walletRpc", [SIGNATURE])]),
            "with answers": gateway.ConfirmIn(made_id("opt_"), [Result("walletRpc", [SIGNATURE])], _GIVEN),
        },
        gateway.GatewayStatus: {
            "processing": gateway.GatewayStatus("processing", is_final=False, poll_in_ms=1000),
            "succeeded": gateway.GatewayStatus("succeeded", is_final=True, info=WORDS.info(SETTLED)),
        },
        solana.PayeeOut: {"shop": solana.PayeeOut("My Shop", f"{BASE_URL}/static/solana-pay.png")},
        solana.AccountIn: {"wallet": solana.AccountIn("7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV")},
        solana.TransactionToSign: {
            "usdc": solana.TransactionToSign("AQAAAA==", "12.50 USDC to My Shop, order ORDER-1042")
        },
        solana.LinksOut: {"usdc": solana.LinksOut([link])},
    }


def _of_webhooks() -> dict[Any, Examples]:
    detail = deliveries.DeliveryDetail(**msgspec.structs.asdict(_DELIVERY), attempt_log=[_ATTEMPT])
    return {
        webhooks.PutEndpoint: {
            "all": webhooks.PutEndpoint("https://shop.example/webhook"),
            "some": webhooks.PutEndpoint("https://shop.example/webhook", ["payment.succeeded"]),
        },
        webhooks.EndpointOut: {
            "endpoint": _ENDPOINT,
            "with its secret": msgspec.structs.replace(_ENDPOINT, secret=SECRET),
        },
        webhooks.SendTest: {"succeeded": webhooks.SendTest("payment.succeeded")},
        webhooks.TestOut: {
            "taken": webhooks.TestOut(made_id("dlv_"), 200, None, None, None, 31, "ok"),
        },
        deliveries.StartJob: {
            "since": deliveries.StartJob(iso_ms(AT_MS)),
            "count": deliveries.StartJob(AT_MS // 1000, preview=True),
        },
        deliveries.DeliveryPage: {"one": deliveries.DeliveryPage([_DELIVERY], None)},
        deliveries.DeliveryDetail: {"failed once": detail},
        deliveries.JobOut: {"running": _JOB},
        deliveries.JobList: {"one": deliveries.JobList([_JOB])},
        deliveries.PreviewOut: {"count": deliveries.PreviewOut("recover", iso_ms(AT_MS), 12)},
        events.EventOut: {"succeeded": _EVENT},
        events.EventPage: {"one": events.EventPage([_EVENT], None)},
    }


def _of_service() -> dict[Any, Examples]:
    return {
        health.Versions: {
            "versions": health.Versions(
                [one for one in VERSIONS if not is_preview(one)], [one for one in VERSIONS if is_preview(one)]
            )
        },
        health.Health: {"ok": health.Health("ok")},
        dict[str, Any]: {"empty": {}},
    }


def examples(version: str) -> dict[Any, Examples]:
    """An example or more for each type of a body, by type and name."""
    calls = gateway.ActionsOut([render_action(version, _CALL)])
    return {
        **_of_merchants(),
        **_of_payments(),
        **_of_test_mode(),
        **_of_gateway(),
        **_of_webhooks(),
        **_of_service(),
        gateway.OptionsOut: {"one": _options(version, None), "with questions": _options(version, _COLLECT)},
        gateway.ActionsOut: {"one call": calls},
    }


def feed_message() -> BuyerPage:
    """What a payment's page is sent."""
    return buyer_page(SETTLED, WORDS, AT_MS)
