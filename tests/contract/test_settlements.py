"""Settlement destinations: where a merchant's assets go.

Source: SPEC.md, "Crypto settlement"
"""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.contract.outside import (
    ETHER,
    ID_REST,
    SOLANA,
    SOLANA_MINT,
    SOLANA_USDC,
    SOLANA_WALLET,
    USDC,
    WALLET,
    Shop,
    assert_misses_schema,
    assert_refused,
    ok,
)

BASE = "eip155:8453"
CHECKSUMMED = f"{BASE}:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
WRONG_CHECKSUM = f"{BASE}:0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def register(shop: Shop, merchant_id: str, *pairs: tuple[str, str]) -> httpx.Response:
    """POST destinations for a merchant."""
    body = {"settlements": [{"asset": asset, "destination": destination} for asset, destination in pairs]}
    return shop.api.once(f"/v1/merchants/{merchant_id}/settlements/crypto", body)


def registered(shop: Shop, merchant_id: str) -> Any:
    return ok(shop.api.get(f"/v1/merchants/{merchant_id}/settlements"))["crypto"]


@pytest.fixture
def bare(shop: Shop) -> str:
    """A merchant without destinations."""
    body = {"merchantName": "Bare", "merchantEmail": "bare@shop.example"}
    return str(ok(shop.api.once("/v1/merchants", body), 201)["merchant"]["id"])


def test_creation_answers_201_and_echoes_what_was_sent(shop: Shop, bare: str) -> None:
    body = ok(register(shop, bare, (USDC, CHECKSUMMED), (SOLANA_USDC, SOLANA_WALLET)), 201)
    assert set(body) == {"settlements"}
    for item, sent in zip(
        body["settlements"], [(USDC, CHECKSUMMED), (SOLANA_USDC, SOLANA_WALLET)], strict=True
    ):
        assert set(item) == {"id", "asset", "destination"}
        assert re.fullmatch(f"crypto_{ID_REST}", item["id"])
        assert (item["asset"], item["destination"]) == sent
    listed = ok(shop.api.get(f"/v1/merchants/{bare}/settlements"))
    assert set(listed) == {"crypto", "fiat"}
    assert listed["fiat"] == []
    assert sorted(item["id"] for item in listed["crypto"]) == sorted(i["id"] for i in body["settlements"])
    assert {"id", "asset", "destination"} <= set(listed["crypto"][0])


def test_a_request_has_1_to_50_destinations(shop: Shop, bare: str) -> None:
    def pairs(count: int) -> list[tuple[str, str]]:
        return [
            (f"eip155:{n}/slip44:60", WALLET.replace("8453", str(n))) for n in range(100_000, 100_000 + count)
        ]

    assert_misses_schema(register(shop, bare), "settlements")
    assert_misses_schema(register(shop, bare, *pairs(51)), "settlements")
    assert len(ok(register(shop, bare, *pairs(50)), 201)["settlements"]) == 50


@pytest.mark.parametrize(
    "body", [{}, {"settlements": None}, {"settlements": {}}, {"settlements": [7]}, {"settlements": "x"}]
)
def test_a_body_without_a_list_of_pairs_misses_the_schema(shop: Shop, bare: str, body: object) -> None:
    assert_misses_schema(shop.api.once(f"/v1/merchants/{bare}/settlements/crypto", body), "settlements")


@pytest.mark.parametrize(
    ("asset", "destination", "field"),
    [
        ("", WALLET, "asset"),
        ("usdc", WALLET, "asset"),
        ("eip155:8453", WALLET, "asset"),
        (USDC + "/1", WALLET, "asset"),
        ("eip155:8453/erc20:" + "a" * 129, WALLET, "asset"),
        ("a" * 257, WALLET, "asset"),
        (7, WALLET, "asset"),
        (None, WALLET, "asset"),
        (USDC, "", "destination"),
        (USDC, WALLET.rpartition(":")[2], "destination"),
        (USDC, "eip155:8453:" + "a" * 129, "destination"),
        (USDC, "a" * 257, "destination"),
        (USDC, WALLET + " ", "destination"),
        (USDC, 7, "destination"),
        (USDC, None, "destination"),
    ],
)
def test_what_misses_the_pattern_is_named(
    shop: Shop, bare: str, asset: Any, destination: Any, field: str
) -> None:
    assert_misses_schema(register(shop, bare, (asset, destination)), field)
    assert registered(shop, bare) == []


