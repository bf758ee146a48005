"""Settlements over REST: where money may go, and every reason why it may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.chains.assets import AssetBook
from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.core.caip import AccountId, AssetId
from payd.core.endpoint import NOTIFY
from payd.core.errors import ChainUnavailable, InvalidParams, ParamsValidation
from payd.core.option import Display
from payd.entropy import new_id
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import put_house_endpoint
from payd.web.commands import run_command
from payd.web.settlements import SettlementIn, check_destination, check_settlements
from tests.shop import (
    ETH_BASE,
    SOLANA,
    SOLANA_WALLET,
    USDC_BASE,
    USDC_SOLANA,
    USDT_MAINNET,
    WALLET,
    Got,
    Shop,
    open_shop,
)

BASE_WALLET = f"eip155:8453:{WALLET}"
LOWER = f"eip155:8453:{WALLET.lower()}"
CONTRACT = USDC_BASE.rpartition(":")[2]
MINT = USDC_SOLANA.rpartition(":")[2]


async def register(shop: Shop, *pairs: tuple[str, str], merchant: str = "", **more: str) -> Got:
    body = {"settlements": [{"asset": asset, "destination": destination} for asset, destination in pairs]}
    path = f"/v1/merchants/{merchant or shop.merchant_id}/settlements/crypto"
    return await shop.call(
        "POST", path, body, key=shop.key, idempotency_key=more.get("idempotency_key", new_id("k", 0))
    )


async def listed(shop: Shop, merchant: str = "") -> list[dict[str, str]]:
    found = await shop.call("GET", f"/v1/merchants/{merchant or shop.merchant_id}/settlements")
    return list(found.body["crypto"])


@pytest.fixture
async def bare(shop: Shop) -> Shop:
    """A shop whose merchant has no destination yet."""
    shop.merchant_id = await shop.new_merchant(pays=False)
    return shop


async def test_destinations_are_registered_together_and_echo_what_was_sent(bare: Shop) -> None:
    pairs = (
        (USDC_BASE, LOWER),
        (USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}"),
        ("tron:0x2b6653dc/trc20:TR7", "tron:0x2b6653dc:TX"),
    )
    made = await register(bare, *pairs)
    assert made.status == 201
    found = made.body["settlements"]
    assert [(one["asset"], one["destination"]) for one in found] == list(pairs)
    assert all(one.keys() == {"id", "asset", "destination"} for one in found)
    assert all(one["id"].startswith("crypto_") for one in found)
    assert await listed(bare) == found


async def test_creation_needs_an_idempotency_key(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto"
    bodies: tuple[dict[str, Any], ...] = ({"settlements": []}, {})
    for body in bodies:
        found = await shop.call("POST", path, body)
        assert (found.status, found.code) == (400, "missing_idempotency_key")
    found = await shop.call("POST", path, {"settlements": []}, idempotency_key="x" * 256)
    assert (found.status, found.code) == (400, "invalid_params")


async def test_one_to_fifty_at_once(bare: Shop) -> None:
    def some(count: int) -> list[tuple[str, str]]:
        return [
            (f"eip155:{number + 1}/slip44:60", f"eip155:{number + 1}:{WALLET}") for number in range(count)
        ]

    for count in (0, 51):
        found = await register(bare, *some(count))
        assert (found.status, found.code) == (400, "params_validation")
        assert found.body["issues"][0]["field"] == "settlements"
    assert (await register(bare, *some(50))).status == 201
    assert len(await listed(bare)) == 50


MALFORMED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"asset": USDC_BASE}, "settlements[0].destination"),
    ({"destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": 1, "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": USDC_BASE, "destination": None}, "settlements[0].destination"),
    ({"asset": "", "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": "x" * 257, "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": "USDC", "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": "eip155:8453", "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": "e:8453/erc20:0x1", "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": USDC_BASE + "\n", "destination": BASE_WALLET}, "settlements[0].asset"),
    ({"asset": USDC_BASE, "destination": ""}, "settlements[0].destination"),
    ({"asset": USDC_BASE, "destination": WALLET}, "settlements[0].destination"),
    ({"asset": USDC_BASE, "destination": f"eip155:8453:{'x' * 129}"}, "settlements[0].destination"),
    ({"asset": USDC_BASE, "destination": BASE_WALLET + "\n"}, "settlements[0].destination"),
)


async def test_what_misses_the_pattern_is_named_by_its_place(bare: Shop) -> None:
    path = f"/v1/merchants/{bare.merchant_id}/settlements/crypto"
    for item, field in MALFORMED:
        found = await bare.call("POST", path, {"settlements": [item]}, idempotency_key="k")
        assert (found.status, found.code) == (400, "params_validation"), item
        assert [issue["field"] for issue in found.body["issues"]] == [field], item
    assert await listed(bare) == []


IMPOSSIBLE = (
    ("another chain", USDC_BASE, f"eip155:1:{WALLET}"),
    ("another namespace", USDC_BASE, f"{SOLANA}:{SOLANA_WALLET}"),
    ("a wrong checksum", USDC_BASE, f"eip155:8453:{WALLET.replace('C5', 'c5')}"),
    ("all capitals", USDC_BASE, f"eip155:8453:0x{WALLET[2:].upper()}"),
    ("a short address", USDC_BASE, "eip155:8453:0x1234"),
    ("the zero address", USDC_BASE, "eip155:8453:0x" + "0" * 40),
    ("a precompile", ETH_BASE, "eip155:8453:0x0000000000000000000000000000000000000009"),
    ("the token's own contract", USDC_BASE, f"eip155:8453:{CONTRACT}"),
    ("a token that is not fungible", f"eip155:8453/erc721:{CONTRACT}", BASE_WALLET),
    ("a token of many kinds", f"eip155:8453/erc1155:{CONTRACT}", BASE_WALLET),
    ("the mint itself", USDC_SOLANA, f"{SOLANA}:{MINT}"),
    ("no base58", USDC_SOLANA, f"{SOLANA}:0OIl"),
    ("a Solana key of another length", USDC_SOLANA, f"{SOLANA}:abc"),
)


async def test_what_is_well_formed_and_cannot_be_is_refused(bare: Shop) -> None:
    for words, asset, destination in IMPOSSIBLE:
        found = await register(bare, (asset, destination))
        assert (found.status, found.code) == (400, "invalid_params"), words
        assert found.body["details"]["field"] == "settlements[0].destination"
    assert await listed(bare) == []


async def test_one_wrong_item_registers_none(bare: Shop) -> None:
    found = await register(bare, (ETH_BASE, BASE_WALLET), (USDC_BASE, f"eip155:8453:{CONTRACT}"))
    assert (found.status, found.body["details"]["field"]) == (400, "settlements[1].destination")
    assert await listed(bare) == []


SAME_ASSET = (
    (USDC_BASE, USDC_BASE, BASE_WALLET),
    (USDC_BASE, USDC_BASE.lower(), BASE_WALLET),
    (USDC_SOLANA, USDC_SOLANA.replace("/token:", "/spl:"), f"{SOLANA}:{SOLANA_WALLET}"),
    (USDC_SOLANA, f"solana:mainnet/token:{MINT}", f"solana:mainnet:{SOLANA_WALLET}"),
    ("eip155:56/slip44:714", "eip155:56/slip44:60", f"eip155:56:{WALLET}"),
)


async def test_an_asset_is_one_asset_however_it_is_spelled(shop: Shop) -> None:
    for first, second, destination in SAME_ASSET:
        merchant = await shop.new_merchant(pays=False)
        twice = await register(shop, (first, destination), (second, destination), merchant=merchant)
        assert (twice.status, twice.code) == (400, "params_validation"), second
        assert twice.body["issues"][0]["field"] == "settlements[1].asset"

        assert (await register(shop, (first, destination), merchant=merchant)).status == 201
        again = await register(shop, (ETH_BASE, BASE_WALLET), (second, destination), merchant=merchant)
        assert (again.status, again.code) == (409, "settlement_asset_conflict"), second
        assert [one["asset"] for one in await listed(shop, merchant)] == [first]


async def test_a_refused_conflict_can_be_sent_again_under_its_key_once_the_asset_is_free(shop: Shop) -> None:
    taken = (await listed(shop))[0]["id"]
    for expected in (409, 409):
        assert (await register(shop, (USDC_BASE, LOWER), idempotency_key="same")).status == expected
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{taken}")
    assert (await register(shop, (USDC_BASE, LOWER), idempotency_key="same")).status == 201


async def test_two_merchants_may_take_the_same_asset(shop: Shop) -> None:
    other = await shop.new_merchant(pays=False)
    assert (await register(shop, (USDC_BASE, BASE_WALLET), merchant=other)).status == 201


async def test_a_change_can_say_what_it_changes(shop: Shop) -> None:
    settlement = (await listed(shop))[0]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement['id']}"
    refused = await shop.call("PUT", path, {"destination": LOWER, "expected": LOWER})
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert await listed(shop) == [settlement]
    done = await shop.call("PUT", path, {"destination": LOWER, "expected": settlement["destination"]})
    assert done.status == 200


async def test_a_destination_is_changed_and_checked_like_a_new_one(shop: Shop) -> None:
    settlement = (await listed(shop))[0]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement['id']}"
    changed = await shop.call("PUT", path, {"destination": LOWER})
    assert (changed.status, changed.body) == (200, settlement | {"destination": LOWER})
    assert await listed(shop) == [settlement | {"destination": LOWER}]
    for words, asset, destination in IMPOSSIBLE:
        if asset == USDC_BASE:
            refused = await shop.call("PUT", path, {"destination": destination})
            assert (refused.status, refused.code) == (400, "invalid_params"), words
    for body, field in (
        ({}, "destination"),
        ({"destination": "x"}, "destination"),
        ({"destination": 1}, "destination"),
    ):
        refused = await shop.call("PUT", path, body)
        assert (refused.status, refused.code) == (400, "params_validation")
        assert refused.body["issues"][0]["field"] == field
    assert await listed(shop) == [settlement | {"destination": LOWER}]


async def test_a_change_is_audited_with_where_from_and_where_to(shop: Shop) -> None:
    settlement = (await listed(shop))[0]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement['id']}"
    await shop.call("PUT", path, {"destination": LOWER})
    await shop.call("DELETE", path)
    rows = await shop.realm.db.read(
        lambda tx: tx.execute(
            "SELECT act, actor, details FROM audit WHERE subject = ?", (settlement["id"],)
        ).fetchall()
    )
    acts = [(act, msgspec.json.decode(details)) for act, _, details in rows]
    assert [act for act, _ in acts] == ["settlement.create", "settlement.change", "settlement.delete"]
    assert (acts[1][1]["from"], acts[1][1]["to"]) == (settlement["destination"], LOWER)
    assert all(actor.startswith("key_") for _, actor, _ in rows)


async def test_a_deleted_settlement_is_gone_for_good(shop: Shop) -> None:
    settlement = (await listed(shop))[0]["id"]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}"
    deleted = await shop.call("DELETE", path)
    assert (deleted.status, deleted.body) == (200, {"id": settlement, "deleted": True})
    assert (await shop.call("DELETE", path)).code == "not_found"
    assert (await shop.call("PUT", path, {"destination": LOWER})).code == "not_found"
    assert await listed(shop) == []


async def test_a_settlement_of_another_merchant_is_not_under_this_one(shop: Shop) -> None:
    settlement = (await listed(shop))[0]["id"]
    other = await shop.new_merchant(pays=False)
    for method, body in (("PUT", {"destination": LOWER}), ("DELETE", None)):
        found = await shop.call(method, f"/v1/merchants/{other}/settlements/crypto/{settlement}", body)
        assert (found.status, found.code) == (404, "not_found")
    assert len(await listed(shop)) == 1


LOCAL_TOKEN = "eip155:8453/erc20:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
LIVE = f"""
[[chains]]
id = "eip155:8453"
rpc = ["https://node.example"]

