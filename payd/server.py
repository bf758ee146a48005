"""The composition root: what the house is made of, and every long-lived task with its parent.

    main
    ├─ house                         closed last
    │  └─ office, test, live         databases: a committer and a keeper each
    │     └─ turns                   of a realm: one short task for each payment that has something to do
    └─ chores                        each kept running by its supervisor
       ├─ realm: deadlines, maintenance, clock, deliveries, canary, logos, held changes, followers, API log
       ├─ live chains: a watcher and a relayer each; what their nodes' clocks say of ours
       ├─ office's chores, listeners, admin socket
       └─ front                      accepts, guards, feeds; hypercorn and Quart behind it

Stopped first, at once and within 15 s: the front and the deliveries, which finish what is under way. Then the
chores, then each realm's turns, then its database.

Source: DESIGN.md, "4. The house"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
import trio

from payd import __version__
from payd.actors.advance import Advance
from payd.actors.api_log import ApiLog
from payd.actors.backups import Backups
from payd.actors.canary import Canary
from payd.actors.deliveries import Deliveries
from payd.actors.feed import AccountFeed, PaymentFeed
from payd.actors.logos import Logos
from payd.actors.maintenance import Maintenance
from payd.actors.office import OfficeChores
from payd.actors.payments import Payments, Tell
from payd.actors.pictures import Pictures
from payd.actors.poster import Poster, WebhookRules, house_client, webhook_client
from payd.actors.settlement_changes import SettlementChanges
from payd.actors.supervisor import keep_running
from payd.chains.assets import AssetBook, shipped_book
from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.clock import Clock, WallMs, system_wall_ms
from payd.config import Config
from payd.config.shown import settings_for_pages
from payd.core.endpoint import NOTIFY
from payd.core.ids import Realm as RealmName
from payd.core.payment import Payment
from payd.entropy import Entropy, new_id, system_entropy
from payd.net.proxy import Proxy
from payd.store.apps import ensure_checkout_app
from payd.store.backup import Keystore
from payd.store.bridge import bridge
from payd.store.clock import get_clock, newest_event_seq
from payd.store.db import Database, open_database
from payd.store.endpoints import put_house_endpoint
from payd.store.lock import hold_data_dir
from payd.store.notices import Notices, notify_secret
from payd.store.seal import Seal, load_key
from payd.store.upgrade import upgrade
from payd.web.admin import SOCKET_NAME, serve_admin
from payd.web.app import make_app
from payd.web.client import TrustedProxies
from payd.web.dashboard.routes import PAGES
from payd.web.dispatch import answer, body_max_of, known_caller
from payd.web.feed import CatchUp, Feeds, check_listeners, publish
from payd.web.front import Front, listen
from payd.web.house import House, Limits, Realm, Setting
from payd.web.limits import (
    ASKERS_SHARE,
    RateLimit,
    connections_for,
    failed_auth_limit,
    match_limit,
    poll_slots,
    sign_request_limit,
)
from payd.web.passwords import Passwords
from payd.web.routes import ROUTES
from payd.web.sockets import Sockets

if TYPE_CHECKING:
    from payd.actors.live_chain import LiveChain

log = structlog.get_logger("payd.server")

USER_AGENT: Final = f"payd/{__version__}"

Announce = Callable[[House], Awaitable[None]]

# Requests make some cyclic garbage each; collecting rarely, and never what was there at the start, is worth
# up to 2×.
GC_THRESHOLDS: Final = (20_000, 50, 1000)

# Turns that are under way at the end have this long: one is a commit or two.
TURNS_MAX_S: Final = 5.0


def run(config: Config, announce: Announce | None = None) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once.

    Args:
        config: The configuration.
        announce: Called once, when the server answers.

    Raises:
        DataDirectoryBusy: Another process has the data directory.
        OSError: The address is taken.
    """
    _raise_file_limit()
    trio.run(_main, config, announce)


async def _main(config: Config, announce: Announce | None) -> None:
    async with open_house(config) as house, trio.open_nursery() as nursery:
        stop = trio.Event()
        await nursery.start(_watch_signals, stop)
        await serve(house, config, stop, announce)
        nursery.cancel_scope.cancel()