@pytest.mark.parametrize(
    ("asset", "destination"),
    [
        pytest.param(USDC, WALLET.replace("8453", "1"), id="another chain"),
        pytest.param(USDC, SOLANA_WALLET, id="another namespace"),
        pytest.param(USDC, WRONG_CHECKSUM, id="wrong checksum"),
        pytest.param(USDC, f"{BASE}:0x{'0' * 40}", id="zero address"),
        pytest.param(USDC, f"{BASE}:0x{'0' * 39}1", id="precompile"),
        pytest.param(USDC, f"{BASE}:0x{'0' * 39}9", id="last old precompile"),
        pytest.param(USDC, f"{BASE}:0x1234", id="short address"),
        pytest.param(USDC, f"{BASE}:{'g' * 42}", id="no hex"),
        pytest.param(USDC, f"{BASE}:{USDC.rpartition(':')[2]}", id="the asset's own contract"),
        pytest.param(USDC, f"{BASE}:{USDC.rpartition(':')[2].lower()}", id="the same in lower case"),
        pytest.param(USDC.replace("erc20", "erc721"), WALLET, id="erc721"),
        pytest.param(USDC.replace("erc20", "erc1155"), WALLET, id="erc1155"),
        pytest.param(SOLANA_USDC, f"{SOLANA}:{SOLANA_MINT}", id="a mint"),
        pytest.param(SOLANA_USDC, f"{SOLANA}:abc", id="short key"),
    ],
)
def test_what_cannot_be_a_destination_is_invalid_params(
    shop: Shop, bare: str, asset: str, destination: str
) -> None:
    assert_refused(register(shop, bare, (asset, destination)), 400, "invalid_params")
    assert registered(shop, bare) == []


def test_lower_case_needs_no_checksum(shop: Shop, bare: str) -> None:
    made = ok(register(shop, bare, (USDC, CHECKSUMMED.lower())), 201)["settlements"]
    assert made[0]["destination"] == CHECKSUMMED.lower()


def test_an_asset_of_no_table_is_welcome_in_test_mode(shop: Shop, bare: str) -> None:
    asset = f"eip155:424242/erc20:0x{'ab' * 20}"
    ok(register(shop, bare, (asset, WALLET.replace("8453", "424242"))), 201)
    assert [item["asset"] for item in registered(shop, bare)] == [asset]


def test_an_asset_twice_for_a_merchant_conflicts_in_any_case_of_letters(shop: Shop, bare: str) -> None:
    ok(register(shop, bare, (USDC, WALLET)), 201)
    assert_refused(register(shop, bare, (USDC, CHECKSUMMED)), 409, "settlement_asset_conflict")
    assert_refused(register(shop, bare, (USDC.lower(), WALLET)), 409, "settlement_asset_conflict")


def test_an_asset_twice_in_a_request_misses_the_schema(shop: Shop, bare: str) -> None:
    for twin in (USDC, USDC.lower()):
        assert_refused(register(shop, bare, (USDC, WALLET), (twin, CHECKSUMMED)), 400, "params_validation")
    assert registered(shop, bare) == []


def test_creation_is_all_or_nothing(shop: Shop, bare: str) -> None:
    ok(register(shop, bare, (USDC, WALLET)), 201)
    assert_refused(register(shop, bare, (ETHER, WALLET), (USDC, WALLET)), 409, "settlement_asset_conflict")
    assert_refused(register(shop, bare, (ETHER, WALLET), (SOLANA_USDC, WALLET)), 400, "invalid_params")
    assert [item["asset"] for item in registered(shop, bare)] == [USDC]


