"""What merchants, wallets and pages do to a server that dies under them, and what they were told."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
import trio
from trio_websocket import ConnectionClosed, HandshakeError, wrap_client_stream

from payd.web.cursor import encode_cursor
from tests.crash.changes import Changes
from tests.crash.client import Answered, Lost
from tests.crash.process import Furnished, Server
from tests.shop import APPROVES, BUYER, SIGNATURE

HELD: Final = "eip155:8453:0x0000000000000000000000000000000000000004"
SETTLES_LATE: Final = "eip155:8453:0x0000000000000000000000000000000000000005"

# What time may refuse: the clock moves while people shop.
OVERTAKEN: Final = {"invalid_state", "payment_expired", "quote_expired", "route_expired"}
ADVANCES: Final = ("7s", "7s", "40s", "6m", "20m")
PAUSE_MAX_S: Final = 0.02
LOOK_AGAIN_S: Final = 0.02
GLIMPSE_S: Final = 0.005
PAGE_PATIENCE_S: Final = 0.4
# trio-websocket waits for ever for the end of a handshake whose connection has died.
HANDSHAKE_MAX_S: Final = 3.0


@dataclass
class Told:
    """What the clients of one payment were told of it."""

    payment_id: str
    reference: str
    value: str
    expires_at: int
    statuses: list[str] = field(default_factory=list)
    """In the order in which they were read, one after the other."""
    cancelled_at: str | None = None
    cancel_refused: bool = False
    """A cancel under a key was refused: then it was not this cancel that ended the payment."""
    paid_by: str | None = None


@dataclass
class Ledger:
    """Everything that any client was told."""

    payments: dict[str, Told] = field(default_factory=dict)
    answers: dict[str, list[bytes]] = field(default_factory=dict)
    """Every answer to a creation under an idempotency key, by reference."""
    doubtful: set[str] = field(default_factory=set)
    """References of creations without a key whose answer was lost: they may exist, once."""
    frames: set[tuple[str, int, str]] = field(default_factory=set)
    """(payment, version, status) that a page was shown."""
    glimpses: set[tuple[str, str]] = field(default_factory=set)
    """(payment, status) that somebody read while somebody else moved the payment."""
    asked: set[str] = field(default_factory=set)
    """References of all creations that were asked for, whatever became of them."""
    heard: list[bytes] = field(default_factory=list)
    """Events of the account feed, in order, resumed by cursor after each loss."""
    cursor: str = encode_cursor(0)
    lost: int = 0
    repeats: int = 0
    answered: int = 0
    problems: list[str] = field(default_factory=list)
    restores: int = 0
    """How often a backup was brought back: what was told after it does not count."""
    newest: str = ""
    """The payment that was created last: pages follow it."""
    changes: Changes = field(default_factory=Changes)
    """What merchants and operators have changed meanwhile."""


class Door(Protocol):
    """Where one client asks, one request at a time."""

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """Raises `Lost` where there is no whole answer."""

    async def close(self) -> None:
        """Go away."""


class Caller:
    """One client of a server that dies, and is found again."""

    def __init__(self, open_door: Callable[[], Door], at: Furnished, ledger: Ledger, rng: Random) -> None:
        self.at = at
        self.ledger = ledger
        self.rng = rng
        self._open_door = open_door
        self._door = open_door()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """One request to the server that runs now. Raises `Lost`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answered = await self._door.ask(method, path, body, self.at.headers | named)
        except Lost:
            self.ledger.lost += 1
            await trio.lowlevel.checkpoint()
            raise
        self.ledger.answered += 1
        if answered.status >= 500 and not self.excuses(answered):
            self.ledger.problems.append(f"{method} {path}: {answered.status} {answered.raw.decode()}")
        return answered

    def excuses(self, answered: Answered) -> bool:
        """Whether a failure is not the server's own."""
        return False

    async def insist(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """A request that may be repeated, until there is an answer."""
        while True:
            try:
                return await self.ask(method, path, body, **headers)
            except Lost:
                self.ledger.repeats += 1

    async def run(self, until: trio.Event) -> None:
        """Live until told otherwise; what was begun is finished."""
        try:
            await self.live(until)
        finally:
            with trio.CancelScope(shield=True):
                await self._door.close()

    async def live(self, until: trio.Event) -> None:
        """What this client does all day."""
        raise NotImplementedError

    def refuse(self, answered: Answered, what: str) -> None:
        """Note an answer that nothing explains."""
        self.ledger.problems.append(f"{what}: {answered.status} {answered.raw.decode()}")


class Shopper(Caller):
    """Creates payments and takes each one somewhere, one after the other.

    Attributes:
        pause_max_s: Between two payments.
        glimpse_s: Between two looks of who looks on.
    """

    pause_max_s = PAUSE_MAX_S
    glimpse_s = GLIMPSE_S

    def __init__(
        self, name: str, open_door: Callable[[], Door], at: Furnished, ledger: Ledger, rng: Random
    ) -> None:
        super().__init__(open_door, at, ledger, rng)
        self.name = name
        self._ways: tuple[Callable[[Told], Awaitable[None]], ...] = (
            self._leave,
            self._cancel,
            self._cancel_by_key,
            self._cancel_as_buyer,
            self._pay,
            self._pay,
            self._pay,
            self._simulate,
        )

    async def live(self, until: trio.Event) -> None:
        number = 0
        while not until.is_set():
            number += 1
            told = await self._create(f"{self.name}-{number}")
            if told is not None:
                await self._take(told, self.rng.choice(self._ways))
                for _ in range(self.rng.randrange(3)):
                    await self._read(told)
            await trio.sleep(self.rng.random() * self.pause_max_s)

    async def _create(self, reference: str) -> Told | None:
        self.ledger.asked.add(reference)
        value = str(self.rng.randrange(100, 100_000))
        path = self.rng.choice(("/v1/payments", "/v1/merchant/payment"))
        body = {"referenceId": reference, "amount": {"unit": "iso4217/USD", "value": value}}
        if self.rng.random() < 0.6:
            answers = [await self.insist("POST", path, body, idempotency_key=reference)]
            if self.rng.random() < 0.2 and answers[0].status == 201:
                answers.append(await self.insist("POST", path, body, idempotency_key=reference))
            self.ledger.answers[reference] = [one.raw for one in answers if one.status == 201]
            answered = answers[0]
        else:
            try:
                answered = await self.ask("POST", path, body)
            except Lost:
                self.ledger.doubtful.add(reference)
                return None
        if answered.status != 201:
            self.refuse(answered, "create")
            return None
        made = answered.body
        told = Told(made["paymentId"], reference, value, made["expiresAt"])
        self.ledger.payments[told.payment_id] = told
        self.ledger.newest = told.payment_id
        return told

    async def _take(self, told: Told, way: Callable[[Told], Awaitable[None]]) -> None:
        """Take a payment somewhere, mostly with somebody looking on."""
        async with trio.open_nursery() as nursery:
            if self.rng.random() < 0.7:
                nursery.start_soon(
                    look_on, self._open_door(), self.at, self.ledger, told.payment_id, self.glimpse_s
                )
            await way(told)
            nursery.cancel_scope.cancel()

    async def _read(self, told: Told) -> None:
        query = "?maxPollMs=150" if self.rng.random() < 0.2 else ""
        path = self.rng.choice(("/v1/payments", "/v1/gateway/payment"))
        answered = await self.insist("GET", f"{path}/{told.payment_id}/status{query}")
        if answered.status == 200:
            told.statuses.append(answered.body["status"])
        else:
            self.refuse(answered, "status")

    async def _leave(self, told: Told) -> None:
        await self._read(told)

    async def _cancel(self, told: Told) -> None:
        try:
            answered = await self.ask("POST", f"/v1/payments/{told.payment_id}/cancel")
        except Lost:
            await self._read(told)
            return
        self._cancelled(told, answered)

    async def _cancel_by_key(self, told: Told) -> None:
        path = f"/v1/payments/{told.payment_id}/cancel"
        answered = await self.insist("POST", path, idempotency_key=f"cancel {told.reference}")
        self._cancelled(told, answered)
        told.cancel_refused = answered.status != 200

    async def _cancel_as_buyer(self, told: Told) -> None:
        try:
            answered = await self.ask("POST", f"/v1/gateway/payment/{told.payment_id}/cancel")
        except Lost:
            await self._read(told)
            return
        self._cancelled(told, answered)

    def _cancelled(self, told: Told, answered: Answered) -> None:
        if answered.status == 200:
            told.statuses.append("cancelled")
            told.cancelled_at = answered.body["cancelledAt"]
        elif answered.body["code"] not in OVERTAKEN:
            self.refuse(answered, "cancel")

    async def _pay(self, told: Told) -> None:
        account = self.rng.choice((APPROVES, APPROVES, BUYER, BUYER, HELD, SETTLES_LATE))
        found = await self.insist("POST", f"/v1/gateway/payment/{told.payment_id}/options", [account])
        options = found.body.get("options") if found.status == 200 else None
        if options is None:
            if found.status not in (200, 410):
                self.refuse(found, "options")
            return
        body = {"optionId": options[0]["id"], "results": [{"type": "walletRpc", "data": [SIGNATURE]}]}
        path = f"/v1/gateway/payment/{told.payment_id}/confirm"
        confirmed = await self.insist("POST", path, body)
        if confirmed.status == 200:
            told.statuses.append(confirmed.body["status"])
            if confirmed.body["status"] in ("processing", "succeeded"):
                told.paid_by = account
        elif confirmed.body["code"] not in OVERTAKEN:
            self.refuse(confirmed, "confirm")

    async def _simulate(self, told: Told) -> None:
        to = self.rng.choice(("processing", "succeeded", "failed", "expired", "cancelled"))
        try:
            moved = await self.ask("POST", f"/v1/test/payments/{told.payment_id}/simulate", {"to": to})
        except Lost:
            await self._read(told)
            return
        if moved.status == 200:
            told.statuses.append(moved.body["status"])
        elif moved.body["code"] not in OVERTAKEN:
            self.refuse(moved, "simulate")


class ClockMover(Caller):
    """Moves the realm's clock now and then, so that retries and expiries fall due between the deaths."""

    pause_max_s = 1.3

    async def live(self, until: trio.Event) -> None:
        while not until.is_set():
            await trio.sleep(self.pause_max_s * (0.25 + 0.75 * self.rng.random()))
            try:
                await self.ask("POST", "/v1/test/clock", {"advance": self.rng.choice(ADVANCES)})
            except Lost:
                continue


async def look_on(door: Door, at: Furnished, ledger: Ledger, payment_id: str, every_s: float) -> None:
    """Read a payment's status again and again while somebody else moves it."""
    try:
        with contextlib.suppress(Lost):
            while True:
                found = await door.ask("GET", f"/v1/payments/{payment_id}/status", None, at.headers)
                if found.status == 200:
                    ledger.glimpses.add((payment_id, found.body["status"]))
                await trio.sleep(every_s)
    finally:
        with trio.CancelScope(shield=True):
            await door.close()


async def watch_pages(server: Server, ledger: Ledger, patience_s: float = PAGE_PATIENCE_S) -> None:
    """A page that follows the newest payment, then a newer one, and reconnects."""
    while True:
        port = await server.wait_up()
        payment_id = ledger.newest

        def take(message: str | bytes, of: str = payment_id) -> None:
            shown = msgspec.json.decode(message)
            ledger.frames.add((of, shown["version"], shown["status"]))

        with trio.move_on_after(patience_s):
            await hear(port, f"/v1/payments/{payment_id}/feed", take)
        await trio.sleep(LOOK_AGAIN_S)


async def listen_to_account(server: Server, at: Furnished, ledger: Ledger) -> None:
    """Hear every event of the account, resuming from the last cursor."""

    def take(message: str | bytes) -> None:
        heard = msgspec.json.decode(message, type=_Heard)
        ledger.cursor = heard.cursor
        ledger.heard.append(bytes(heard.event))

    while True:
        port = await server.wait_up()
        await hear(port, f"/v1/feed?after={quote(ledger.cursor)}", take, [(b"api-key", at.key.encode())])
        await trio.sleep(LOOK_AGAIN_S)


async def hear(
    port: int,
    path: str,
    take: Callable[[str | bytes], None],
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Take what a websocket says, until it ends one way or another."""
    try:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream, trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE_MAX_S):
                socket = await wrap_client_stream(nursery, stream, "127.0.0.1", path, extra_headers=headers)
            with contextlib.suppress(ConnectionClosed):
                while True:
                    take(await socket.get_message())
            nursery.cancel_scope.cancel()
    except* (HandshakeError, OSError, trio.BrokenResourceError, trio.TooSlowError):
        pass


class _Heard(msgspec.Struct):
    cursor: str
    event: msgspec.Raw