async def serve(house: House, config: Config, stop: trio.Event, announce: Announce | None = None) -> None:
    """Serve a house until `stop`, then finish what is under way and return."""
    async with trio.open_nursery() as chores:
        for realm in house.realms.values():
            name, payments = realm.name, realm.payments
            await chores.start(realm.deliveries.run)
            chores.start_soon(keep_running, f"{name}.deadlines", payments.tending.deadlines.run)
            maintenance = Maintenance(
                realm.db,
                realm.clock,
                config.webhooks.keep_days,
                config.payments.collected_days,
                config.audit.keep_days,
                realm.clock_check,
            )
            chores.start_soon(keep_running, f"{name}.maintenance", maintenance.run)
            chores.start_soon(keep_running, f"{name}.api_log", realm.api_log.run)
            chores.start_soon(keep_running, f"{name}.followers", CatchUp(realm).run)
            chores.start_soon(keep_running, f"{name}.logos", realm.logos.run)
            chores.start_soon(keep_running, f"{name}.settlement_changes", realm.settlement_changes.run)
            if realm.advance is not None:
                chores.start_soon(keep_running, f"{name}.clock", realm.advance.run)
            if realm.live_chains:
                chores.start_soon(keep_running, f"{name}.clock_check", realm.clock_check.run)
            for live in realm.live_chains:
                chores.start_soon(keep_running, f"{live.name}.watcher", live.watcher.run)
                if live.relayer is not None:
                    chores.start_soon(keep_running, f"{live.name}.relayer", live.relayer.run)
        office = OfficeChores(house.office, house.realms["test"].clock.real_ms, config.audit.keep_days)
        chores.start_soon(keep_running, "office", office.run)
        chores.start_soon(keep_running, "listeners", partial(check_listeners, house))
        await chores.start(serve_admin, house, config.data_dir / SOCKET_NAME)
        front, listeners = await _open_front(house, config)
        for realm in house.realms.values():
            url = f"{house.own_url}/canary/{realm.name}" if config.webhooks.canary else None
            chores.start_soon(keep_running, f"{realm.name}.canary", partial(realm.canary.run, url))
        async with trio.open_nursery() as doors:
            await doors.start(front.serve, listeners, stop)
            _tune_gc()
            log.info("server.ready", url=house.base_url, version=__version__)
            if announce is not None:
                await announce(house)
            await stop.wait()
            house.release_polls()
            for realm in house.realms.values():
                doors.start_soon(realm.deliveries.stop)
        chores.cancel_scope.cancel()
    log.info("server.stopped")


@asynccontextmanager
async def open_house(
    config: Config,
    *,
    inline: bool = False,
    relays: bool = True,
    wall: WallMs = system_wall_ms,
    entropy: Entropy = system_entropy,
) -> AsyncIterator[House]:
    """The house with its stores open, and nothing running in it but what answers a call.

    Args:
        config: What the operator wants.
        inline: For virtual time: no threads, no relayers, no waits for the disk, passwords cheap to check.
        relays: Whether the keys that bring transactions to chains are unlocked.
        wall: The machine's clock.
        entropy: Random bytes.

    Raises:
        DataDirectoryBusy: Another process has the data directory.
    """
    with hold_data_dir(config.data_dir), bridge():
        _upgrade(config.data_dir, wall())
        async with open_database(config.data_dir / "office.db", "office", inline=inline) as office:
            seal = Seal(load_key(config.data_dir / "seal.key", entropy), entropy)
            realms: dict[RealmName, Realm] = {}
            house = House(
                realms=realms,
                office=office,
                entropy=entropy,
                limits=_limits(config),
                base_url=config.public_url(),
                body_max=config.api.body_max,
                payment_lifetime_s=config.payments.lifetime_s,
                collected_days=config.payments.collected_days,
                passwords=Passwords(entropy, inline=inline),
                metrics_token=config.metrics.token,
                data_dir=config.data_dir,
                backups=Backups(
                    config.data_dir,
                    Keystore(config.relayer.keystore, config.relayer.password_file),
                    wall,
                    inline=inline,
                ),
                settings=tuple(Setting(*one) for one in settings_for_pages(config)),
                started_ms=wall(),
            )
            house.learn_accounts()
            office.on_reload(house.learn_accounts)
            build = partial(
                _open_realm,
                config,
                seal=seal,
                entropy=entropy,
                wall=wall,
                inline=inline,
                relays=relays and not inline,
                pictures=Pictures(),
            )
            async with build("test") as realms["test"]:
                # Chains that are gone left payments behind, which are still shown and answered for.
                if not (config.chains or (config.data_dir / "live.db").exists()):
                    yield house
                else:
                    async with build("live") as realms["live"]:
                        yield house