def test_creation_needs_an_idempotency_key_and_replays_it(shop: Shop, bare: str) -> None:
    path = f"/v1/merchants/{bare}/settlements/crypto"
    body = {"settlements": [{"asset": USDC, "destination": WALLET}]}
    assert_refused(shop.api.post(path, body), 400, "missing_idempotency_key")
    assert_refused(shop.api.once(path, body, "k" * 256), 400, "invalid_params")
    first = shop.api.once(path, body, "settle")
    assert ok(shop.api.once(path, body, "settle"), 201) == ok(first, 201)
    changed = {"settlements": [{"asset": ETHER, "destination": WALLET}]}
    assert_refused(shop.api.once(path, changed, "settle"), 409, "idempotency_conflict")


def test_the_scope_of_a_key_is_one_path(shop: Shop, bare: str) -> None:
    second = shop.merchant("Elsewhere", (ETHER, WALLET))
    body = {"settlements": [{"asset": USDC, "destination": WALLET}]}
    for merchant_id in (bare, second):
        ok(shop.api.once(f"/v1/merchants/{merchant_id}/settlements/crypto", body, "same key"), 201)
        assert USDC in [item["asset"] for item in registered(shop, merchant_id)]


def test_a_destination_is_changed_in_place(shop: Shop, bare: str) -> None:
    settlement_id = ok(register(shop, bare, (USDC, WALLET)), 201)["settlements"][0]["id"]
    path = f"/v1/merchants/{bare}/settlements/crypto/{settlement_id}"
    changed = ok(shop.api.put(path, {"destination": CHECKSUMMED}))
    assert changed == {"id": settlement_id, "asset": USDC, "destination": CHECKSUMMED}
    assert [item["destination"] for item in registered(shop, bare)] == [CHECKSUMMED]
    for bad in (WALLET.replace("8453", "1"), WRONG_CHECKSUM, f"{BASE}:0x{'0' * 40}"):
        assert_refused(shop.api.put(path, {"destination": bad}), 400, "invalid_params")
    for malformed in ("", 7, "0x12"):
        assert_misses_schema(shop.api.put(path, {"destination": malformed}), "destination")
    assert_misses_schema(shop.api.put(path, {}), "destination")


def test_a_deleted_destination_makes_room_for_another(shop: Shop, bare: str) -> None:
    settlement_id = ok(register(shop, bare, (USDC, WALLET)), 201)["settlements"][0]["id"]
    path = f"/v1/merchants/{bare}/settlements/crypto/{settlement_id}"
    assert ok(shop.api.delete(path)) == {"id": settlement_id, "deleted": True}
    assert registered(shop, bare) == []
    ok(register(shop, bare, (USDC, CHECKSUMMED)), 201)


def test_what_belongs_to_nobody_or_another_account_is_not_found(shop: Shop, other: Shop, bare: str) -> None:
    theirs = other.merchant()
    for merchant_id in ("mrch_" + "0" * 36, "nonsense", theirs):
        assert_refused(register(shop, merchant_id, (USDC, WALLET)), 404, "not_found")
        assert_refused(shop.api.get(f"/v1/merchants/{merchant_id}/settlements"), 404, "not_found")
    mine = ok(register(shop, bare, (USDC, WALLET)), 201)["settlements"][0]["id"]
    for path in (
        f"/v1/merchants/{bare}/settlements/crypto/crypto_{'0' * 36}",
        f"/v1/merchants/{theirs}/settlements/crypto/{mine}",
        f"/v1/merchants/{shop.merchant()}/settlements/crypto/{mine}",
    ):
        assert_refused(shop.api.put(path, {"destination": CHECKSUMMED}), 404, "not_found")
        assert_refused(shop.api.delete(path), 404, "not_found")
