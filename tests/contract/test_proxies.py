"""A real payd behind Caddy and nginx, each with README.md's lines but for names, ports and certificates.

Source: DESIGN.md, "12. Operations"
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio
from PIL import Image
from trio_websocket import WebSocketConnection, wrap_client_stream

from tests.contract.outside import (
    PATIENCE_S,
    Caller,
    Shop,
    assert_refused,
    magic_buyer,
    ok,
    open_server,
    until,
)
from tests.contract.test_feeds import read
from tests.packages import from_debian
from tests.process import free_port
from tests.test_readme import README, blocks_of

NAME: Final = "pay.example.com"
UPSTREAM: Final = "127.0.0.1:8420"
TLS: Final = Path(__file__).parents[1] / "tls"
TRUSTING: Final = '[http]\ntrusted_proxies = ["127.0.0.1"]\n'  # as README.md has it before the two
LONG_POLL_MAX_S: Final = 55
LOGO_MAX: Final = 2 << 20

CADDY_OPTIONS: Final = """\
{
	admin off
	auto_https disable_redirects
	default_bind 127.0.0.1
	skip_install_trust
}
"""
NGINX_AROUND: Final = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{text}
}}
"""


@dataclass(frozen=True)
class Place:
    """Where a proxy runs: a folder of its own, its port, and the address of payd behind it."""

    folder: Path
    port: int
    upstream: str


@dataclass(frozen=True)
class Proxied:
    """A payd behind a proxy, as the internet sees it.

    Attributes:
        url: The proxy's, with https.
        authority: Of its certificate.
        shop: An account of payd's, called through the proxy.
    """

    url: str
    authority: Path
    shop: Shop

    @contextmanager
    def client(self, address: str = "127.0.0.1", *, http2: bool = False) -> Iterator[httpx.Client]:
        """Somebody at one of this machine's addresses."""
        tls = ssl.create_default_context(cafile=self.authority)
        transport = httpx.HTTPTransport(verify=tls, http2=http2, local_address=address)
        with httpx.Client(base_url=self.url, transport=transport, timeout=PATIENCE_S) as client:
            yield client

    @asynccontextmanager
    async def follow(self, payment_id: str) -> AsyncIterator[WebSocketConnection]:
        """The websocket of a payment's page; its connection is closed with it."""
        tls = ssl.create_default_context(cafile=self.authority)
        host, _, port = self.url.removeprefix("https://").partition(":")
        path = f"/v1/payments/{payment_id}/feed"
        async with (
            await trio.open_ssl_over_tcp_stream(
                host, int(port), https_compatible=True, ssl_context=tls
            ) as to,
            trio.open_nursery() as nursery,
        ):
            with trio.fail_after(PATIENCE_S):
                socket = await wrap_client_stream(nursery, to, host, path)
            yield socket
            with trio.fail_after(PATIENCE_S):
                await socket.aclose()


def text_of(proxy: str) -> str:
    """The lines of README.md for one of the two."""
    [text] = [
        block.text
        for block in blocks_of(README.read_text())
        if block.mark == "proxy" and ("reverse_proxy" in block.text) == (proxy == "caddy")
    ]
    return text


def put(text: str, *pairs: tuple[str, str]) -> str:
    """A text with something else in place of what it has."""
    for old, new in pairs:
        assert old in text, f"README.md has no {old!r} there"
        text = text.replace(old, new)
    return text


def caddy(place: Place) -> tuple[list[str], Path]:
    """The command that runs Caddy, and the authority that it makes for itself."""
    site = put(text_of("caddy"), (NAME, f"localhost:{place.port}"), (UPSTREAM, place.upstream))
    file = place.folder / "Caddyfile"
    file.write_text(CADDY_OPTIONS + site)
    command = [from_debian("caddy", "caddy"), "run", "--config", str(file)]
    return command, place.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"


def nginx(place: Place) -> tuple[list[str], Path]:
    """The command that runs nginx, which has to take the file, and the authority of its certificate."""
    pem = str(TLS / "receiver.pem")
    text = put(
        text_of("nginx"),
        ("listen 443 ", f"listen 127.0.0.1:{place.port} "),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", pem),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", pem),
        (NAME, "localhost"),
        (UPSTREAM, place.upstream),
    )
    file = place.folder / "nginx.conf"
    file.write_text(NGINX_AROUND.format(folder=place.folder, text=text))
    command = [from_debian("nginx", "nginx"), "-p", str(place.folder), "-c", str(file)]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    return command, TLS / "ca.pem"


PROXIES: Final[dict[str, Callable[[Place], tuple[list[str], Path]]]] = {"caddy": caddy, "nginx": nginx}


