"""A realm's deliveries in a test: an outbox, receivers in memory, and a clock, all in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import trio
from standardwebhooks import Webhook

from payd.actors.deliveries import Deliveries
from payd.actors.poster import Poster, WebhookRules
from payd.clock import Clock
from payd.core.endpoint import ALL, Endpoint
from payd.core.event import sample_event
from payd.core.signature import make_secret
from payd.entropy import new_id, system_entropy
from payd.net.dns import DnsFailed
from payd.net.http import Client
from payd.store.attempts import AttemptRow, attempts_of
from payd.store.db import Database
from payd.store.deliveries import DeliveryRow, list_deliveries
from payd.store.endpoints import Act, put_endpoint, rotate_secret, switch_endpoint
from payd.store.notices import Notices
from payd.store.outbox import NewEvent, put_out
from payd.store.seal import Seal
from tests.receiver import Received, Receiver, Script
from tests.virtual_wall import VirtualWall

ACCOUNT = "acct_1"


@dataclass
class Outbox:
    """One realm's deliveries, and the hosts that they can reach."""

    db: Database
    clock: Clock
    nursery: trio.Nursery
    deliveries: Deliveries
    seal: Seal
    hosts: dict[str, Receiver] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def host(self, name: str, script: Script | None = None) -> Receiver:
        """A receiver that answers as `http://<name>`."""
        self.hosts[name] = Receiver(self.nursery) if script is None else Receiver(self.nursery, script)
        return self.hosts[name]

    async def resolve(self, host: str) -> list[str]:
        """Every host has a public address of its own; an address is its own."""
        await trio.lowlevel.checkpoint()
        if host[0].isdigit():
            return [host]
        if host not in self.hosts:
            raise DnsFailed(host)
        return [f"93.184.216.{list(self.hosts).index(host)}"]

    async def dial(self, address: str, port: int) -> trio.abc.Stream:
        """A connection in memory to the receiver at that address."""
        return await list(self.hosts.values())[int(address.rpartition(".")[2])].dial(address, port)

    async def register(
        self, host: str, account_id: str = ACCOUNT, events: tuple[str, ...] = ALL
    ) -> tuple[Endpoint, str]:
        """Register `http://<host>/hook` for the account; its endpoint and secret."""
        now_ms = self.clock.now_ms()
        endpoint_id = new_id("ep_", now_ms)
        secret = make_secret(system_entropy(32))
        endpoint, _ = await self.db.write(
            put_endpoint,
            account_id=account_id,
            url=f"http://{host}/hook",
            events=events,
            fresh_id=endpoint_id,
            sealed=self.seal.seal(secret.encode(), endpoint_id),
            now_ms=now_ms,
            actor="test",
        )
        return endpoint, secret

    async def happen(
        self, event_type: str = "payment.created", *, payment_id: str | None = None, account_id: str = ACCOUNT
    ) -> str:
        """An event of a payment, stored and owed in one step as a transition does it; its id."""
        number = next(self._numbers)
        now_ms = self.clock.now_ms()
        event_id = new_id("evt_", now_ms)
        payment_id = payment_id or f"pay_t{number}"
        body = sample_event(
            event_type, event_id=event_id, payment_id=payment_id, merchant_id="mrch_1", now_ms=now_ms
        )
        event = NewEvent(
            id=event_id,
            account_id=account_id,
            payment_id=payment_id,
            version=number,
            type=event_type,
            created_at_ms=now_ms,
            body=body,
            delivery_id=new_id("dlv_", now_ms),
            message_id=new_id("msg_", now_ms),
        )
        (endpoint_id,) = await self.db.write(put_out, [event])
        if endpoint_id is not None:
            self.deliveries.note_owed(endpoint_id)
        return event_id

    async def rotate(self, endpoint_id: str) -> str:
        """Rotate the endpoint's secret as the API does; the new one."""
        secret = make_secret(system_entropy(32))
        await self.db.write(
            rotate_secret,
            endpoint_id=endpoint_id,
            account_id=ACCOUNT,
            sealed=self.seal.seal(secret.encode(), endpoint_id),
            now_ms=self.clock.now_ms(),
            actor="test",
        )
        return secret

    async def switch(self, act: Act) -> None:
        """Enable, pause, resume or disable the endpoint as the API does."""
        endpoint = await self.db.write(
            switch_endpoint, account_id=ACCOUNT, act=act, now_ms=self.clock.now_ms(), actor="test"
        )
        self.deliveries.wake(endpoint.id)

    def rows(self, account_id: str = ACCOUNT) -> list[DeliveryRow]:
        """The account's deliveries, oldest first."""
        return self.db.point(lambda tx: list_deliveries(tx, account_id, limit=10_000))[::-1]

    def log(self, row: DeliveryRow) -> list[AttemptRow]:
        """A delivery's attempts."""
        return self.db.point(attempts_of, row.id)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and let everything that falls due on the way happen in order."""
        with trio.fail_after(3600):
            await advance(self.deliveries, self.clock, seconds)

    async def drained(self) -> None:
        """Return when what is due now has had its attempt; that takes no hour."""
        with trio.fail_after(3600):
            await self.deliveries.drained(self.clock.now_ms())


async def advance(deliveries: Deliveries, clock: Clock, seconds: float) -> None:
    """Move the realm's clock from one due time to the next, as its clock job does; Trio's time does not."""
    end_ms = clock.now_ms() + round(seconds * 1000)
    await deliveries.drained(clock.now_ms())
    while (due_ms := deliveries.next_due_ms()) is not None and due_ms <= end_ms:
        clock.move_to_offset(clock.offset_ms + due_ms - clock.now_ms())
        await deliveries.drained(due_ms)
    clock.move_to_offset(clock.offset_ms + end_ms - clock.now_ms())


@asynccontextmanager
async def open_outbox(
    db: Database, *, rules: WebhookRules | None = None, clock: Clock | None = None, jitter: bool = False
) -> AsyncIterator[Outbox]:
    """A running outbox; what runs in it is cancelled at the end."""
    async with trio.open_nursery() as nursery:
        outbox = make_outbox(db, nursery, rules=rules, clock=clock, jitter=jitter)
        await nursery.start(outbox.deliveries.run)
        yield outbox
        nursery.cancel_scope.cancel()


def make_outbox(
    db: Database,
    nursery: trio.Nursery,
    *,
    rules: WebhookRules | None = None,
    hosts: dict[str, Receiver] | None = None,
    seal: Seal | None = None,
    clock: Clock | None = None,
    jitter: bool = False,
) -> Outbox:
    """An outbox whose deliveries do not run yet."""
    rules = rules or WebhookRules(allow_http=True)
    http = Client(
        may_call=rules.may_call,
        resolve=lambda host: outbox.resolve(host),
        dial=lambda address, port: outbox.dial(address, port),
    )
    clock = clock or Clock(VirtualWall())
    seal = seal or Seal(bytes(32))
    poster = Poster(
        clock=clock,
        seal=seal,
        entropy=system_entropy,
        rules=rules,
        user_agent="payd/test",
        http=http,
        house_http=http,
        jitter=jitter,
    )
    deliveries = Deliveries(
        db=db,
        clock=clock,
        poster=poster,
        entropy=system_entropy,
        notices=Notices(False, new_id),
        config_key="webhooks.test",
        injects=True,
    )
    outbox = Outbox(db, clock, nursery, deliveries, seal, hosts if hosts is not None else {})
    return outbox


def verifies(secret: str, received: Received) -> bool:
    """Whether the library's digest of the raw bytes is among the signatures; its clock is not ours here."""
    expected = Webhook(secret).sign(
        msg_id=received.headers["webhook-id"],
        timestamp=datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC),
        data=received.body.decode(),
    )
    return expected in received.headers["webhook-signature"].split(" ")
