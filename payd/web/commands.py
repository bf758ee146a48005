"""What an operator can do, by name. Merchants and webhooks are done by the API's own handlers.

Every door for operators (the socket, the command line on a stopped server) runs these same commands.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import msgspec

import payd
from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.core.version import DEFAULT
from payd.entropy import new_id
from payd.store.accounts import Account, choose_account, insert_account, list_accounts
from payd.store.apps import App, insert_app, list_apps, revoke_app
from payd.store.keys import SCOPES, Key, insert_key, list_keys, revoke_key
from payd.web.auth import Caller
from payd.web.call import JSON_TYPE, Call, Request
from payd.web.routes import match_route

if TYPE_CHECKING:
    from payd.web.house import House, Realm

ACTOR: Final = "cli"
"""Who the audit says it was."""

LIST_MAX: Final = 10_000  # merchants in one answer; more are for the API and its pages

DELIVERIES_SHOWN: Final = 20  # the newest: a screen; more are for the API and its pages

Mode = Literal["test", "live"]


class Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a command."""


class _AccountCreate(Args, frozen=True):
    name: str


class _OfMode(Args, frozen=True, kw_only=True):
    """What all commands on a realm take. `account` is an id or a name; where there is one, it goes unsaid."""

    mode: Mode = "test"
    account: str | None = None


class _KeyCreate(_OfMode, frozen=True, kw_only=True):
    name: str = "unnamed"
    scopes: list[str] | None = None
    merchants: list[str] | None = None


class _Named(_OfMode, frozen=True, kw_only=True):
    name: str


class _OfId(_OfMode, frozen=True, kw_only=True):
    id: str


class _MerchantCreate(_OfMode, frozen=True, kw_only=True):
    name: str
    email: str


class _Destinations(_OfMode, frozen=True, kw_only=True):
    merchant: str


class _DestinationAdd(_Destinations, frozen=True, kw_only=True):
    asset: str
    destination: str


class _WebhookSet(_OfMode, frozen=True, kw_only=True):
    url: str
    events: list[str] | None = None


class _WebhookTest(_OfMode, frozen=True, kw_only=True):
    type: str = "payment.succeeded"


class _AccountWire(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    name: str
    api_version: str
    created_at: str


class _KeyWire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A key; `api_key` is there once, when it was made."""

    id: str
    account_id: str
    mode: Mode
    name: str
    prefix: str
    last4: str
    scopes: list[str]
    merchants: list[str] | None
    created_at: str
    revoked_at: str | None
    api_key: str | None = None


class _AppWire(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str
    account_id: str | None
    mode: Mode
    name: str
    created_at: str
    revoked_at: str | None


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it takes and what it does. It raises `PaydError` to refuse.

    `needs_server` is for what the long-lived tasks do: with the stores alone open it would never be done.
    """

    args: type[Args]
    run: Callable[[House, Any], Awaitable[Any]]
    needs_server: bool = False


async def run_command(house: House, name: str, args: bytes | msgspec.Raw) -> Any:
    """Do a command by its name.

    Args:
        house: The house.
        name: A key of `COMMANDS`.
        args: Its arguments, a JSON object.

    Returns:
        What can be encoded as JSON.

    Raises:
        InvalidParams: There is no such command, or the arguments are not its own.
        PaydError: It is refused.
    """
    command = COMMANDS.get(name)
    if command is None:
        raise InvalidParams(
            f"There is no command {name!r}. Is the server of another version than this program?"
        )
    try:
        decoded = msgspec.json.decode(args, type=command.args)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"{name}: {error}") from None
    return await command.run(house, decoded)


async def _account_create(house: House, args: _AccountCreate) -> _AccountWire:
    now_ms = _real_ms(house)
    made = Account(new_id("acct_", now_ms, house.entropy), args.name, DEFAULT, now_ms)
    account = await house.office.write(insert_account, made)
    house.accounts[account.id] = account
    return _account_wire(account)


async def _account_list(house: House, _args: Args) -> list[_AccountWire]:
    return [_account_wire(account) for account in await house.office.read(list_accounts)]