[[assets]]
asset = "{LOCAL_TOKEN}"
symbol = "TUSD"
name = "Test Dollar"
decimals = 6
kind = "erc20"
"""


class Base(SimulatedChain):
    """One chain that shows the assets of a book, as a real one does."""

    def __init__(self, assets: AssetBook) -> None:
        super().__init__(1000, 1000, RateTable())
        self._assets = assets

    def serves(self, chain: str) -> bool:
        return chain == "eip155:8453"

    def display(self, asset: AssetId) -> Display | None:  # type: ignore[override]
        return self._assets.display(asset)


@dataclass
class LiveShop:
    shop: Shop
    key: str
    merchant: str

    async def register(self, *pairs: tuple[str, str]) -> Got:
        body = {"settlements": [{"asset": asset, "destination": destination} for asset, destination in pairs]}
        path = f"/v1/merchants/{self.merchant}/settlements/crypto"
        return await self.shop.call("POST", path, body, key=self.key, idempotency_key=new_id("k", 0))


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveShop]:
    """A shop whose live realm has Base, and an asset that the operator added."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "payd.toml").write_text(LIVE)
    async with open_shop(folder) as shop:
        realm = shop.house.realms["live"]
        realm.payments.chains = (Base(realm.assets),)
        key = shop.keys["live.one"]
        yield LiveShop(shop, key, await shop.new_merchant(key=key, pays=False))