@contextmanager
def running(command: list[str], place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """The proxy for as long as it is used; what it says is in `proxy.log`."""
    env = {**os.environ, "XDG_DATA_HOME": str(place.folder), "XDG_CONFIG_HOME": str(place.folder)}
    with (place.folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def is_open(url: str, authority: Path) -> bool:
    """Whether payd answers through the proxy."""
    try:
        tls = ssl.create_default_context(cafile=authority)
        return httpx.get(f"{url}/livez", verify=tls).status_code == 200
    except (httpx.TransportError, FileNotFoundError):
        return False


@pytest.fixture(scope="module", params=PROXIES)
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """A payd behind each of them."""
    port = free_port()
    url = f"https://localhost:{port}"
    settings = f'base_url = "{url}"\n{TRUSTING}[rate_limits]\nper_ip = 4\n'
    with open_server(tmp_path_factory.mktemp("payd"), settings) as server:
        place = Place(tmp_path_factory.mktemp("proxy"), port, server.url.removeprefix("http://"))
        command, authority = PROXIES[request.param](place)
        with running(command, place) as process:
            until(lambda: process.poll() is not None or is_open(url, authority), timeout_s=3 * PATIENCE_S)
            assert process.poll() is None, (place.folder / "proxy.log").read_text()
            tls = ssl.create_default_context(cafile=authority)
            with httpx.Client(base_url=url, verify=tls, timeout=PATIENCE_S) as client:
                yield Proxied(url, authority, server.shop("proxied", client))


def test_caddy_takes_the_text_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "Caddyfile"
    file.write_text(text_of("caddy"))
    program = from_debian("caddy", "caddy")
    adapted = subprocess.run([program, "adapt", "--config", str(file)], capture_output=True, check=False)
    assert adapted.returncode == 0, adapted.stderr
    shown = subprocess.run([program, "fmt", str(file)], capture_output=True, text=True, check=False)
    assert shown.stdout == text_of("caddy")


def test_no_proxy_gives_up_a_long_poll(proxied: Proxied) -> None:
    """Nobody waits for it here: what nginx is told is longer than payd holds one, and Caddy has no limit."""
    [timeout] = re.findall(r"proxy_read_timeout (\d+)s;", text_of("nginx"))
    assert int(timeout) > LONG_POLL_MAX_S
    merchant_id = proxied.shop.merchant()
    api = proxied.shop.api.having(Merchant_Id=merchant_id)
    path = f"/v1/payments/{proxied.shop.payment(merchant_id)}/status"
    held = ok(api.get(path, maxPollMs=100))
    assert (held["status"], held["isFinal"]) == ("requires_action", False)


def test_no_proxy_becomes_a_tunnel_to_payd(proxied: Proxied) -> None:
    """It looks at nothing that follows an upgrade, and payd would take it all for the proxy's own word."""
    upgrade = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAAP__",
    }
    with proxied.client() as stranger:
        plain, upgraded = stranger.get("/livez"), stranger.get("/livez", headers=upgrade)
    assert (upgraded.status_code, upgraded.content) == (200, plain.content)


def test_a_payment_is_made_and_its_page_opened_by_the_public_name(proxied: Proxied) -> None:
    shop = proxied.shop
    body = {"referenceId": "order-1", "amount": {"unit": "iso4217/USD", "value": "1250"}}
    made = ok(shop.api.having(Merchant_Id=shop.merchant()).post("/v1/payments", body), 201)
    assert made["gatewayUrl"].startswith(f"{proxied.url}/")
    with proxied.client(http2=True) as buyer:
        page = buyer.get(made["gatewayUrl"])
    assert (page.status_code, page.http_version) == (200, "HTTP/2")
    assert "12.50" in page.text


@pytest.mark.real_time
async def test_a_page_follows_its_payment_through_the_proxy(proxied: Proxied) -> None:
    shop = proxied.shop
    payment_id = await trio.to_thread.run_sync(lambda: shop.payment(shop.merchant()))
    async with proxied.follow(payment_id) as socket:
        seen = [await read(socket)]
        await trio.to_thread.run_sync(shop.pay, payment_id, magic_buyer(4))
        seen.append(await read(socket))
        await trio.to_thread.run_sync(shop.simulate, payment_id, "succeeded")
        seen.append(await read(socket))
    assert [message["status"] for message in seen] == ["requires_action", "processing", "succeeded"]


def test_a_logo_of_2_mib_passes_and_payd_itself_refuses_a_larger_one(
    proxied: Proxied, tmp_path: Path
) -> None:
    width, height = 834, 836  # noise packs to no less than its 3 bytes a pixel
    file = tmp_path / "logo.png"
    Image.frombytes("RGB", (width, height), os.urandom(3 * width * height)).save(file)
    logo = file.read_bytes()
    assert 0 < LOGO_MAX - len(logo) < 10_000
    api = proxied.shop.api.having(Content_Type="image/png")
    path = f"/v1/merchants/{proxied.shop.merchant()}/logo"

    def send(picture: bytes) -> httpx.Response:
        # A process is made to read the picture, which takes its time where many are made.
        return api.http.put(path, headers=dict(api.headers), content=picture, timeout=6 * PATIENCE_S)

    assert send(logo).status_code == 200
    assert_refused(send(bytes(LOGO_MAX + 1)), 413, "body_too_large")
    assert send(bytes(2 * LOGO_MAX)).status_code == 413
    with proxied.client() as buyer:
        shown = ok(api.get(path.removesuffix("/logo")))["logo"]["url"]
        assert buyer.get(shown).headers["content-type"] == "image/webp"


def test_payd_counts_callers_by_their_own_address_whatever_they_say(proxied: Proxied) -> None:
    with proxied.client("127.0.0.2") as caller:
        statuses = [
            Caller(caller, {"X-Forwarded-For": f"198.51.100.{number}"}).get("/versions").status_code
            for number in range(16)
        ]
    assert statuses[:8] == [200] * 8
    assert 429 in statuses[8:]
    with proxied.client("127.0.0.3") as other:
        assert other.get("/versions").status_code == 200
