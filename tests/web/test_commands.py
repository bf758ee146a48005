"""What an operator can do by name, on a whole house: it does what it says, and refuses in words that help."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.feed import LEASE_S, Bell, Listener
from payd.config import load
from payd.core.errors import InvalidParams, NotFound, PaydError
from payd.core.ids import hash_api_key
from payd.core.signature import key_of
from payd.server import open_house
from payd.store.apps import find_app
from payd.store.keys import SCOPES, find_key
from payd.web.call import Request
from payd.web.commands import COMMANDS, run_command
from payd.web.cursor import encode_cursor
from payd.web.dispatch import answer
from payd.web.house import House
from payd.web.webhook_commands import DELIVERIES_SHOWN
from tests.shop import open_shop
from tests.virtual_wall import VirtualWall

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
WALLET = "eip155:8453:0x1111111111111111111111111111111111111111"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    env = {
        "PAYD_DATA_DIR": str(tmp_path / "data"),
        "PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "true",
        "PAYD_WEBHOOKS_TEST_ALLOW_NETWORKS": "127.0.0.0/8",
    }
    async with open_house(load(None, env), inline=True, wall=VirtualWall()) as opened:
        yield opened


async def do(house: House, command: str, **args: Any) -> Any:
    return msgspec.to_builtins(await run_command(house, command, msgspec.json.encode(args)))


def audit(house: House) -> list[tuple[str, str, str]]:
    rows = house.realms["test"].db.point(
        lambda tx: tx.execute("SELECT actor, act, subject FROM audit WHERE actor <> 'server'").fetchall()
    )
    return [tuple(row) for row in rows]


async def test_an_account_is_made_and_listed_and_known_to_the_doors_at_once(house: House) -> None:
    made = await do(house, "account.create", name="main")
    assert made["id"].startswith("acct_")
    assert made["apiVersion"] == "2026-02-18"
    assert made["createdAt"].endswith("Z")
    assert await do(house, "account.list") == [made]
    assert house.accounts[made["id"]].name == "main"


async def test_a_taken_name_is_refused(house: House) -> None:
    await do(house, "account.create", name="main")
    with pytest.raises(InvalidParams, match="an account named main"):
        await do(house, "account.create", name="main")


async def test_a_key_is_shown_once_and_opens_its_realm(house: House) -> None:
    account = await do(house, "account.create", name="main")
    made = await do(house, "key.create", name="backend")
    assert made["apiKey"].startswith("svc_test_")
    assert (made["mode"], made["accountId"], made["scopes"]) == ("test", account["id"], list(SCOPES))
    found = house.realms["test"].db.point(find_key, hash_api_key(made["apiKey"]))
    assert found is not None
    assert found.id == made["id"]
    [listed] = await do(house, "key.list")
    assert "apiKey" not in listed
    assert listed == {name: value for name, value in made.items() if name != "apiKey"}


async def test_a_revoked_key_opens_nothing(house: House) -> None:
    await do(house, "account.create", name="main")
    made = await do(house, "key.create")
    bell = Bell()
    house.realms["test"].account_feed.subscribe(made["accountId"], Listener(bell.wake))
    revoked = await do(house, "key.revoke", id=made["id"])
    await bell.wait()
    assert revoked["revokedAt"] is not None
    assert house.realms["test"].db.point(find_key, hash_api_key(made["apiKey"])) is None
    assert [act for _, act, _ in audit(house)] == ["key.create", "key.revoke"]


async def test_a_key_is_limited_to_what_was_asked(house: House) -> None:
    await do(house, "account.create", name="main")
    merchant = await do(house, "merchant.create", name="Shop", email="shop@example.com")
    made = await do(house, "key.create", scopes=["payments:read"], merchants=[merchant["id"]])
    assert (made["scopes"], made["merchants"]) == (["payments:read"], [merchant["id"]])


async def test_a_live_key_is_refused_with_what_to_do_instead_while_there_is_no_chain(house: House) -> None:
    await do(house, "account.create", name="main")
    with pytest.raises(InvalidParams, match=r"no chain is configured.*--mode test"):
        await do(house, "key.create", mode="live")


async def test_a_live_key_needs_a_chain_even_where_live_payments_are_left(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        with pytest.raises(InvalidParams, match=r"no chain configured.*\[\[chains\]\].*--mode test"):
            await do(shop.house, "key.create", mode="live", account=shop.account_id)
        opened = await do(shop.house, "listen.open", mode="live", account=shop.account_id)
        assert opened["apiKey"].startswith("svc_"), "what is left can still be listened to"

        live = shop.house.realms["live"]
        live.payments.chains = shop.realm.payments.chains
        made = await do(shop.house, "key.create", mode="live", account=shop.account_id)
        found = live.db.point(find_key, hash_api_key(made["apiKey"]))
        assert found is not None
        assert found.id == made["id"]


async def test_an_app_id_is_made_listed_and_revoked(house: House) -> None:
    await do(house, "account.create", name="main")
    made = await do(house, "app.create", name="Wallet")
    assert made["appId"].startswith("app_t")
    assert house.realms["test"].db.point(find_app, made["appId"]) is not None
    assert await do(house, "app.list") == [made]
    assert (await do(house, "app.revoke", id=made["appId"]))["revokedAt"] is not None
    assert house.realms["test"].db.point(find_app, made["appId"]) is None


async def test_the_only_account_goes_unsaid_and_one_of_several_must_be_named(house: House) -> None:
    with pytest.raises(NotFound, match="payd account create"):
        await do(house, "key.list")
    one = await do(house, "account.create", name="one")
    await do(house, "key.create")
    await do(house, "account.create", name="two")
    with pytest.raises(InvalidParams, match="--account"):
        await do(house, "key.list")
    assert len(await do(house, "key.list", account="one")) == 1
    assert len(await do(house, "key.list", account=one["id"])) == 1
    assert await do(house, "key.list", account="two") == []


async def test_a_merchant_gets_its_destinations(house: House) -> None:
    await do(house, "account.create", name="main")
    merchant = await do(house, "merchant.create", name="Shop", email="shop@example.com")
    assert (await do(house, "merchant.list"))[0]["id"] == merchant["id"]
    made = await do(house, "destination.add", merchant=merchant["id"], asset=USDC, destination=WALLET)
    assert made["id"].startswith("crypto_")
    assert await do(house, "destination.list", merchant=merchant["id"]) == [made]
    assert ("cli", "settlement.create", made["id"]) in audit(house)


async def test_more_merchants_than_one_page_are_all_listed(house: House) -> None:
    await do(house, "account.create", name="main")
    for n in range(101):
        await do(house, "merchant.create", name=f"Shop {n}", email="shop@example.com")
    assert len({merchant["id"] for merchant in await do(house, "merchant.list")}) == 101


async def test_the_apis_own_checks_hold_for_the_operator(house: House) -> None:
    await do(house, "account.create", name="main")
    with pytest.raises(PaydError, match="merchantEmail"):
        await do(house, "merchant.create", name="Shop", email="nobody")
    merchant = await do(house, "merchant.create", name="Shop", email="shop@example.com")
    with pytest.raises(PaydError, match="destination"):
        await do(house, "destination.add", merchant=merchant["id"], asset=USDC, destination="eip155:1:0x0")
    with pytest.raises(NotFound):
        await do(house, "destination.list", merchant="mrch_unknown")


async def test_nobody_sees_another_accounts_merchant(house: House) -> None:
    await do(house, "account.create", name="one")
    merchant = await do(house, "merchant.create", name="Shop", email="shop@example.com")
    await do(house, "account.create", name="two")
    with pytest.raises(NotFound):
        await do(house, "destination.list", merchant=merchant["id"], account="two")
    assert await do(house, "merchant.list", account="two") == []


async def test_a_webhook_endpoint_lives_its_life(house: House) -> None:
    await do(house, "account.create", name="main")
    with pytest.raises(NotFound):
        await do(house, "webhook.show")
    made = await do(house, "webhook.set", url="http://127.0.0.1:9/hook")
    assert made["secret"].startswith("whsec_")
    assert len(made["events"]) == 7
    changed = await do(house, "webhook.set", url="http://127.0.0.1:9/other", events=["payment.succeeded"])
    assert (changed["id"], changed["secret"]) == (made["id"], made["secret"]), "the same one, not rotated"
    assert changed["events"] == ["payment.succeeded"]
    assert "secret" not in await do(house, "webhook.show")
    rotated = await do(house, "webhook.rotate")
    assert rotated["secret"] not in ("", made["secret"])
    assert (await do(house, "webhook.reveal"))["secret"] == rotated["secret"]
    assert (await do(house, "webhook.disable"))["state"] == "disabled"
    assert (await do(house, "webhook.enable"))["state"] == "enabled"
    await do(house, "webhook.delete")
    with pytest.raises(NotFound):
        await do(house, "webhook.show")


async def test_the_last_deliveries_are_listed_newest_first(house: House) -> None:
    await do(house, "account.create", name="main")
    assert await do(house, "webhook.deliveries") == {"data": [], "nextCursor": None}
    await do(house, "webhook.set", url="http://127.0.0.1:9/hook")
    merchant = await do(house, "merchant.create", name="Shop", email="shop@example.com")
    await do(house, "destination.add", merchant=merchant["id"], asset=USDC, destination=WALLET)
    key = (await do(house, "key.create"))["apiKey"]
    headers = {"api-key": key, "merchant-id": merchant["id"], "content-type": "application/json"}
    newest = ""
    for n in range(DELIVERIES_SHOWN + 1):
        body = {"referenceId": f"O-{n}", "amount": {"unit": "iso4217/USD", "value": "100"}}
        made = await answer(
            house,
            Request(
                "POST",
                "/v1/payments",
                headers=headers,
                body=msgspec.json.encode(body),
                client_ip="127.0.0.1",
            ),
        )
        assert made.status == 201
        newest = msgspec.json.decode(made.body)["paymentId"]
    listed = (await do(house, "webhook.deliveries"))["data"]
    assert len(listed) == DELIVERIES_SHOWN
    assert listed[0]["paymentId"] == newest
    assert (listed[0]["eventType"], listed[0]["state"]) == ("payment.created", "pending")


async def test_a_listener_gets_a_key_that_reads_events_and_nothing_else(house: House) -> None:
    account = await do(house, "account.create", name="main")
    opened = await do(house, "listen.open")
    [key] = await do(house, "key.list")
    assert (key["id"], key["name"], key["scopes"]) == (opened["keyId"], "payd listen", ["webhooks:read"])
    assert (opened["accountId"], opened["accountName"]) == (account["id"], "main")
    assert opened["url"] == house.base_url
    assert opened["cursor"] == encode_cursor(0)
    found = house.realms["test"].db.point(find_key, hash_api_key(opened["apiKey"]))
    assert found is not None
    assert found.id == key["id"]
    await do(house, "key.revoke", id=opened["keyId"])
    assert house.realms["test"].db.point(find_key, hash_api_key(opened["apiKey"])) is None


async def test_the_next_listener_ends_the_keys_of_those_that_were_killed(house: House) -> None:
    await do(house, "account.create", name="main")
    killed = await do(house, "listen.open")
    await do(house, "listen.open")
    assert [key["revokedAt"] for key in await do(house, "key.list")] == [None, None]
    await trio.sleep(LEASE_S)
    last = await do(house, "listen.open")
    assert [key["id"] for key in await do(house, "key.list") if key["revokedAt"] is None] == [last["keyId"]]
    assert house.realms["test"].db.point(find_key, hash_api_key(killed["apiKey"])) is None


async def test_a_listener_signs_as_the_endpoint_does_or_always_the_same(house: House) -> None:
    account = await do(house, "account.create", name="main")
    own = (await do(house, "listen.open"))["secret"]
    assert key_of(own) == house.realms["test"].seal.derive(f"listen:{account['id']}")
    assert await do(house, "listen.secret") == {"url": house.base_url, "secret": own, "secrets": [own]}
    endpoint = await do(house, "webhook.set", url="http://127.0.0.1:9/hook")
    assert (await do(house, "listen.open"))["secret"] == endpoint["secret"]
    rotated = await do(house, "webhook.rotate")
    assert (await do(house, "listen.secret"))["secret"] == rotated["secret"] != endpoint["secret"]
    both = [rotated["secret"], endpoint["secret"]]
    assert (await do(house, "listen.open"))["secrets"] == both, "as real deliveries are signed"
    await do(house, "webhook.delete")
    assert (await do(house, "listen.secret"))["secret"] == own
    await do(house, "account.create", name="other")
    assert (await do(house, "listen.secret", account="other"))["secret"] != own


async def test_a_refused_address_names_the_key_to_set(house: House) -> None:
    await do(house, "account.create", name="main")
    with pytest.raises(PaydError, match=r"webhooks\.test"):
        await do(house, "webhook.set", url="http://10.0.0.1/hook")


async def test_status_tells_where_the_server_is_and_how_its_stores_are(house: House) -> None:
    status = await do(house, "status")
    assert status["baseUrl"] == house.base_url
    assert status["realms"]["test"]["healthy"] is True
    assert set(status["realms"]) == {"test"}


async def test_an_unknown_command_is_refused(house: House) -> None:
    with pytest.raises(InvalidParams, match="no command 'key\\.steal'"):
        await do(house, "key.steal")


@pytest.mark.parametrize(
    ("command", "args", "words"),
    [
        ("account.create", {}, "name"),
        ("account.create", {"name": 5}, "Expected `str`"),
        ("key.create", {"scope": ["test"]}, "unknown field"),
        ("key.create", {"mode": "prod"}, "mode"),
        ("key.revoke", {}, "id"),
        ("webhook.set", {}, "url"),
    ],
)
async def test_arguments_are_the_commands_own_and_of_the_right_type(
    house: House, command: str, args: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidParams, match=words):
        await do(house, command, **args)


async def test_arguments_that_are_no_json_are_refused(house: House) -> None:
    with pytest.raises(InvalidParams, match=r"account\.create: "):
        await run_command(house, "account.create", b"{")


def test_what_only_looks_is_no_news_for_the_log() -> None:
    looks = {name for name, command in COMMANDS.items() if not command.changes}
    webhooks = {"show", "origins", "deliveries", "delivery", "jobs", "job", "watch", "explain"}
    nouns = ("account", "key", "app", "merchant", "destination", "user", "payment")
    lists = {f"{noun}.list" for noun in nouns}
    assert looks == {
        "status",
        "backup.progress",
        "notify.show",
        "payment.show",
        "clock.watch",
        *(f"{noun}.show" for noun in ("clock", "event", "sample")),
        *(f"{noun}.list" for noun in ("event", "fault", "log", "scenario")),
        "log.follow",
        *lists,
        *(f"webhook.{name}" for name in webhooks),
    }


def test_only_what_long_lived_tasks_do_needs_a_server() -> None:
    webhooks = {"test", "resend", "recover", "replay-missing", "watch"}
    needy = {name for name, command in COMMANDS.items() if command.needs_server}
    others = {"status", "listen.open", "notify.test", "payment.match", "log.follow"}
    others |= {"payment.simulate", "clock.advance", "clock.watch", "scenario.run", "fixture.call"}
    others |= {"backup.make", "backup.progress", "backup.stop"}
    assert needy == others | {f"webhook.{name}" for name in webhooks}
