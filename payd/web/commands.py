"""What an operator can do, by name. Merchants and webhooks are done by the API's own handlers.

Every door for operators (the socket, the command line on a stopped server) runs these same commands.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

import payd
from payd.core.advice import advice
from payd.core.endpoint import NOTIFY, Endpoint, EndpointState, valid_secrets
from payd.core.errors import InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.entropy import new_id
from payd.store.apps import App, insert_app, list_apps, revoke_app
from payd.store.attempts import attempts_of
from payd.store.deliveries import list_deliveries
from payd.store.endpoints import endpoint_of_id, find_endpoint, listen_secret, secrets_of
from payd.store.keys import LISTENER, LISTENER_SCOPES, SCOPES, Key, insert_key, list_keys
from payd.store.notices import notify_secret
from payd.web.account_commands import ACCOUNT_COMMANDS
from payd.web.backup_commands import BACKUP_COMMANDS
from payd.web.command import ACTOR, Args, Command, Mode, OfId, OfMode, account_of, ask, realm_of
from payd.web.feed import end_key, newest_place, revoke_left_keys
from payd.web.log_commands import LOG_COMMANDS
from payd.web.merchant_commands import MERCHANT_COMMANDS
from payd.web.metrics_chains import see_chain
from payd.web.payment_commands import PAYMENT_COMMANDS
from payd.web.testing_commands import TESTING_COMMANDS
from payd.web.user_commands import USER_COMMANDS
from payd.web.webhook_commands import WEBHOOK_COMMANDS

if TYPE_CHECKING:
    from payd.actors.live_chain import LiveChain
    from payd.web.house import House, Realm

NOTICES_SHOWN: Final = 10  # they are rare; more are history


class _KeyCreate(OfMode, frozen=True, kw_only=True):
    name: str = "unnamed"
    scopes: list[str] | None = None
    merchants: list[str] | None = None


class _Named(OfMode, frozen=True, kw_only=True):
    name: str


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams(f"{name}: {error}") from None
    return await command.run(house, decoded)


async def _key_create(house: House, args: _KeyCreate) -> _KeyWire:
    if not realm_of(house, args.mode).payments.chains:
        raise InvalidParams(
            "With no chain configured, a live key could do nothing. Add [[chains]] to payd.toml and start the"
            " server again, or use --mode test."
        )
    return await _make_key(house, args)


async def _make_key(house: House, args: _KeyCreate, *, is_listener: bool = False) -> _KeyWire:
    realm, account = realm_of(house, args.mode), account_of(house, args)
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
        is_listener=is_listener,
    )
    return msgspec.structs.replace(_key_wire(key, args.mode), api_key=api_key)


async def _key_list(house: House, args: OfMode) -> list[_KeyWire]:
    keys = await realm_of(house, args.mode).db.read(list_keys, account_of(house, args).id)
    return [_key_wire(key, args.mode) for key in keys]


async def _key_revoke(house: House, args: OfId) -> _KeyWire:
    realm, account = realm_of(house, args.mode), account_of(house, args)
    return _key_wire(await end_key(realm, account.id, args.id, ACTOR), args.mode)


async def _app_create(house: House, args: _Named) -> _AppWire:
    realm, account = realm_of(house, args.mode), account_of(house, args)
    now_ms = realm.clock.now_ms()
    app_id = new_id("app_t" if args.mode == "test" else "app_l", now_ms, house.entropy)
    app = await realm.db.write(
        insert_app, app_id=app_id, account_id=account.id, name=args.name, actor=ACTOR, now_ms=now_ms
    )
    return _app_wire(app, args.mode)


async def _app_list(house: House, args: OfMode) -> list[_AppWire]:
    apps = await realm_of(house, args.mode).db.read(list_apps, account_of(house, args).id)
    return [_app_wire(app, args.mode) for app in apps]


async def _app_revoke(house: House, args: OfId) -> _AppWire:
    realm, account = realm_of(house, args.mode), account_of(house, args)
    app = await realm.db.write(
        revoke_app, account_id=account.id, app_id=args.id, actor=ACTOR, now_ms=realm.clock.now_ms()
    )
    return _app_wire(app, args.mode)


async def _listen_open(house: House, args: OfMode) -> Any:
    """What a listener needs: a key that can read events and nothing else, and where the newest event is.

    The key is revoked when the listener ends, or when nothing is heard of it any more.
    """
    realm, account = realm_of(house, args.mode), account_of(house, args)
    await revoke_left_keys(realm)
    shown = await _listen_secret(house, args)
    wanted = _KeyCreate(mode=args.mode, account=account.id, name=LISTENER, scopes=list(LISTENER_SCOPES))
    key = await _make_key(house, wanted, is_listener=True)
    realm.account_feed.leases.grant(key.id, account.id, trio.current_time())
    return {
        **shown,
        "accountId": account.id,
        "accountName": account.name,
        "apiKey": key.api_key,
        "keyId": key.id,
        "cursor": str(realm.db.point(newest_place)),
    }


async def _listen_secret(house: House, args: OfMode) -> Any:
    """The endpoint's own secret; without an endpoint, one that stays the same for the account.

    `secrets` are all that sign now, that one first: after a rotation the one before signs along.
    """
    realm, account = realm_of(house, args.mode), account_of(house, args)
    try:
        secret = (await ask(house, args, "POST", "/v1/webhooks/endpoint/reveal"))["secret"]
    except NotFound:
        secret = listen_secret(realm.seal, account.id)
        return {"url": house.base_url, "secret": secret, "secrets": [secret]}
    endpoint = realm.db.point(find_endpoint, account.id)
    secrets = [secret]
    if endpoint is not None:
        valid = valid_secrets(realm.db.point(secrets_of, endpoint.id), realm.clock.now_ms())
        secrets += [one.value for one in realm.deliveries.open_all(valid, endpoint.id)]
    return {"url": house.base_url, "secret": secret, "secrets": list(dict.fromkeys(secrets))}


async def _notify_show(house: House, args: OfMode) -> Any:
    """Where notices of this mode go, what signs them, and how the last ones fared."""
    realm = realm_of(house, args.mode)
    endpoint = _notify_endpoint(realm)
    rows = await realm.db.read(list_deliveries, NOTIFY, limit=NOTICES_SHOWN)
    return {
        "url": endpoint.url,
        "secret": notify_secret(realm.seal),
        "failingSince": None if endpoint.failing_since_ms is None else iso_ms(endpoint.failing_since_ms),
        "notices": [
            {
                "type": row.event_type,
                "createdAt": iso_ms(row.created_at_ms),
                "state": row.state,
                **_last_attempt(realm, row.id),
            }
            for row in rows
        ],
    }


def _last_attempt(realm: Realm, delivery_id: str) -> dict[str, int | str | None]:
    """How the newest attempt of a delivery ended."""
    log = realm.db.point(attempts_of, delivery_id)
    return {"status": log[-1].status, "errorClass": log[-1].error_class} if log else {}


async def _notify_test(house: House, args: OfMode) -> Any:
    """Send a notice that says it is a test, and what came of it."""
    realm = realm_of(house, args.mode)
    delivery_id, end = await realm.deliveries.send_test(_notify_endpoint(realm), "notify.test")
    return {
        "deliveryId": delivery_id,
        "status": end.status,
        "errorClass": end.error_class,
        "advice": advice(end.status, end.error_class),
        "durationMs": end.duration_ms,
    }


def _notify_endpoint(realm: Realm) -> Endpoint:
    endpoint = realm.db.point(endpoint_of_id, NOTIFY)
    if endpoint is None or endpoint.state is not EndpointState.ENABLED:
        raise NotFound("Notices go nowhere: set url in [notify] of payd.toml, and start the server again.")
    return endpoint


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
                "problems": [*realm.deliveries.problems(), *realm.canary.problems()],
                "clockSkewS": realm.deliveries.stats.skew_s,
                "chains": [_chain_state(live) for live in realm.live_chains],
            }
            for name, realm in house.realms.items()
        },
    }


def _chain_state(live: LiveChain) -> dict[str, Any]:
    """How the server itself gets on with a chain; for the operator, who may see the names of nodes."""
    seen = see_chain(live)
    return {
        "name": seen.name,
        "head": seen.watcher.head,
        "blocksBehind": seen.watcher.blocks_behind,
        "trouble": seen.watcher.trouble,
        "alarms": [] if seen.relayer is None else sorted(seen.relayer.alarms),
    }


COMMANDS: Final[dict[str, Command]] = {
    **ACCOUNT_COMMANDS,
    "key.create": Command(_KeyCreate, _key_create),
    "key.list": Command(OfMode, _key_list, changes=False),
    "key.revoke": Command(OfId, _key_revoke),
    "app.create": Command(_Named, _app_create),
    "app.list": Command(OfMode, _app_list, changes=False),
    "app.revoke": Command(OfId, _app_revoke),
    **MERCHANT_COMMANDS,
    **PAYMENT_COMMANDS,
    **WEBHOOK_COMMANDS,
    **USER_COMMANDS,
    **TESTING_COMMANDS,
    **LOG_COMMANDS,
    **BACKUP_COMMANDS,
    "listen.open": Command(OfMode, _listen_open, needs_server=True),
    "listen.secret": Command(OfMode, _listen_secret),
    "notify.show": Command(OfMode, _notify_show, changes=False),
    "notify.test": Command(OfMode, _notify_test, needs_server=True),
    "status": Command(Args, _status, needs_server=True, changes=False),
}
"""Every command of an operator; accounts, merchants, payments, webhooks and people have own tables."""


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
