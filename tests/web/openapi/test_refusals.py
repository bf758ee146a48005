"""Which errors an operation can answer."""

from __future__ import annotations

from payd.web.errors import STATUS
from payd.web.openapi.refusals import EXAMPLES, refusals_of
from payd.web.openapi.table import OPERATIONS, name_of
from payd.web.routes import ROUTES


def codes(name: str) -> dict[int, set[str]]:
    (route,) = (one for one in ROUTES if name_of(one) == name)
    return {
        status: {one.code for one in found} for status, found in refusals_of(route, OPERATIONS[name]).items()
    }


def test_every_code_has_an_example() -> None:
    assert {error.code for error in STATUS} == EXAMPLES.keys()


def test_registering_where_money_goes_can_be_refused_as_the_specification_says() -> None:
    """SPEC.md lists these for this operation; the rest is what every operation has."""
    found = codes("POST /v1/merchants/{merchantId}/settlements/crypto")
    assert {"params_validation", "invalid_params", "missing_idempotency_key"} <= found[400]
    assert found[401] == {"missing_api_key", "invalid_api_key"}
    assert found[404] == {"not_found"}
    assert found[409] == {"idempotency_conflict", "settlement_asset_conflict"}


def test_wallets_and_apps_have_refusals_of_their_own() -> None:
    found = codes("POST /v1/gateway/payment/{id}/confirm")
    assert {"missing_app_id", "missing_client_id", "invalid_app_id"} <= found[401]
    assert {"payment_expired"} == found[410]
    assert {"invalid_signature"} == found[422]
    assert {"quote_expired", "invalid_state"} <= found[400]


def test_an_open_path_asks_for_no_credential() -> None:
    assert codes("GET /versions") == {429: {"rate_limited"}, 500: {"internal_error"}}


def test_each_status_has_each_code_once() -> None:
    for route in ROUTES:
        operation = OPERATIONS.get(name_of(route))
        for status, found in refusals_of(route, operation).items() if operation else ():
            assert len({one.code for one in found}) == len(found)
            assert all(STATUS[one] == status for one in found)
