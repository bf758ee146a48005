"""Logos are copied from where merchants say, as webhooks are sent: never inward, never for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog.testing
import trio

from payd.actors.logos import AT_ONCE_MAX, Logos, problem_of
from payd.actors.poster import WebhookRules
from payd.clock import Clock
from payd.core.picture import BYTES_MAX, RETRIES_S
from payd.net.http import Client, Reply, tls_context
from payd.store.db import Database
from payd.store.logos import Logo, find_logo, find_picture, put_picture, shown_logo, wish_copy
from tests.pictures import SVG, HerePictures, bomb, decoded, plain
from tests.receiver import CA_FILE, Does, Receiver, Script, always, in_turn, server_tls
from tests.virtual_wall import VirtualWall

URL = "https://receiver.test/logo.png?size=512"
PUBLIC = "93.184.216.34"
PICTURE = Does(headers=(("content-type", "image/png"),), body=plain())


@dataclass
class Bench:
    """The copies of one realm, one host that has the pictures, and what is called."""

    logos: Logos
    db: Database
    clock: Clock
    receiver: Receiver
    addresses: list[str]
    dialled: list[str] = field(default_factory=list)

    async def wish(self, url: str = URL, merchant: str = "mrch_1") -> None:
        await self.db.write(wish_copy, merchant, url, self.clock.real_ms())

    def logo(self, merchant: str = "mrch_1") -> Logo:
        found = self.db.point(find_logo, merchant)
        assert found is not None
        return found

    async def problem(self, url: str = URL) -> str:
        """Why a copy fails, which shows nothing."""
        await self.wish(url)
        await self.logos.run_once()
        logo = self.logo()
        assert logo.digest is None
        return logo.problem or ""


@asynccontextmanager
async def open_bench(db: Database, script: Script | None = None) -> AsyncIterator[Bench]:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, script or always(PICTURE), server_tls())
        clock = Clock(VirtualWall())
        addresses, dialled = [PUBLIC], []

        async def resolve(host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return addresses if host == "receiver.test" else [host]

        async def dial(address: str, port: int) -> trio.abc.Stream:
            dialled.append(address)
            return await receiver.dial(address, port)

        client = Client(
            may_call=WebhookRules().may_call, tls=tls_context(CA_FILE), resolve=resolve, dial=dial
        )
        logos = Logos(db=db, clock=clock, http=client, pictures=HerePictures(), user_agent="payd/9")
        yield Bench(logos, db, clock, receiver, addresses, dialled)
        await client.aclose()
        nursery.cancel_scope.cancel()


async def test_what_is_wished_is_copied_drawn_and_shown(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.wish()
        assert await bench.logos.run_once() == 1
        digest = bench.logo().digest
        assert digest is not None
        picture = realm_db.point(find_picture, digest)
        assert picture is not None
        assert decoded(picture).size == (256, 256)
        [asked] = bench.receiver.received
        assert (asked.method, asked.path, asked.headers["user-agent"]) == (
            "GET",
            "/logo.png?size=512",
            "payd/9",
        )
        assert "cookie" not in asked.headers
        assert await bench.logos.run_once() == 0, "once"
        assert (bench.logos.copied, bench.logos.failed, bench.logos.failing()) == (1, 0, 0)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "fe80::1",
    ],
)
async def test_no_address_inside_is_called_however_it_is_named(realm_db: Database, address: str) -> None:
    async with open_bench(realm_db) as bench:
        host = f"[{address}]" if ":" in address else address
        assert "private or special" in await bench.problem(f"https://{host}/latest/meta-data")
        bench.addresses[:] = [PUBLIC, address]
        assert "private or special" in await bench.problem()
        assert bench.dialled == []
        assert bench.logo().due_at_ms is None, "the same address says the same in a minute"


@pytest.mark.parametrize("where", ["https://169.254.169.254/", "http://127.0.0.1:8420/admin", "/other.png"])
async def test_no_redirect_is_followed_wherever_it_leads(realm_db: Database, where: str) -> None:
    moved = Does(status=302, headers=(("location", where),))
    async with open_bench(realm_db, always(moved)) as bench:
        assert "redirect (302)" in await bench.problem()
        assert len(bench.receiver.received) == 1
        assert bench.dialled == [PUBLIC]
        assert bench.logo().due_at_ms is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://receiver.test/logo.png", "not an https"),
        ("https://user:secret@receiver.test/", "not an https"),
        ("https://receiver.test/é.png", "percent-encoded"),
        ("https://receiver.test:0/", "not an https"),
    ],
)
async def test_an_address_that_cannot_be_called_is_final(realm_db: Database, url: str, words: str) -> None:
    async with open_bench(realm_db) as bench:
        assert words in await bench.problem(url)
        assert bench.dialled == []
        assert bench.logo().due_at_ms is None


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (Does(body=SVG), "SVG"),
        (Does(body=b"<!doctype html>", headers=(("content-type", "image/png"),)), "not a picture"),
        (Does(body=plain()[:200]), "damaged"),
        (Does(body=bomb(30_000, 30_000)), "damaged"),
        (Does(body=bomb(5000, 5000)), "million"),
        (Does(body=b"\x89PNG\r\n\x1a\n".ljust(BYTES_MAX + 100)), "2 MiB"),
    ],
)
async def test_what_comes_and_is_no_logo_is_final(realm_db: Database, does: Does, words: str) -> None:
    async with open_bench(realm_db, always(does)) as bench:
        assert words in await bench.problem()
        assert bench.logo().due_at_ms is None
        assert await bench.logos.run_once() == 0


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (Does(status=404), "404"),
        (Does(status=503), "503"),
        (Does(resets=True), "closed before an answer"),
        (Does(hangs=True), "no answer within 15 s"),
        (Does(drips=True, body=b"x"), "15 s"),
        (Does(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n\x89PNG"), "did not arrive"),
    ],
)
async def test_what_may_pass_is_tried_again(realm_db: Database, does: Does, words: str) -> None:
    async with open_bench(realm_db, in_turn(does, PICTURE)) as bench:
        with structlog.testing.capture_logs() as lines:
            assert words in await bench.problem()
        [line] = [line for line in lines if line["event"] == "logo.not_copied"]
        assert (line["merchant_id"], line["failures"], line["given_up"]) == ("mrch_1", 1, False)
        assert await bench.logos.run_once() == 0, "not at once"
        await trio.sleep(RETRIES_S[0])
        assert await bench.logos.run_once() == 1
        logo = bench.logo()
        assert (logo.problem, logo.failures, logo.due_at_ms) == (None, 0, None)
        assert logo.digest is not None


async def test_by_itself_it_copies_what_is_new_and_what_is_due_again_and_gives_up(realm_db: Database) -> None:
    async with open_bench(realm_db, always(Does(status=500))) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.logos.run)
        await bench.wish()
        bench.logos.wake()
        await trio.sleep(sum(RETRIES_S) + 3600)
        assert len(bench.receiver.received) == len(RETRIES_S) + 1
        assert (bench.logo().due_at_ms, bench.logos.failing()) == (None, 1)
        bench.receiver.script = always(PICTURE)
        await bench.wish()
        bench.logos.wake()
        await trio.sleep(1)
        assert bench.logo().digest is not None
        nursery.cancel_scope.cancel()


async def test_a_logo_that_is_sent_while_one_is_copied_stays(realm_db: Database) -> None:
    gate = trio.Event()
    async with (
        open_bench(realm_db, always(Does(body=plain(), until=gate))) as bench,
        trio.open_nursery() as nursery,
    ):
        await bench.wish()
        nursery.start_soon(bench.logos.run_once)
        await bench.receiver.count(1)
        digest = await realm_db.write(put_picture, "mrch_1", b"RIFFxxxxWEBPsent")
        gate.set()
        await trio.sleep(1)
        assert realm_db.point(shown_logo, "mrch_1") == digest
        assert bench.logos.copied == 0


async def test_hosts_that_hang_hold_up_others_for_a_deadline_at_most(realm_db: Database) -> None:
    def script(received: Any) -> Does:
        return PICTURE if received.path == "/good.png" else Does(hangs=True)

    async with open_bench(realm_db, script) as bench:
        for number in range(AT_ONCE_MAX):
            await bench.wish("https://receiver.test/bad.png", f"mrch_bad{number}")
        await trio.sleep(0.01)
        await bench.wish("https://receiver.test/good.png", "mrch_good")
        began_s = trio.current_time()
        await bench.logos.run_once()
        assert bench.logo("mrch_good").digest is not None
        assert trio.current_time() - began_s < 40
        assert bench.receiver.most_open <= AT_ONCE_MAX


def test_every_way_to_fail_has_words() -> None:
    for error_class in ("dns_error", "blocked_address", "connection_refused", "tls_error", "proxy_error"):
        problem = problem_of(Reply(None, error_class, "", (), b"", False, None, 0))
        assert problem is not None
        assert problem.words.startswith("The picture could not be fetched: ")
        assert problem.is_final is (error_class == "blocked_address")
    assert problem_of(Reply(200, None, "", (), b"x", True, None, 0)) is None
