"""Scenarios over REST: each drives a payment by the API's own handlers, and the chain; only for test keys.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from payd.actors.offers import refuse_expired
from payd.actors.simulation import show_transfer
from payd.chains.simulated import Magic, magic_account
from payd.core.caip import parse_asset
from payd.core.endpoint import EndpointState
from payd.core.errors import EndpointDisabled, InvalidParams, InvalidState, NotFound, PaydError
from payd.core.idempotency import scope_of
from payd.core.payment import Payment
from payd.core.scenario import SCENARIOS, Scenario, Step, Told, find_scenario
from payd.core.status import Status
from payd.core.transfer import Kind
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.endpoints import get_endpoint
from payd.store.idempotency import IdempotentRequest, Outcome, find_replay, keep_answer
from payd.store.merchants import list_merchants
from payd.store.settlements import list_settlements
from payd.web.acts import act_of
from payd.web.call import Answer, Call
from payd.web.faults import refuse_live
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.lookup import own_payment
from payd.web.payments import gateway_url
from payd.web.schema import AmountIn

NOBODY: Final = (
    "There is no merchant that can be paid. Create one with POST /v1/merchants, and say where its money"
    " goes with POST /v1/merchants/{merchantId}/settlements/crypto."
)
NO_OPTION: Final = (
    "Its amount is too large for that, or its destination was taken away, or somebody was faster."
)
AMOUNT: Final = {"unit": "iso4217/USD", "value": "1250"}
# The first of these that can be paid is taken where none is named.
MERCHANTS_LOOKED_AT: Final = 100
UNPAID: Final[Mapping[str, Kind]] = {
    "late": "late",
    "partial": "partial",
    "surplus": "surplus",
    "unmatched": "unmatched",
}
ANSWERS: Final = {"text": "Sample", "date": "1990-01-31", "checkbox": "true"}
# Magic accounts approve whatever the wallet hands back, in each action's own encoding.
SIGNATURE: Final = "0x" + "11" * 65
SOLANA_TRANSACTION: Final = "AA=="


class ScenarioOut(msgspec.Struct, frozen=True, rename="camel"):
    """A scenario that there is."""

    name: str
    description: str
    needs_endpoint: bool
    expected_events: tuple[Told, ...]


class ScenarioList(msgspec.Struct, frozen=True):
    """In the order in which a receiver is best tried with them."""

    data: list[ScenarioOut]


class RunScenario(msgspec.Struct, frozen=True, rename="camel"):
    """What is to be paid, where a new payment is not to be the usual 12.50 USD under a fresh reference.

    `paymentId` is one that is there already and waits for its buyer: then none is made.
    """

    payment_id: str | None = None
    reference_id: str | None = None
    amount: AmountIn | None = None


class StepOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done; `refused` is the code with which it was refused, as it should be."""

    did: str
    refused: str = ""


class RunOut(msgspec.Struct, frozen=True, rename="camel"):
    """What was made or moved. Events that are not there yet follow by the realm's clock."""

    scenario: str
    payment_id: str
    merchant_id: str
    reference_id: str
    gateway_url: str
    status: str
    steps: list[StepOut]
    expected_events: tuple[Told, ...]


class _Choice(msgspec.Struct, frozen=True):
    """What a run chooses where the request leaves it open."""

    merchant_id: str
    asset: str
    reference_id: str


async def list_all(call: Call) -> Answer:
    """GET /v1/test/scenarios → `{data}`: `{name, description, needsEndpoint, expectedEvents}`."""
    refuse_live(call)
    found = [ScenarioOut(one.name, one.words, one.needs_endpoint, one.tells) for one in SCENARIOS]
    return Answer.json(ScenarioList(found))


async def run(call: Call) -> Answer:
    """POST /v1/test/scenarios/{name}, body optional → 201 `{paymentId, steps, expectedEvents, …}`.

    The name may be that of an event type, too. The merchant is the payment's, or that of `Merchant-Id`, else
    the first that can be paid.

    A run is many requests, so no one step of the store. Under an `Idempotency-Key`, what it has to choose is
    kept first, each of its requests has a key that follows from this one, and the answer is kept at the end.
    A repetition of one that a crash cut off finds the same payment, does again what changes nothing, then
    what was not done, and comes to the answer. It is refused if something else has ended the payment.

    It makes and moves payments, so that a key needs the scope `payments:write`, too.
    """
    refuse_live(call)
    assert call.caller is not None, "the route is for keys"
    call.caller.check_scope("payments:write")
    wanted = call.json(RunScenario) if call.request.body else RunScenario()
    scenario = find_scenario(call.params["name"])
    if scenario is None:
        names = ", ".join(one.name for one in SCENARIOS)
        raise NotFound(
            f"There is no such scenario; there are {names}, and the type of each event, as payment.succeeded."
        )
    request = idempotent(call, wanted)
    outcome = await call.realm.requests.once(request, partial(_run, call, scenario, wanted, request))
    # Who repeats it may have another key of the account, which is for other merchants.
    call.check_merchant(msgspec.json.decode(outcome.body)["merchantId"])
    return outcome_answer(outcome)


