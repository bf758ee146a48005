"""Every route is described or left out with a reason; and its query has the parameters that are described."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams
from payd.web.openapi.service import NOT_DESCRIBED
from payd.web.openapi.table import OPERATIONS, check_parameters, name_of, parameters_of
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


def test_a_parameter_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    route, _ = match_route("GET", "/v1/transfers")
    assert route is not None
    assert parameters_of(route) == ("matched", "cursor", "limit")
    check_parameters(route, {"limit": ["1"], "matched": ["true"]})
    with pytest.raises(InvalidParams, match=r"no parameter 'limt' here; there are matched, cursor, limit\."):
        check_parameters(route, {"limt": ["1"]})
    route, _ = match_route("GET", "/v1/test/clock")
    assert route is not None
    with pytest.raises(InvalidParams, match="there are none"):
        check_parameters(route, {"a": ["1"]})


async def test_a_slip_in_a_filter_does_not_list_everything(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/payments?staus=failed")
    assert (found.status, found.code) == (400, "invalid_params")
    assert "'staus'" in found.body["message"]


async def test_what_wallets_add_to_a_link_does_no_harm(shop: Shop) -> None:
    found = await shop.call("GET", f"/v1/gateway/payment/{await shop.pay()}?utm_source=wallet")
    assert found.status == 200
