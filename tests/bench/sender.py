"""Who sends webhooks: payd's deliveries, or what they are measured beside, in a process of its own.

Reads a `Job` as JSON from its argument, makes everything ready, says `ready`, and begins with the next line
of standard input. It goes on until that input ends; whether all has arrived, the sink says.

- `payd`: `actors/deliveries.py` over the realm's database, on threads and with fsync, as the server runs it.
- `client`: payd's HTTP client (`net/http.py`) alone, with the same signed bytes from memory.
- `h11`: the same by hand: one loop a connection, h11 and Trio's TLS, no deadline and no check.
- `pool`: that client behind one queue for everybody, 64 workers; it signs, and logs nothing.
"""

from __future__ import annotations

import gc
import ssl
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from ipaddress import ip_network
from itertools import cycle
from pathlib import Path
from typing import Final

import h11
import msgspec
import trio

from payd.actors.deliveries import Deliveries
from payd.actors.lane import IN_FLIGHT_MAX
from payd.actors.poster import Poster, WebhookRules, house_client, webhook_client
from payd.clock import Clock
from payd.core.signature import sign
from payd.entropy import new_id, system_entropy
from payd.logs import configure
from payd.net.http import Client, Target, tls_context
from payd.server import GC_THRESHOLDS
from payd.store.bridge import bridge
from payd.store.db import Database, open_database
from payd.store.notices import Notices
from payd.store.seal import Seal
from tests.bench.owed import SECRET, Owed, account_of, happen, read_owed
from tests.bench.sink import CA_FILE, keep_to

USER_AGENT: Final = "payd/bench"
POOL_WORKERS: Final = 64
SEAL: Final = Seal(bytes(32))
RULES: Final = WebhookRules(allow_networks=(ip_network("127.0.0.0/8"),), ca_file=CA_FILE)

HeaderList = list[tuple[str, str]]


class Job(msgspec.Struct):
    """What to send.

    Attributes:
        how: One of `HOW`.
        path: The realm's database.
        core: What the process keeps to, with all its threads; None leaves it to the system.
        endpoints: How many have an event each in turn, when `rate` is not 0.
        rate: Events a second that happen while it runs, beside what is owed already.
    """

    how: str
    path: str
    core: int | None = None
    endpoints: int = 0
    rate: float = 0.0


class Signed(msgspec.Struct):
    """A POST with its signature."""

    target: Target
    headers: HeaderList
    body: bytes


async def send_as_payd(job: Job, started: trio.Event) -> None:
    """The real machinery."""
    async with open_database(job.path, "realm") as db, trio.open_nursery() as nursery:
        clock = Clock()
        poster = Poster(
            clock=clock,
            seal=SEAL,
            entropy=system_entropy,
            rules=RULES,
            user_agent=USER_AGENT,
            http=webhook_client(RULES),
            house_http=house_client(),
            jitter=False,  # what was filled a while ago begins at once
        )
        deliveries = Deliveries(
            db=db,
            clock=clock,
            poster=poster,
            entropy=system_entropy,
            notices=Notices(False, new_id),
            config_key="webhooks.test",
        )
        await _get_ready(started)
        await nursery.start(deliveries.run)
        if job.rate:
            nursery.start_soon(_happen_steadily, job, db, clock, deliveries)


async def _happen_steadily(job: Job, db: Database, clock: Clock, deliveries: Deliveries) -> None:
    """Let events happen at their rate, each in a task of its own: a slow commit delays no other."""

    async def one(account_id: str) -> None:
        endpoint_id = await db.write(happen, account_id, clock.now_ms())
        assert endpoint_id is not None
        deliveries.wake(endpoint_id)

    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, endpoint in enumerate(cycle(range(job.endpoints))):
            await trio.sleep_until(begun_s + number / job.rate)
            nursery.start_soon(one, account_of(endpoint))


async def send_by_client(job: Job, started: trio.Event) -> None:
    """The client alone, as many requests at once to each endpoint as an endpoint's actor makes."""
    lanes = _signed_by_url(job)
    client = webhook_client(RULES)
    await _get_ready(started)
    async with trio.open_nursery() as nursery:
        for lane in lanes:
            for _ in range(IN_FLIGHT_MAX):
                nursery.start_soon(_send_all, client, lane)


