"""The doctor asks for base_url as a buyer would, and goes to webhooks' hosts as a delivery would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from payd.actors.poster import WebhookRules
from payd.cli.doctor import _examine_outside
from payd.cli.doctor_outside import (
    ALL_HOSTS_S,
    AT_ONCE_MAX,
    DAY_S,
    HOUR_S,
    LATE,
    examine_origins,
    examine_public_url,
    origins_of,
)
from payd.cli.finding import Finding
from payd.config import Config, load
from payd.net.dns import DnsFailed
from payd.net.http import Client, Target, tls_context
from payd.web.admin import SOCKET_NAME
from payd.web.command import Mode
from tests.cli.test_act import server
from tests.receiver import CA_FILE, Does, Receiver, always, server_tls
from tests.terminal import Terminal

LIVE = '[[chains]]\nid = "eip155:8453"\nrpc = ["https://a.example"]\n'
PAYD = Does(headers=(("request-id", "req_1"),), body=b'{"status":"ok"}')
URL = "https://receiver.test"
NOW_MS = 1_800_000_000_000


async def resolve_public(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["93.184.216.34"]


async def resolve_inside(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["10.0.0.5"]


async def resolve_nothing(_host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    raise DnsFailed("no such name")


async def dial_refused(_address: str, _port: int) -> trio.abc.Stream:
    await trio.lowlevel.checkpoint()
    raise ConnectionRefusedError(111, "Connection refused")


async def dial_silence(_address: str, _port: int) -> trio.abc.Stream:
    await trio.sleep_forever()
    raise AssertionError


def configured(folder: Path, url: str = URL, *, live: bool = True) -> Config:
    file = folder / "payd.toml"
    file.write_text(f'base_url = "{url}"\n{LIVE if live else ""}')
    return load(file, {})


@asynccontextmanager
async def host(does: Does, certificate: str = "receiver") -> AsyncIterator[tuple[Client, Receiver]]:
    """What stands at every public address, in memory and with TLS."""
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, always(does), tls=server_tls(certificate))
        tls = tls_context(CA_FILE)
        client = Client(may_call=lambda _: True, tls=tls, resolve=resolve_public, dial=receiver.dial)
        yield client, receiver
        await client.aclose()
        nursery.cancel_scope.cancel()


async def found(
    folder: Path, does: Does, *, live: bool = True, certificate: str = "receiver"
) -> list[Finding]:
    async with host(does, certificate) as (client, _):
        return await examine_public_url(configured(folder, live=live), client, NOW_MS)


async def test_a_payd_behind_its_proxy_is_well(tmp_path: Path) -> None:
    certificate, answer = await found(tmp_path, PAYD)
    assert (certificate.level, answer.level) == ("ok", "ok")
    assert certificate.words.startswith("the certificate of receiver.test holds for 3")
    assert answer.words == "a payd answers at receiver.test, 93.184.216.34"


async def test_only_what_says_that_it_lives_is_asked_for(tmp_path: Path) -> None:
    async with host(PAYD) as (client, receiver):
        await examine_public_url(configured(tmp_path), client, NOW_MS)
        assert [(one.method, one.path) for one in receiver.received] == [("GET", "/livez")]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (Does(status=502), "with 502, and payd does not"),
        (Does(body=b'{"status":"ok"}'), "is no payd: 200"),
        (Does(headers=(("request-id", "req_1"),), body=b"<html>"), "is no payd: 200"),
        (Does(status=301, headers=(("location", "https://www.receiver.test"),)), "is no payd: 301"),
        (Does(hangs=True), "gives no answer: no answer within"),
    ],
)
async def test_what_answers_in_payd_s_place_is_an_error_where_there_is_money(
    tmp_path: Path, does: Does, words: str
) -> None:
    _, answer = await found(tmp_path, does)
    assert (answer.level, answer.what_to_do != "") == ("error", True)
    assert words in answer.words
    assert (await found(tmp_path, does, live=False))[1].level == "warning"


@pytest.mark.parametrize("certificate", ["expired", "other", "selfsigned"])
async def test_a_certificate_that_proves_nothing_is_an_error(tmp_path: Path, certificate: str) -> None:
    [finding] = await found(tmp_path, PAYD, certificate=certificate)
    assert (finding.level, "TLS failed" in finding.words) == ("error", True)
    assert "certificate for this name" in finding.what_to_do


@pytest.mark.parametrize(("late_s", "level"), [(-HOUR_S, "ok"), (HOUR_S, "warning")])
async def test_a_certificate_that_should_have_been_renewed_is_a_warning(
    tmp_path: Path, late_s: int, level: str
) -> None:
    async with host(PAYD) as (client, _):
        greeting = await client.greet(Target.of(URL))
        assert greeting.certificate is not None
        begins_s, ends_s = greeting.certificate
        at_s = ends_s - (ends_s - begins_s) // LATE + late_s
        certificate, _ = await examine_public_url(configured(tmp_path), client, at_s * 1000)
        assert certificate.level == level
        last, _ = await examine_public_url(configured(tmp_path), client, (ends_s - DAY_S) * 1000)
        assert last.words.endswith("holds for 24 hours")


async def test_a_host_that_is_not_reached_is_an_error_with_its_cause(tmp_path: Path) -> None:
    cases = {
        "its name does not resolve": Client(may_call=lambda _: True, resolve=resolve_nothing),
        "the connection was refused": Client(
            may_call=lambda _: True, resolve=resolve_public, dial=dial_refused
        ),
        "no connection within": Client(may_call=lambda _: True, resolve=resolve_public, dial=dial_silence),
    }
    for words, client in cases.items():
        [finding] = await examine_public_url(configured(tmp_path), client, NOW_MS)
        assert (finding.level, finding.what_to_do != "") == ("error", True)
        assert f"cannot be reached from this machine: {words}" in finding.words


@pytest.mark.parametrize(
    "url", ["", "http://127.0.0.1:8420", "http://localhost:8420", "https://[::1]", "https://pay.localhost"]
)
async def test_nothing_is_said_of_a_house_on_its_own_machine(tmp_path: Path, url: str) -> None:
    client = Client(may_call=lambda _: True, resolve=resolve_nothing, dial=dial_refused)
    assert await examine_public_url(configured(tmp_path, url), client, NOW_MS) == []


ORIGIN = "https://receiver.test:443"
OPEN = WebhookRules(allow_http=True)


async def looked_at(mode: Mode, *origins: str, certificate: str = "receiver") -> list[tuple[str, str, str]]:
    """Levels, subjects and words for hosts that are all the same."""
    async with host(Does(), certificate) as (client, receiver):
        findings = await examine_origins(origins, mode, WebhookRules(), client, NOW_MS)
        assert receiver.received == [], "nothing is sent"
    return [(one.level, one.subject, one.words) for one in findings]


async def test_a_host_of_webhooks_is_greeted_and_sent_nothing() -> None:
    reached, certificate = await looked_at("live", ORIGIN)
    assert reached == ("ok", "webhooks to receiver.test", "the host is reached at 93.184.216.34")
    assert certificate[:2] == ("ok", "webhooks to receiver.test")


async def test_a_host_that_webhooks_do_not_reach_is_an_error_in_live_mode_alone() -> None:
    levels: dict[Mode, str] = {"live": "error", "test": "warning"}
    for mode, level in levels.items():
        [(found_level, subject, words)] = await looked_at(mode, ORIGIN, certificate="expired")
        assert (found_level, subject) == (level, "webhooks to receiver.test")
        assert words.startswith("the host cannot be reached: TLS failed (")
        [plain] = await looked_at(mode, "http://receiver.test:80")
        assert (plain[0], "plain http" in plain[2]) == (level, True)


async def test_an_address_that_deliveries_may_not_call_is_not_called() -> None:
    async with host(Does()) as (_, receiver):
        client = Client(may_call=WebhookRules().may_call, resolve=resolve_inside, dial=receiver.dial)
        [finding] = await examine_origins([ORIGIN], "live", WebhookRules(), client, NOW_MS)
        assert receiver.connections == 0
    assert (finding.level, "may not call" in finding.words) == ("error", True)
    assert "allow_networks" in finding.what_to_do


async def test_a_shop_on_this_machine_may_be_down_in_test_mode() -> None:
    client = Client(may_call=lambda _: True, resolve=resolve_public, dial=dial_refused)
    here = ["http://127.0.0.1:5000", "https://localhost:443"]
    assert await examine_origins(here, "test", OPEN, client, NOW_MS) == []
    assert len(await examine_origins(here, "live", OPEN, client, NOW_MS)) == 2


async def test_many_hosts_that_say_nothing_take_no_longer_than_a_person_waits() -> None:
    client = Client(may_call=lambda _: True, resolve=resolve_public, dial=dial_silence)
    origins = [f"https://{number}.test:443" for number in range(10 * AT_ONCE_MAX)]
    started_s = trio.current_time()
    *findings, last = await examine_origins(origins, "live", OPEN, client, NOW_MS)
    assert trio.current_time() - started_s == ALL_HOSTS_S
    assert len(findings) >= 3 * AT_ONCE_MAX
    left = len(origins) - len(findings)
    assert (last.level, f"no time was left to look at {left} of 320 hosts" in last.words) == ("warning", True)


@pytest.mark.real_time
async def test_a_server_that_does_not_run_or_knows_no_such_mode_has_no_hosts(tmp_path: Path) -> None:
    config = load(None, {"PAYD_DATA_DIR": str(tmp_path)})
    assert await origins_of(config, "test") == []
    with server(tmp_path, b'{"error": {"code": "invalid_params", "message": "no"}}\n'):
        assert await origins_of(config, "live") == []
    (tmp_path / SOCKET_NAME).unlink()
    with server(tmp_path, b'{"result": ["https://receiver.test:443"]}\n') as asked:
        assert await origins_of(config, "live") == [ORIGIN]
    assert asked == [b'{"command":"webhook.origins","args":{"mode":"live"}}\n']


@pytest.mark.real_time
def test_the_command_asks_the_hosts_too(begun: Terminal) -> None:
    with server(begun.folder / "data", b'{"result": ["https://shop.invalid:443"]}\n'):
        found = trio.run(_examine_outside, load(None, {"PAYD_DATA_DIR": str(begun.folder / "data")}))
    assert [(one.level, one.subject) for one in found] == [
        ("warning", "webhooks to shop.invalid"),
        ("error", "webhooks to shop.invalid"),
    ]


@pytest.mark.real_time
def test_the_command_asks(begun: Terminal) -> None:
    (begun.folder / "data" / "payd.toml").write_text('base_url = "https://pay.invalid"\n')
    shown = begun("doctor").output
    assert "pay.invalid cannot be reached from this machine: its name does not resolve" in shown