def _upgrade(data_dir: Path, now_ms: int) -> None:
    """Have every database be of this version, with the old ones as a snapshot where they were of another."""
    done = upgrade(data_dir, now_ms)
    if done is not None:
        versions = {each.name: f"{each.version} to {each.newest}" for each in done.databases}
        log.info("store.upgraded", databases=versions, snapshot=done.snapshot)


@asynccontextmanager
async def _open_realm(
    config: Config,
    name: RealmName,
    *,
    seal: Seal,
    entropy: Entropy,
    wall: WallMs,
    inline: bool,
    relays: bool,
    pictures: Pictures,
) -> AsyncIterator[Realm]:
    """One realm. Test and live are the same classes; they differ in what they are built from."""

    async def tell_payment(payment_id: str, chain: str) -> None:
        await realm.payments.tending.news(payment_id, chain)

    live = name == "live"
    async with AsyncExitStack() as stack:
        path = config.data_dir / f"{name}.db"
        db = await stack.enter_async_context(open_database(path, "realm", inline=inline))
        clock = Clock(wall, db.point(get_clock).offset_ms)
        assets = _live_assets(config) if live else shipped_book()
        live_chains: tuple[LiveChain, ...] = ()
        if live and config.chains:
            from payd.live import open_chains  # brings what signs, which a test realm never needs

            opened = open_chains(config, db, clock, assets, news=tell_payment, relays=relays)
            live_chains = await stack.enter_async_context(opened)
        deliveries = await _open_deliveries(config, name, db, clock, seal, entropy)
        account_feed = AccountFeed()
        app_id = new_id("app_l" if live else "app_t", clock.now_ms(), entropy)
        realm = Realm(
            name=name,
            live=live,
            db=db,
            clock=clock,
            assets=assets,
            payments=Payments(
                db=db,
                clock=clock,
                chains=tuple(one.chain for one in live_chains) if live else (_simulated(config),),
                live=live,
                entropy=entropy,
                tell=_tell(lambda payment: publish(realm, payment), account_feed, deliveries, live_chains),
                nursery=await stack.enter_async_context(_open_turns(db)),
            ),
            deliveries=deliveries,
            canary=_canary(db, clock, seal, entropy, deliveries),
            logos=Logos(db=db, clock=clock, http=deliveries.http, pictures=pictures, user_agent=USER_AGENT),
            settlement_changes=SettlementChanges(
                db=db,
                clock=clock,
                entropy=entropy,
                deliveries=deliveries,
                delay_ms=config.settlements.change_delay_s * 1000 if live else 0,
            ),
            payment_feed=PaymentFeed(),
            account_feed=account_feed,
            seal=seal,
            checkout_app_id=await db.write(ensure_checkout_app, app_id=app_id, now_ms=clock.now_ms()),
            api_log=ApiLog(db),
            found_seq=db.point(newest_event_seq),
            live_chains=live_chains,
        )
        if not live:
            realm.advance = Advance(db, clock, realm.payments, deliveries, entropy)
        yield realm


def _tell(
    publish: Callable[[Payment], None],
    account_feed: AccountFeed,
    deliveries: Deliveries,
    live_chains: Sequence[LiveChain],
) -> Tell:
    """Who hears of what happens to payments."""
    by_name = {one.name: one for one in live_chains}

    def offered(chain: str) -> None:
        if chain in by_name:
            by_name[chain].watcher.wake()

    def owed(chain: str) -> None:
        relayer = by_name[chain].relayer
        if relayer is not None:
            relayer.wake()

    return Tell(
        changed=publish,
        event=account_feed.wake,
        endpoint=deliveries.note_owed,
        offered=offered,
        relay=owed,
    )


def _canary(db: Database, clock: Clock, seal: Seal, entropy: Entropy, deliveries: Deliveries) -> Canary:
    return Canary(
        db=db, clock=clock, seal=seal, entropy=entropy, wake=deliveries.wake, report=deliveries.stats.canary
    )


