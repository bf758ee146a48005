"""One server for all contract tests, its accounts, and a receiver for its webhooks."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.contract.outside import Caller, Receiver, Server, Shop, open_receiver, open_server
from tests.contract.verifiers import (
    NODE_PACKAGES,
    Verify,
    node_verifier,
    python_standardwebhooks,
    python_svix,
)
from tests.packages import CACHE, from_npm
from tests.short import IS_SHORT

# A receiver on this machine, as a developer opens it. Refused credentials have no limit here, because these
# tests are refused more often than a caller should be; test_rate_limits.py has a server of its own.
CONFIGURATION = """
[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8"]

[rate_limits]
failed_auth = 0
"""
# Small buckets, this machine believed about who asks, and webhooks as closed as they are shipped.
STRICT = """
[http]
trusted_proxies = ["127.0.0.1"]

[rate_limits]
per_key = 3
per_ip = 4
failed_auth = 2
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("payd"), CONFIGURATION) as running:
        yield running


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second server, which refuses what the first lets pass."""
    with open_server(tmp_path_factory.mktemp("strict"), STRICT) as running:
        yield running


# A connection that its request ends is hypercorn's; one that stays is the lane's, where the path is.
DOORS: Final = {"lane": "keep-alive", "hypercorn": "close"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have each test that calls the server come by both doors."""
    if "http" in metafunc.fixturenames:
        metafunc.fixturenames.append("way")
        metafunc.parametrize("way", DOORS, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a short run each test comes by one door: half of them by each."""
    if not IS_SHORT:
        return
    left_out = {id(item) for item in items if _door_of(item) not in {None, _chosen_door(item)}}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def _door_of(item: pytest.Item) -> str | None:
    called = getattr(item, "callspec", None)
    return None if called is None else called.params.get("way")


def _chosen_door(item: pytest.Item) -> str:
    name = item.nodeid.replace("lane", "").replace("hypercorn", "")
    return [*DOORS][zlib.crc32(name.encode()) % len(DOORS)]


@pytest.fixture(scope="session")
def http(server: Server) -> Iterator[httpx.Client]:
    # A connection that was handed on stays so: none is used twice. A long poll may take longer than any
    # other answer.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=server.url, timeout=20, limits=limits) as client:
        yield client


@pytest.fixture
def way(request: pytest.FixtureRequest, http: httpx.Client) -> Iterator[str]:
    """By which door the requests of a test come."""
    http.headers["connection"] = DOORS[request.param]
    yield request.param
    http.headers["connection"] = DOORS["lane"]


@pytest.fixture(scope="session")
def shops(server: Server, http: httpx.Client) -> dict[str, Shop]:
    """Accounts that do not disturb each other: a webhook endpoint is one for each account."""
    names = ["till", "other", "hooks", "repair", "endpoint"]
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda name: server.shop(name, http), names)
        return dict(zip(names, made, strict=True))


@pytest.fixture(scope="session")
def shop(shops: dict[str, Shop]) -> Shop:
    """The account of the tests that look at no webhook."""
    return shops["till"]


@pytest.fixture(scope="session")
def other(shops: dict[str, Shop]) -> Shop:
    """Another account on the same server."""
    return shops["other"]


@pytest.fixture(scope="session")
def nobody(http: httpx.Client) -> Caller:
    """Somebody without any credential."""
    return Caller(http)


@pytest.fixture(scope="session")
def merchant_id(shop: Shop) -> str:
    """A merchant that is paid in USDC."""
    return shop.merchant()


@pytest.fixture(scope="session")
def app_id(server: Server, shop: Shop) -> str:
    made = server.cli_json("app", "create", "--mode", "test", "--account", shop.account_id)
    return str(made["appId"])


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    with open_receiver() as serving:
        yield serving


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """A folder from which Node finds the pinned verifiers; installed once and kept."""
    return from_npm(CACHE / "node", NODE_PACKAGES)


@pytest.fixture(
    scope="session", params=["PyPI standardwebhooks", "PyPI svix", "npm standardwebhooks", "npm svix"]
)
def verify(request: pytest.FixtureRequest, node_modules: Path) -> Verify:
    """Somebody else's verifier, each in turn."""
    verifiers: dict[str, Verify] = {
        "PyPI standardwebhooks": python_standardwebhooks,
        "PyPI svix": python_svix,
        **{f"npm {name}": node_verifier(name, node_modules) for name in NODE_PACKAGES},
    }
    return verifiers[request.param]