async def _send_all(client: Client, lane: Iterator[Signed]) -> None:
    for one in lane:
        reply = await client.send("POST", one.target, one.headers, one.body)
        assert reply.status == 200, reply


async def send_by_hand(job: Job, started: trio.Event) -> None:
    """h11 and TLS, nothing around them."""
    lanes = _signed_by_url(job)
    tls = tls_context(CA_FILE)
    await _get_ready(started)
    async with trio.open_nursery() as nursery:
        for lane in lanes:
            for _ in range(IN_FLIGHT_MAX):
                nursery.start_soon(_send_on_one, tls, lane)


async def _send_on_one(tls: ssl.SSLContext, lane: Iterator[Signed]) -> None:
    """One connection: a request, its answer, the next request."""
    first = next(lane, None)
    if first is None:
        return
    tcp = await trio.open_tcp_stream(first.target.host, first.target.port)
    stream = trio.SSLStream(tcp, tls, server_hostname=first.target.host)
    connection = h11.Connection(h11.CLIENT)
    one: Signed | None = first
    while one is not None:
        headers = [
            ("host", one.target.authority),
            ("content-length", str(len(one.body))),
            ("accept-encoding", "identity"),
            *one.headers,
        ]
        head = connection.send(h11.Request(method="POST", target=one.target.path, headers=headers))
        assert head is not None
        body = connection.send(h11.Data(data=one.body))
        assert body is not None
        await stream.send_all(head + body + (connection.send(h11.EndOfMessage()) or b""))
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some()))
            assert not isinstance(event, h11.Response) or event.status_code == 200
        connection.start_next_cycle()
        one = next(lane, None)


async def send_by_pool(job: Job, started: trio.Event) -> None:
    """One queue for everybody, oldest first, as many services have it."""
    queue = deque(read_owed(Path(job.path)))
    targets = {url: Target.of(url) for url in {owed.url for owed in queue}}
    client = webhook_client(RULES)

    async def work() -> None:
        while queue:
            owed = queue.popleft()
            await client.send("POST", targets[owed.url], _headers(owed), owed.body)

    await _get_ready(started)
    async with trio.open_nursery() as nursery:
        for _ in range(POOL_WORKERS):
            nursery.start_soon(work)


HOW: Final[dict[str, Callable[[Job, trio.Event], Awaitable[None]]]] = {
    "payd": send_as_payd,
    "client": send_by_client,
    "h11": send_by_hand,
    "pool": send_by_pool,
}


def _signed_by_url(job: Job) -> list[Iterator[Signed]]:
    """What is owed, one shared iterator for each endpoint; each is signed when it is taken, as payd does."""
    lanes: dict[str, list[Owed]] = {}
    for owed in read_owed(Path(job.path)):
        lanes.setdefault(owed.url, []).append(owed)
    return [_signed(Target.of(url), lane) for url, lane in lanes.items()]


def _signed(target: Target, lane: list[Owed]) -> Iterator[Signed]:
    return (Signed(target, _headers(owed), owed.body) for owed in lane)


def _headers(owed: Owed) -> HeaderList:
    timestamp_s = int(time.time())
    return [
        ("content-type", "application/json"),
        ("user-agent", USER_AGENT),
        ("webhook-id", owed.message_id),
        ("webhook-timestamp", str(timestamp_s)),
        ("webhook-signature", sign([SECRET], owed.message_id, timestamp_s, owed.body)),
    ]


async def _get_ready(started: trio.Event) -> None:
    """Tune the garbage collection as the server does, say that all is there, and wait for the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    print("ready", flush=True)
    await started.wait()


async def run(job: Job) -> None:
    """Send until standard input ends."""
    with bridge():
        async with trio.open_nursery() as nursery:
            started = trio.Event()
            nursery.start_soon(HOW[job.how], job, started)
            talk = trio.lowlevel.FdStream(sys.stdin.fileno())
            while await talk.receive_some():
                started.set()
            nursery.cancel_scope.cancel()


def main() -> None:
    """Run one job."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    if job.core is not None:
        keep_to([job.core])
    configure("json", "info")
    trio.run(partial(run, job))


if __name__ == "__main__":
    main()
