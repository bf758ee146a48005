"""Every route is described or left out with a reason; and its query has the parameters that are described."""

from __future__ import annotations

from payd.web.openapi.service import NOT_DESCRIBED
from payd.web.openapi.table import OPERATIONS, name_of, parameters_of
from payd.web.routes import ROUTES, match_route
from tests.shop import Shop


def test_every_route_is_described_or_left_out_with_a_reason() -> None:
    names = {name_of(route) for route in ROUTES}
    assert names == OPERATIONS.keys() | NOT_DESCRIBED.keys()
    assert not OPERATIONS.keys() & NOT_DESCRIBED.keys()
    assert all(NOT_DESCRIBED.values())


def test_the_whole_api_is_described() -> None:
    told = [name for name in NOT_DESCRIBED if " /v1/" in name]
    assert told == ["GET /v1/payments/{id}/feed", "GET /v1/feed"]


def test_each_operation_has_an_id_of_its_own() -> None:
    ids = [operation.id for operation in OPERATIONS.values()]
    assert len(set(ids)) == len(ids)


def test_a_route_has_the_parameters_of_its_operation() -> None:
    for path, names in (("/v1/transfers", ("matched", "cursor", "limit")), ("/v1/test/clock", ())):
        route, _ = match_route("GET", path)
        assert route is not None
        assert parameters_of(route) == names


async def test_a_slip_in_a_filter_does_not_list_everything(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/payments?staus=failed")
    assert (found.status, found.code) == (400, "invalid_params")
    assert "'staus'" in found.body["message"]


async def test_what_wallets_add_to_a_link_does_no_harm(shop: Shop) -> None:
    found = await shop.call("GET", f"/v1/gateway/payment/{await shop.pay()}?utm_source=wallet")
    assert found.status == 200