async def _run(
    call: Call, scenario: Scenario, wanted: RunScenario, request: IdempotentRequest | None
) -> Outcome:
    if scenario.needs_endpoint and _endpoint_state(call) is not EndpointState.ENABLED:
        raise EndpointDisabled(
            "The webhook endpoint is not enabled, so nothing could be seen; enable it first."
        )
    choice = await _choose_once(call, scenario, wanted, request)
    call.check_merchant(choice.merchant_id)
    key = "" if request is None else request.scope.hex()
    made = await _Run(call, scenario, wanted, choice, key).all()
    outcome = Outcome(201, msgspec.json.encode(made))
    audit = act_of(call, "payment.scenario", made.payment_id, scenario=scenario.name)

    def keep(tx: Tx) -> None:
        keep_answer(tx, request, outcome)
        if audit is not None:
            audit(tx)

    if request is not None or audit is not None:
        await call.realm.db.write(keep)
    return outcome


async def _choose_once(
    call: Call, scenario: Scenario, wanted: RunScenario, request: IdempotentRequest | None
) -> _Choice:
    """The choice that an earlier run of this request made, which did not come to its end; else a new one.

    Raises:
        PaydError: As `_waiting_payment` and `_payable`: where nothing was begun.
    """
    if request is None:
        return _choose(call, scenario, wanted)
    # Of this very body: one that was refused leaves the key to another.
    of_this = f"{request.scope.hex()} {request.fingerprint.hex()}"
    begun = msgspec.structs.replace(request, scope=scope_of("BEGIN", call.request.path, None, of_this))
    kept = call.realm.db.point(find_replay, begun)
    if kept is not None:
        return msgspec.json.decode(kept.body, type=_Choice)
    choice = _choose(call, scenario, wanted)
    await call.realm.db.write(keep_answer, begun, Outcome(201, msgspec.json.encode(choice)))
    return choice


def _choose(call: Call, scenario: Scenario, wanted: RunScenario) -> _Choice:
    payment = None if wanted.payment_id is None else _waiting_payment(call, wanted.payment_id, wanted)
    merchant_id, asset = _payable(call, payment)
    if payment is not None:
        return _Choice(merchant_id, asset, payment.reference_id)
    fresh = new_id(f"{scenario.name}-", call.realm.clock.now_ms(), call.house.entropy)
    return _Choice(merchant_id, asset, fresh if wanted.reference_id is None else wanted.reference_id)


def _waiting_payment(call: Call, payment_id: str, wanted: RunScenario) -> Payment:
    """A payment that a scenario can begin with.

    Raises:
        InvalidParams: The payment is named, and what a new one is to be.
        PaymentNotFound, Forbidden: As `own_payment`.
        InvalidState: It waits for its buyer no more.
    """
    if wanted.reference_id is not None or wanted.amount is not None:
        raise InvalidParams("A payment that is there has its reference and amount; leave them out.")
    call.params["id"] = payment_id
    payment = own_payment(call)
    if payment.status is not Status.REQUIRES_ACTION:
        raise _not_waiting(payment)
    return payment


def _not_waiting(payment: Payment) -> InvalidState:
    words = f"The payment is {payment.status.value}; a scenario begins with one that waits for its buyer."
    return InvalidState(words, details={"status": payment.status.value})


def _endpoint_state(call: Call) -> EndpointState:
    return call.realm.db.point(get_endpoint, call.account_id).state


