"""The client over TLS on loopback: whose certificates it believes, which versions it speaks."""

from __future__ import annotations

import ssl
import warnings

import pytest
import trio

from payd.net.http import Client, Reply, Target, tls_context
from tests.receiver import CA_FILE, Does, Receiver, Script, always, in_turn, server_tls

pytestmark = pytest.mark.real_time

TRUSTING = tls_context(CA_FILE)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Tls = ssl.SSLContext | None


async def over_tls(script: Script, *, name: str = "receiver", served: Tls = None, tls: Tls = None) -> Reply:
    """One POST to a real listener on loopback."""
    async with trio.open_nursery() as nursery:
        port = await Receiver(nursery, script, tls=served or server_tls(name)).listen()
        client = Client(may_call=lambda _: True, tls=tls or TRUSTING)
        reply = await client.send("POST", Target.of(f"https://127.0.0.1:{port}/hook"), [], b"{}")
        await client.aclose()
        nursery.cancel_scope.cancel()
    return reply


async def test_a_certificate_of_a_private_authority_is_accepted_when_it_was_added() -> None:
    reply = await over_tls(always(Does(status=204, body=b"")))

    assert (reply.status, reply.remote_ip) == (204, "127.0.0.1")
    assert None not in (reply.timing.dns_ms, reply.timing.connect_ms, reply.timing.tls_ms)


@pytest.mark.parametrize("name", ["other", "expired"])
async def test_a_certificate_for_another_name_or_time_is_refused(name: str) -> None:
    reply = await over_tls(always(Does()), name=name)

    assert (reply.status, reply.error_class) == (None, "tls_error")
    assert "certificate" in reply.detail


async def test_tls_older_than_1_2_is_refused() -> None:
    receivers, careless = server_tls(), ssl.create_default_context(cafile=CA_FILE)
    careless.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        receivers.minimum_version, receivers.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    for each in (receivers, careless):
        each.set_ciphers("ALL:@SECLEVEL=0")
    refused = await over_tls(always(Does()), served=receivers)
    assert (refused.status, refused.error_class) == (None, "tls_error")
    assert (await over_tls(always(Does()), served=receivers, tls=careless)).status == 200


async def test_an_authority_that_nobody_added_is_refused() -> None:
    assert (await over_tls(always(Does()), tls=tls_context())).error_class == "tls_error"


async def test_a_tls_connection_is_used_again_and_a_dead_one_replaced() -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(
            nursery,
            in_turn(Does(), Does(raw=OK), Does()),
            tls=server_tls(),
        )
        target = Target.of(f"https://127.0.0.1:{await receiver.listen()}/hook")
        client = Client(may_call=lambda _: True, tls=TRUSTING)
        statuses = [(await client.send("POST", target, [], b"{}")).status for _ in range(4)]

        assert statuses == [200, 200, 200, 200]
        assert receiver.connections == 2
        await client.aclose()
        nursery.cancel_scope.cancel()