async def _key_create(house: House, args: _KeyCreate) -> _KeyWire:
    realm, account = _realm(house, args.mode), _account(house, args)
    api_key = make_api_key(args.mode, house.entropy(KEY_ENTROPY_BYTES))
    now_ms = realm.clock.now_ms()
    key = await realm.db.write(
        insert_key,
        key_id=new_id("key_", now_ms, house.entropy),
        account_id=account.id,
        api_key=api_key,
        name=args.name,
        scopes=args.scopes,
        merchants=args.merchants,
        actor=ACTOR,
        now_ms=now_ms,
    )
    return msgspec.structs.replace(_key_wire(key, args.mode), api_key=api_key)


async def _key_list(house: House, args: _OfMode) -> list[_KeyWire]:
    keys = await _realm(house, args.mode).db.read(list_keys, _account(house, args).id)
    return [_key_wire(key, args.mode) for key in keys]


async def _key_revoke(house: House, args: _OfId) -> _KeyWire:
    realm, account = _realm(house, args.mode), _account(house, args)
    key = await realm.db.write(
        revoke_key, account_id=account.id, key_id=args.id, actor=ACTOR, now_ms=realm.clock.now_ms()
    )
    return _key_wire(key, args.mode)


async def _app_create(house: House, args: _Named) -> _AppWire:
    realm, account = _realm(house, args.mode), _account(house, args)
    now_ms = realm.clock.now_ms()
    app_id = new_id("app_t" if args.mode == "test" else "app_l", now_ms, house.entropy)
    app = await realm.db.write(
        insert_app, app_id=app_id, account_id=account.id, name=args.name, actor=ACTOR, now_ms=now_ms
    )
    return _app_wire(app, args.mode)


async def _app_list(house: House, args: _OfMode) -> list[_AppWire]:
    apps = await _realm(house, args.mode).db.read(list_apps, _account(house, args).id)
    return [_app_wire(app, args.mode) for app in apps]


async def _app_revoke(house: House, args: _OfId) -> _AppWire:
    realm, account = _realm(house, args.mode), _account(house, args)
    app = await realm.db.write(
        revoke_app, account_id=account.id, app_id=args.id, actor=ACTOR, now_ms=realm.clock.now_ms()
    )
    return _app_wire(app, args.mode)


async def _merchant_create(house: House, args: _MerchantCreate) -> Any:
    body = {"merchantName": args.name, "merchantEmail": args.email}
    return (await _ask(house, args, "POST", "/v1/merchants", body))["merchant"]


async def _merchant_list(house: House, args: _OfMode) -> Any:
    merchants: list[Any] = []
    query = {"limit": ["100"]}
    while len(merchants) < LIST_MAX:
        page = await _ask(house, args, "GET", "/v1/merchants", query=query)
        merchants += page["data"]
        if page["nextCursor"] is None:
            break
        query["cursor"] = [page["nextCursor"]]
    return merchants


async def _destination_add(house: House, args: _DestinationAdd) -> Any:
    body = {"settlements": [{"asset": args.asset, "destination": args.destination}]}
    path = f"/v1/merchants/{quote(args.merchant, safe='')}/settlements/crypto"
    return (await _ask(house, args, "POST", path, body))["settlements"][0]


async def _destination_list(house: House, args: _Destinations) -> Any:
    path = f"/v1/merchants/{quote(args.merchant, safe='')}/settlements"
    return (await _ask(house, args, "GET", path))["crypto"]


async def _webhook_set(house: House, args: _WebhookSet) -> Any:
    body: dict[str, Any] = {"url": args.url}
    if args.events is not None:
        body["events"] = args.events
    made = await _ask(house, args, "PUT", "/v1/webhooks/endpoint", body)
    if "secret" in made:
        return made
    # The API shows the secret of a new endpoint only; here it may always be seen, and the audit says so.
    revealed = await _ask(house, args, "POST", "/v1/webhooks/endpoint/reveal")
    return {**made, "secret": revealed["secret"]}


async def _webhook_deliveries(house: House, args: _OfMode) -> Any:
    query = {"limit": [str(DELIVERIES_SHOWN)]}
    return (await _ask(house, args, "GET", "/v1/webhooks/deliveries", query=query))["data"]


async def _webhook_test(house: House, args: _WebhookTest) -> Any:
    return await _ask(house, args, "POST", "/v1/webhooks/endpoint/test", {"type": args.type})


def _endpoint(method: str, act: str = "") -> Callable[[House, _OfMode], Awaitable[Any]]:
    """A command that is one call of the webhook endpoint's API."""

    async def run(house: House, args: _OfMode) -> Any:
        return await _ask(house, args, method, f"/v1/webhooks/endpoint{act}")

    return run