class _Run:
    """One payment's way through a scenario; with a `key`, each step asks under a key of its own."""

    def __init__(
        self, call: Call, scenario: Scenario, wanted: RunScenario, choice: _Choice, key: str
    ) -> None:
        self._call = call
        self._scenario = scenario
        self._wanted = wanted
        self._choice = choice
        self._key = key
        self._step_key = ""
        self._payment_id = wanted.payment_id or ""
        self._option: Mapping[str, Any] = {}

    async def all(self) -> RunOut:
        """Do every step; of a payment that is there already, its creation was done and told."""
        known = 0 if self._wanted.payment_id is None else 1
        steps = [await self._do(number, step) for number, step in enumerate(self._scenario.steps[known:])]
        return RunOut(
            scenario=self._scenario.name,
            payment_id=self._payment_id,
            merchant_id=self._choice.merchant_id,
            reference_id=self._choice.reference_id,
            gateway_url=gateway_url(self._call.house.base_url, self._payment_id),
            status=self._payment.status.value,
            steps=steps,
            expected_events=self._scenario.tells[known:],
        )

    async def _do(self, number: int, step: Step) -> StepOut:
        self._step_key = self._key and f"{self._key} {number}"
        did = " ".join(filter(None, (step.verb, step.what)))
        try:
            await getattr(self, f"_{step.verb}")(step)
        except PaydError as refusal:
            if refusal.code != step.refused:
                raise
            return StepOut(did, refusal.code)
        assert not step.refused, f"{did} was to be refused with {step.refused}, and was not"
        return StepOut(did)

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        from payd.web.inside import ask_api  # it knows the table of routes, in which this handler is

        call = self._call
        assert call.caller is not None, "the route is for keys"
        return await ask_api(
            call.house, call.caller, method, path, body,
            merchant_id=self._choice.merchant_id, idempotency_key=self._step_key,
        )  # fmt: skip

    async def _create(self, step: Step) -> None:
        body = {"referenceId": self._choice.reference_id, "amount": self._wanted.amount or AMOUNT}
        self._payment_id = (await self._ask("POST", "/v1/payments", body))["paymentId"]

    async def _quote(self, step: Step) -> None:
        if self._payment.status is not Status.REQUIRES_ACTION:
            return  # a run before this one came further
        account = magic_account(parse_asset(self._choice.asset).chain, Magic(int(step.what)))
        found = await self._ask("POST", f"{self._gateway}/options", [str(account)])
        if not found["options"]:
            raise InvalidState(f"The payment cannot be paid in {self._choice.asset}. {NO_OPTION}")
        self._option = found["options"][0]

    async def _confirm(self, step: Step) -> None:
        if not self._option:
            return self._check_confirmed()
        asked = self._option["collectData"]
        given = {} if asked is None else {"collectedData": {"fields": _answers(asked["fields"])}}
        option = {"optionId": self._option["id"], **given}
        actions = []
        for action in self._option["actions"]:
            if action["type"] != "build":
                actions.append(action)
                continue
            built = await self._ask("POST", f"{self._gateway}/fetch", {**option, "data": action["data"]})
            actions += built["actions"]
        results = [{"type": "walletRpc", "data": [_result_of(one["method"])]} for one in actions]
        await self._ask("POST", f"{self._gateway}/confirm", {**option, "results": results})

    async def _simulate(self, step: Step) -> None:
        await self._ask("POST", f"/v1/test/payments/{self._payment_id}/simulate", {"to": step.what})

    async def _cancel(self, step: Step) -> None:
        await self._ask("POST", f"/v1/payments/{self._payment_id}/cancel")

    async def _refund(self, step: Step) -> None:
        body = {"paymentId": self._payment_id, "txId": f"test:refund-{self._payment_id}"}
        await self._ask("POST", "/v1/refunds", body)

    async def _transfer(self, step: Step) -> None:
        # Nobody can ask for it by the API: it is the chain that shows it.
        await show_transfer(self._call.realm.payments, self._payment_id, UNPAID[step.what])

    async def _fault(self, step: Step) -> None:
        body = {
            "fault": step.what,
            "paymentId": self._payment_id,
            "events": step.events,
            "deliveries": len(step.events),
        }
        await self._ask("POST", "/v1/test/webhooks/inject", body)

    def _check_confirmed(self) -> None:
        """Return if the payment, which takes no confirm any more, has had one.

        Raises:
            PaymentExpired, InvalidState: It ended without.
        """
        payment = self._payment
        if payment.processing is None:
            refuse_expired(payment, self._call.realm.clock.now_ms())
            raise _not_waiting(payment)

    @property
    def _payment(self) -> Payment:
        return self._call.realm.payments.find(self._payment_id)

    @property
    def _gateway(self) -> str:
        return f"/v1/gateway/payment/{self._payment_id}"


def _payable(call: Call, payment: Payment | None) -> tuple[str, str]:
    """The merchant that is paid, by this payment if there is one, and an asset in which it is.

    Raises:
        InvalidState: There is none.
    """
    only = None if call.merchants is None else sorted(call.merchants)
    merchant_id = call.merchant_id if payment is None else payment.merchant_id
    if merchant_id is not None:
        only = [merchant_id]
    merchants, _ = call.realm.db.point(
        list_merchants, call.account_id, only=only, status="active", limit=MERCHANTS_LOOKED_AT
    )
    for merchant in merchants:
        if settlements := call.realm.db.point(list_settlements, merchant.id):
            return merchant.id, settlements[0].asset
    raise InvalidState(NOBODY)


def _answers(fields: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"id": one["id"], "value": ANSWERS[one["type"]]} for one in fields]


def _result_of(method: str) -> str:
    return SOLANA_TRANSACTION if method.startswith("solana_") else SIGNATURE