async def _open_deliveries(
    config: Config, name: RealmName, db: Database, clock: Clock, seal: Seal, entropy: Entropy
) -> Deliveries:
    """A realm's deliveries, with the house's own endpoint for notices pointed to where it goes now."""
    secret = seal.seal(notify_secret(seal).encode("ascii"), NOTIFY)
    await db.write(put_house_endpoint, NOTIFY, config.notify.url or None, secret, clock.now_ms())
    live, rules = name == "live", webhook_rules(config, name)
    poster = Poster(
        clock=clock,
        seal=seal,
        entropy=entropy,
        rules=rules,
        user_agent=USER_AGENT,
        http=webhook_client(rules),
        house_http=house_client(),
        jitter=live,  # a test clock is moved to the second, and the schedule should hold to it
    )
    notices = Notices(live, partial(new_id, entropy=entropy))
    return Deliveries(
        db=db,
        clock=clock,
        poster=poster,
        entropy=entropy,
        notices=notices,
        config_key=f"webhooks.{name}",
        injects=not live,
    )


@asynccontextmanager
async def _open_turns(db: Database) -> AsyncIterator[trio.Nursery]:
    """Where a realm's turns run. At the end they finish: a turn that has begun stores what it decided.

    A disk that does not answer holds a turn; then the database is closed under it.
    """
    async with trio.open_nursery() as patience:
        async with trio.open_nursery() as turns:
            yield turns
            turns.cancel_scope.cancel()
            patience.start_soon(_close_later, db)
        patience.cancel_scope.cancel()


async def _close_later(db: Database) -> None:
    await trio.sleep(TURNS_MAX_S)
    await db.close()


async def _open_front(house: House, config: Config) -> tuple[Front, list[trio.SocketListener]]:
    try:
        listeners = await listen(config.listen.host, config.listen.port)
    except OSError as error:
        error.filename = f"{config.listen.host}:{config.listen.port}"  # so that the message can name it
        raise
    port = listeners[0].socket.getsockname()[1]
    house.base_url, house.own_url = config.public_url(port), config.own_url(port)
    trusted = TrustedProxies(config.http.trusted_proxies)
    answering = partial(answer, house)
    feeds = Feeds(house, partial(known_caller, house, gateway=False))
    room = connections_for(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    connections_max = min(config.http.connections_max, room)
    sockets = Sockets(
        answer=answering,
        feed_of=feeds.payment_feed,
        snapshot=feeds.snapshot,
        authenticate=feeds.authenticate,
        trusted=trusted,
        feeds_max=min(config.feeds.max, connections_max - connections_max // ASKERS_SHARE),
        feeds_per_ip=config.feeds.per_ip,
        feeds_per_payment=config.feeds.per_payment,
    )
    larger = partial(body_max_of, house)
    app = make_app(answering, (*ROUTES, *PAGES), trusted=trusted, body_max=house.body_max, larger=larger)
    front = Front(
        app,
        answer=answering,
        sockets=sockets,
        trusted=trusted,
        body_max=house.body_max,
        connections_max=connections_max,
        connections_per_ip=config.http.connections_per_ip,
    )
    house.street = front
    return front, list(listeners)


def webhook_rules(config: Config, name: RealmName) -> WebhookRules:
    """What endpoints of a realm may be, and where their deliveries come from."""
    webhooks = config.webhooks
    chosen = webhooks.live if name == "live" else webhooks.test
    return WebhookRules(
        allow_http=name == "test" and webhooks.test.allow_http,
        allow_networks=tuple(chosen.allow_networks),
        ca_file=chosen.ca_file,
        bind=webhooks.bind,
        proxy=Proxy.of(webhooks.proxy) if webhooks.proxy else None,
    )


def _live_assets(config: Config) -> AssetBook:
    return AssetBook(config.assets, {chain.id: chain.shipped.name for chain in config.chains})


def _simulated(config: Config) -> SimulatedChain:
    return SimulatedChain(config.test.confirm_after_ms, config.test.settle_after_ms, RateTable())


def _limits(config: Config) -> Limits:
    return Limits(
        per_key=RateLimit(config.rate_limits.per_key),
        per_ip=RateLimit(config.rate_limits.per_ip),
        failed_auth=failed_auth_limit(config.rate_limits.failed_auth),
        polls=poll_slots(),
        matches=match_limit(),
        sign_requests=sign_request_limit() if config.rate_limits.per_ip else RateLimit(0),
    )


async def _watch_signals(
    stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The first signal stops in order; the second ends the process, and loses nothing acknowledged."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            log.info("server.stopping", signal=signal.Signals(number).name)
            stop.set()


def _raise_file_limit() -> None:
    """Every page that follows a payment is a socket; distributions start processes with room for 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tune_gc() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