async def _status(house: House, _args: Args) -> Any:
    return {
        "version": payd.__version__,
        "baseUrl": house.base_url,
        "accounts": len(house.accounts),
        "realms": {
            name: {
                "healthy": realm.db.healthy,
                "failure": realm.db.failure,
                "now": iso_ms(realm.clock.now_ms()),
            }
            for name, realm in house.realms.items()
        },
    }


COMMANDS: Final[dict[str, Command]] = {
    "account.create": Command(_AccountCreate, _account_create),
    "account.list": Command(Args, _account_list),
    "key.create": Command(_KeyCreate, _key_create),
    "key.list": Command(_OfMode, _key_list),
    "key.revoke": Command(_OfId, _key_revoke),
    "app.create": Command(_Named, _app_create),
    "app.list": Command(_OfMode, _app_list),
    "app.revoke": Command(_OfId, _app_revoke),
    "merchant.create": Command(_MerchantCreate, _merchant_create),
    "merchant.list": Command(_OfMode, _merchant_list),
    "destination.add": Command(_DestinationAdd, _destination_add),
    "destination.list": Command(_Destinations, _destination_list),
    "webhook.set": Command(_WebhookSet, _webhook_set),
    "webhook.show": Command(_OfMode, _endpoint("GET")),
    "webhook.rotate": Command(_OfMode, _endpoint("POST", "/rotate")),
    "webhook.reveal": Command(_OfMode, _endpoint("POST", "/reveal")),
    "webhook.enable": Command(_OfMode, _endpoint("POST", "/enable")),
    "webhook.disable": Command(_OfMode, _endpoint("POST", "/disable")),
    "webhook.delete": Command(_OfMode, _endpoint("DELETE")),
    "webhook.deliveries": Command(_OfMode, _webhook_deliveries),
    "webhook.test": Command(_WebhookTest, _webhook_test, needs_server=True),
    "status": Command(Args, _status, needs_server=True),
}
"""Every command of an operator."""


async def _ask(
    house: House,
    args: _OfMode,
    method: str,
    path: str,
    body: Any = None,
    query: dict[str, list[str]] | None = None,
) -> Any:
    """What the API's own handler answers to the operator, who may do everything in the account."""
    realm, account = _realm(house, args.mode), _account(house, args)
    request_id = new_id("req_", _real_ms(house), house.entropy)
    headers = {"idempotency-key": request_id}
    if body is not None:
        headers["content-type"] = JSON_TYPE
    encoded = b"" if body is None else msgspec.json.encode(body)
    request = Request(method, path, query or {}, headers, encoded, client_ip=ACTOR)
    route, params = match_route(method, path)
    assert route is not None, f"{method} {path} is no route"
    caller = Caller(realm, account.id, ACTOR, frozenset(SCOPES), None)
    answer = await route.handler(Call(request, params, request_id, house, caller, realm, DEFAULT))
    return msgspec.json.decode(answer.body)


def _real_ms(house: House) -> int:
    """Unix milliseconds by the wall: the office has no realm's time."""
    return house.realms["test"].clock.real_ms()


def _realm(house: House, mode: Mode) -> Realm:
    realm = house.realms.get(mode)
    if realm is None:
        raise InvalidParams("This version has no live chains yet, so there is no live mode. Use --mode test.")
    return realm


def _account(house: House, args: _OfMode) -> Account:
    return house.office.point(choose_account, args.account)


def _account_wire(account: Account) -> _AccountWire:
    return _AccountWire(account.id, account.name, account.api_version, iso_ms(account.created_at_ms))


def _key_wire(key: Key, mode: Mode) -> _KeyWire:
    return _KeyWire(
        id=key.id,
        account_id=key.account_id,
        mode=mode,
        name=key.name,
        prefix=key.prefix,
        last4=key.last4,
        scopes=[scope for scope in SCOPES if scope in key.scopes],
        merchants=None if key.merchants is None else sorted(key.merchants),
        created_at=iso_ms(key.created_at_ms),
        revoked_at=None if key.revoked_at_ms is None else iso_ms(key.revoked_at_ms),
    )


def _app_wire(app: App, mode: Mode) -> _AppWire:
    revoked_at = None if app.revoked_at_ms is None else iso_ms(app.revoked_at_ms)
    return _AppWire(app.id, app.account_id, mode, app.name, iso_ms(app.created_at_ms), revoked_at)