async def test_a_live_destination_needs_a_chain_that_is_configured(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        key = shop.keys["live.one"]
        merchant = await shop.new_merchant(key=key, pays=False)
        found = await LiveShop(shop, key, merchant).register((USDT_MAINNET, f"eip155:1:{WALLET}"))
        assert (found.status, found.code) == (400, "invalid_params")
        assert "These work: none; payd.toml names them in [[chains]] and [[assets]]" in found.body["message"]


async def test_live_assets_are_those_that_are_known_on_a_configured_chain(live: LiveShop) -> None:
    pairs = ((USDC_BASE, BASE_WALLET), (LOCAL_TOKEN, BASE_WALLET))
    made = await live.register(*pairs)
    assert made.status == 201, made.body
    assert [one["asset"] for one in made.body["settlements"]] == [asset for asset, _ in pairs]


@pytest.mark.parametrize(
    ("asset", "destination"),
    [
        (USDT_MAINNET, f"eip155:1:{WALLET}"),
        (USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}"),
        ("eip155:8453/erc20:0x1111111111111111111111111111111111111111", BASE_WALLET),
        ("eip155:8453/slip44:1", BASE_WALLET),
    ],
    ids=["chain", "kind of chain", "token", "coin"],
)
async def test_what_nobody_could_pay_with_is_refused_with_what_works(
    live: LiveShop, asset: str, destination: str
) -> None:
    found = await live.register((ETH_BASE, BASE_WALLET), (asset, destination))
    assert (found.status, found.code) == (400, "invalid_params")
    assert found.body["details"]["field"] == "settlements[1].asset"
    working = found.body["message"].partition("These work: ")[2].removesuffix(".").split(", ")
    assert {USDC_BASE, ETH_BASE, LOCAL_TOKEN} <= set(working)
    assert {each.partition("/")[0] for each in working} == {"eip155:8453"}
    kept = await live.shop.call("GET", f"/v1/merchants/{live.merchant}/settlements", key=live.key)
    assert kept.body["crypto"] == []


async def test_the_checks_can_be_asked_without_a_request(shop: Shop) -> None:
    keys = check_settlements(
        shop.realm, [SettlementIn(USDC_BASE, BASE_WALLET), SettlementIn(ETH_BASE, BASE_WALLET)]
    )
    assert keys == [USDC_BASE.lower(), ETH_BASE]
    with pytest.raises(ParamsValidation) as refused:
        check_destination(USDC_BASE, "nowhere", "destination")
    assert refused.value.issues[0].field == "destination"


OTHER_WALLET = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"


class Solana(Base):
    """Solana, which shows of one address that it is a token account, unless its nodes are down."""

    is_down = False

    def serves(self, chain: str) -> bool:
        return chain == SOLANA

    async def destination_problem(self, asset: AssetId, destination: AccountId) -> str | None:
        await trio.lowlevel.checkpoint()
        if self.is_down:
            raise ChainUnavailable("3 nodes, 3 timeouts.")
        return "this is a token account; give its wallet" if destination.address == OTHER_WALLET else None


@pytest.fixture
async def on_solana(live: LiveShop) -> tuple[LiveShop, Solana]:
    """The same shop, on Solana as well."""
    realm = live.shop.house.realms["live"]
    chain = Solana(realm.assets)
    realm.payments.chains = (*realm.payments.chains, chain)
    return live, chain


async def kept(live: LiveShop) -> list[dict[str, str]]:
    found = await live.shop.call("GET", f"/v1/merchants/{live.merchant}/settlements", key=live.key)
    return list(found.body["crypto"])


async def change(live: LiveShop, settlement: dict[str, str], destination: str) -> Got:
    path = f"/v1/merchants/{live.merchant}/settlements/crypto/{settlement['id']}"
    return await live.shop.call("PUT", path, {"destination": destination}, key=live.key)


@pytest.mark.parametrize("chain", [SOLANA, "solana:mainnet"])
async def test_what_the_chain_itself_shows_to_be_wrong_is_refused(
    on_solana: tuple[LiveShop, Solana], chain: str
) -> None:
    live, _ = on_solana
    asset = f"{chain}/token:{MINT}"
    found = await live.register((USDC_BASE, BASE_WALLET), (asset, f"{chain}:{OTHER_WALLET}"))
    assert (found.status, found.code) == (400, "invalid_params")
    assert found.body["details"]["field"] == "settlements[1].destination"
    assert "a token account; give its wallet" in found.body["message"]
    assert await kept(live) == []

    assert (await live.register((asset, f"{chain}:{SOLANA_WALLET}"))).status == 201
    [settlement] = await kept(live)
    found = await change(live, settlement, f"{chain}:{OTHER_WALLET}")
    assert (found.status, found.code, found.body["details"]["field"]) == (
        400,
        "invalid_params",
        "destination",
    )
    assert await kept(live) == [settlement]


async def test_while_no_node_answers_nothing_is_registered_or_changed(
    on_solana: tuple[LiveShop, Solana],
) -> None:
    live, chain = on_solana
    assert (await live.register((USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}"))).status == 201
    before = await kept(live)
    chain.is_down = True
    pairs = ((USDC_BASE, BASE_WALLET), (f"{SOLANA}/slip44:501", f"{SOLANA}:{SOLANA_WALLET}"))
    for found in (await live.register(*pairs), await change(live, before[0], f"{SOLANA}:{OTHER_WALLET}")):
        assert (found.status, found.code) == (503, "internal_error")
        assert f"No node of {SOLANA} answers" in found.body["message"]
        assert "Nothing was stored; try again." in found.body["message"]
        assert found.headers["retry-after"] == "5"
    assert await kept(live) == before


async def test_a_repeated_registration_is_answered_while_no_node_is_and_when_all_of_it_is_gone(
    on_solana: tuple[LiveShop, Solana],
) -> None:
    live, chain = on_solana
    other = [await live.shop.new_merchant(key=live.key, pays=False)]
    limited = await live.shop.new_key(realm="live", merchants=other)
    body = {"settlements": [{"asset": USDC_SOLANA, "destination": f"{SOLANA}:{SOLANA_WALLET}"}]}
    path = f"/v1/merchants/{live.merchant}"

    async def ask(key: str) -> Got:
        where = f"{path}/settlements/crypto"
        return await live.shop.call("POST", where, body, key=key, idempotency_key="once")

    answers = [await ask(live.key)]
    chain.is_down = True
    answers.append(await ask(live.key))
    live.shop.house.realms["live"].payments.chains = ()
    answers.append(await ask(live.key))
    assert (await live.shop.call("DELETE", path, key=live.key)).status == 200
    answers.append(await ask(live.key))
    assert [(one.status, one.raw) for one in answers] == 4 * [(201, answers[0].raw)]
    assert (await ask(limited)).code == "forbidden"


async def test_an_operator_is_told_the_same(on_solana: tuple[LiveShop, Solana]) -> None:
    live, chain = on_solana
    args = {"mode": "live", "account": live.shop.account_id, "merchant": live.merchant}
    args |= {"asset": USDC_SOLANA, "destination": f"{SOLANA}:{OTHER_WALLET}"}
    with pytest.raises(InvalidParams, match="a token account; give its wallet"):
        await run_command(live.shop.house, "destination.add", msgspec.json.encode(args))
    chain.is_down = True
    with pytest.raises(ChainUnavailable, match="Nothing was stored"):
        await run_command(live.shop.house, "destination.add", msgspec.json.encode(args))
    assert await kept(live) == []


async def test_a_destination_on_a_chain_that_is_off_can_still_be_changed(
    on_solana: tuple[LiveShop, Solana],
) -> None:
    live, _ = on_solana
    assert (await live.register((USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}"))).status == 201
    live.shop.house.realms["live"].payments.chains = ()
    [settlement] = await kept(live)
    assert (await change(live, settlement, f"{SOLANA}:{OTHER_WALLET}")).status == 200


async def test_a_live_change_is_told_to_the_operator_and_one_in_test_mode_is_not(live: LiveShop) -> None:
    for realm in live.shop.house.realms.values():
        await realm.db.write(put_house_endpoint, NOTIFY, "https://ops.example/", b"sealed", 0)
    assert (await live.register((USDC_BASE, BASE_WALLET))).status == 201
    [settlement] = await kept(live)
    assert (await change(live, settlement, LOWER)).status == 200
    owed = live.shop.house.realms["live"].db.point(list_deliveries, NOTIFY, limit=9)
    assert [row.event_type for row in owed] == ["destination.changed"]
    [own] = await listed(live.shop)
    path = f"/v1/merchants/{live.shop.merchant_id}/settlements/crypto/{own['id']}"
    assert (await live.shop.call("PUT", path, {"destination": LOWER})).status == 200
    assert live.shop.realm.db.point(list_deliveries, NOTIFY, limit=9) == []
