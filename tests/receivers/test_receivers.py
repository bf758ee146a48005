"""The shops of README.md hear from a real server; what is forged, foreign, late or twice pays nothing."""

from __future__ import annotations

import importlib.metadata
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from tests.contract.conftest import CONFIGURATION
from tests.contract.outside import Server, magic_buyer, ok, open_server, until
from tests.receivers.seller import ENDPOINT, Seller, Sent, moved, open_seller
from tests.receivers.shops import FOLDER, free_ports, install, pages, running, shop_blocks

LINES_MAX: Final = 80
STALE_S: Final = 360  # receivers allow five minutes
OTHER_SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAGES: Final = pages()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("payd"), CONFIGURATION) as opened:
        yield opened


@pytest.fixture(scope="module")
def sellers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Seller]]:
    """All shops at once, each with an account and an endpoint of its own."""
    folder = tmp_path_factory.mktemp("shops")
    for page in PAGES.values():
        install(page)
    with httpx.Client(base_url=server.url, timeout=20) as http, ThreadPoolExecutor(2) as pool:

        def open_one(name: str, *ports: int) -> tuple[str, Seller]:
            return name, open_seller(server, http, PAGES[name], folder / name, ports)

        ports = free_ports(2 * len(PAGES))
        made = dict(pool.map(open_one, PAGES, ports[::2], ports[1::2]))
        with running([shop for each in made.values() for shop in (each.shop, each.twin)]):
            yield made


@pytest.fixture(params=list(PAGES))
def seller(request: pytest.FixtureRequest, sellers: dict[str, Seller]) -> Seller:
    return sellers[request.param]


def test_readme_shows_every_shop_as_it_is_in_its_file() -> None:
    shown = {page.file: page.text for page in PAGES.values()}
    assert shown == {
        path.name: path.read_text()
        for path in FOLDER.iterdir()
        if path.name.startswith("shop") and path.name != "shops.py"
    }
    assert set(PAGES) == {"flask", "uvicorn", "node", "php"}
    assert {name: text.count("\n") for name, text in shown.items() if text.count("\n") > LINES_MAX} == {}


def test_the_commands_of_readme_are_those_at_the_top_of_the_shop() -> None:
    [commands] = [
        block.text.replace("~/shop/", "").strip("()\n") for block in shop_blocks() if block.tag == "sh"
    ]
    flask = PAGES["flask"]
    venv, copied, installs, runs = commands.splitlines()
    assert shlex.split(venv)[-1] == "~/shop"
    assert shlex.split(copied)[1:] == [f"tests/receivers/{flask.file}", "~/shop"]
    assert installs == f"bin/{flask.install}"
    assert runs.endswith(f"bin/{flask.run}")


def test_what_the_python_shops_install_is_what_these_tests_run() -> None:
    needs = {need for page in PAGES.values() if page.install.startswith("pip ") for need in page.needs}
    assert needs == {"flask", "fastapi", "httpx", "standardwebhooks", "uvicorn"}
    assert [name for name in needs if not importlib.metadata.version(name)] == []


def test_an_order_is_paid_by_what_the_server_delivers(seller: Seller) -> None:
    event = seller.sell()
    assert not seller.is_paid(event)
    payment_id = event["data"]["payment_id"]

    seller.owner.pay(payment_id, magic_buyer(1))

    until(lambda: seller.is_paid(event))
    until(lambda: len(seller.answers(payment_id)) >= 3)
    answers = set(seller.answers(payment_id))
    assert answers <= {
        (200, "accepted"),
        (200, "ignored: older than what is known"),
    }  # they may overtake each other
    assert (200, "accepted") in answers


def test_a_payment_that_failed_pays_no_order(seller: Seller) -> None:
    event = seller.sell()
    seller.owner.simulate(event["data"]["payment_id"], "failed")

    until(lambda: len(seller.answers(event["data"]["payment_id"])) == 2)

    assert seller.answers(event["data"]["payment_id"])[0] == (200, "accepted")
    assert not seller.is_paid(event)


def test_what_is_not_signed_by_the_server_is_refused(seller: Seller) -> None:
    event = seller.sell()
    for name, forge in FORGERIES.items():
        status, words = seller.post(forge(seller, moved(event)))
        assert (status, words[:8]) == (400, "refused:"), name
        assert not seller.is_paid(event), name

    # None of them left anything behind that is in the way of the true one.
    assert seller.post(seller.signed(moved(event))) == (200, "accepted")
    assert seller.is_paid(event)


def with_headers(sent: Sent, **changed: str) -> Sent:
    return Sent(sent.body, sent.headers | {name.replace("_", "-"): value for name, value in changed.items()})


def without(sent: Sent, *names: str) -> Sent:
    return Sent(sent.body, {name: value for name, value in sent.headers.items() if name not in names})


def in_another_scheme(sent: Sent) -> Sent:
    return with_headers(sent, webhook_signature=sent.headers["webhook-signature"].replace("v1,", "v1a,"))


FORGERIES: Final[dict[str, Callable[[Seller, Any], Sent]]] = {
    "another secret": lambda s, event: s.signed(event, OTHER_SECRET),
    "a changed body": lambda s, event: Sent(
        s.signed(event).body.replace(b'"1250"', b'"1251"'), s.signed(event).headers
    ),
    "another id": lambda s, event: with_headers(s.signed(event), webhook_id="msg_0"),
    "signed too long ago": lambda s, event: s.signed(event, age_s=STALE_S),
    "signed in the future": lambda s, event: s.signed(event, age_s=-STALE_S),
    "a newer time than was signed": lambda s, event: with_headers(
        s.signed(event, age_s=STALE_S), webhook_timestamp=s.signed(event).headers["webhook-timestamp"]
    ),
    "a time that is none": lambda s, event: with_headers(s.signed(event), webhook_timestamp="today"),
    "no signature": lambda s, event: without(s.signed(event), "webhook-signature"),
    "an empty signature": lambda s, event: with_headers(s.signed(event), webhook_signature=""),
    "a signature of another scheme": lambda s, event: in_another_scheme(s.signed(event)),
    "no headers at all": lambda s, event: without(
        s.signed(event), "webhook-id", "webhook-timestamp", "webhook-signature"
    ),
}


def test_the_amount_must_be_the_order_s_to_the_cent_and_the_currency(seller: Seller) -> None:
    event = seller.sell()
    for unit, value in (
        ("iso4217/USD", "1249"),
        ("iso4217/USD", "1251"),
        ("iso4217/USD", "1250.0"),
        ("iso4217/EUR", "1250"),
    ):
        told = moved(event, amount={"unit": unit, "value": value})
        assert seller.post(seller.signed(told)) == (422, "refused: not the amount of the order")
        assert not seller.is_paid(event)

    assert seller.post(seller.signed(moved(event))) == (200, "accepted")
    assert seller.is_paid(event)


def test_the_reference_must_be_an_order_of_the_shop(seller: Seller) -> None:
    event = seller.sell()
    told = moved(event, reference_id="ORDER-1")

    assert seller.post(seller.signed(told)) == (200, "ignored: no order of this shop")
    assert not seller.is_paid(event)


def test_a_sample_event_is_answered_with_2xx_and_is_no_order(seller: Seller) -> None:
    sent = ok(seller.owner.api.post(f"{ENDPOINT}/test", {"type": "payment.succeeded"}))
    assert (sent["status"], sent["body"]) == (200, "ignored: no order of this shop")


def test_a_test_payment_pays_nothing_where_live_ones_are_sold_and_the_reverse(seller: Seller) -> None:
    event = seller.sell()
    assert event["data"]["live"] is False

    assert seller.post(seller.signed(moved(event)), seller.twin) == (200, "ignored: of the other mode")
    assert seller.post(seller.signed(moved(event, live=True))) == (200, "ignored: of the other mode")
    assert not seller.is_paid(event)

    assert seller.post(seller.signed(moved(event, live=True)), seller.twin) == (200, "accepted")
    assert seller.is_paid(event)


def test_an_older_version_after_a_newer_changes_nothing(seller: Seller) -> None:
    event = seller.sell()
    ignored = (200, "ignored: older than what is known")

    assert seller.post(seller.signed(moved(event, "failed", 3))) == (200, "accepted")
    assert seller.post(seller.signed(moved(event, "succeeded", 2))) == ignored
    assert seller.post(seller.signed(moved(event, "succeeded", 3))) == ignored
    assert not seller.is_paid(event)

    assert seller.post(seller.signed(moved(event, "succeeded", 11))) == (200, "accepted")
    assert seller.post(seller.signed(moved(event, "failed", 4))) == ignored  # and not by its letters
    assert seller.is_paid(event)


def test_of_duplicates_at_the_same_time_one_is_taken(seller: Seller) -> None:
    event = seller.sell()
    sent = seller.signed(moved(event))
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(seller.post, [sent] * 6))

    assert sorted(answers) == [(200, "accepted")] + [(200, "ignored: a duplicate")] * 5
    assert seller.is_paid(event)


def test_what_was_answered_is_still_known_after_a_kill(seller: Seller) -> None:
    event, open_one = seller.sell(), seller.sell()
    sent = seller.signed(moved(event))
    assert seller.post(sent) == (200, "accepted")

    seller.shop.kill()
    seller.shop.start()
    seller.shop.wait()

    assert seller.is_paid(event)
    assert not seller.is_paid(open_one)
    assert seller.post(sent) == (200, "ignored: a duplicate")


def test_what_a_shop_cannot_store_it_does_not_take_and_takes_when_it_can(seller: Seller) -> None:
    event = seller.sell()
    sent = seller.signed(moved(event))

    with seller.shop.broken():
        assert seller.post(with_headers(sent, connection="close"))[0] == 500  # some servers hang up after it
    assert not seller.is_paid(event)

    assert seller.post(sent) == (200, "accepted")
    assert seller.is_paid(event)


def test_a_payment_that_cannot_be_made_is_an_error_of_the_shop_and_not_a_link(seller: Seller) -> None:
    answer = seller.twin.http.post("/buy")  # with a key that nobody has
    assert answer.status_code >= 500
    assert "location" not in answer.headers


def test_a_secret_that_is_rotated_out_is_good_for_a_while_and_a_new_endpoint_s_is_not(seller: Seller) -> None:
    """The last one: it leaves the shop with a secret that nobody signs with."""
    rotated = str(ok(seller.owner.api.post(f"{ENDPOINT}/rotate"))["secret"])
    during = seller.sell()["data"]["payment_id"]
    assert until(lambda: seller.answers(during)) == [(200, "accepted")]
    event = seller.sell()
    assert seller.post(seller.signed(moved(event), rotated, OTHER_SECRET))[0] == 400
    for secrets in ((seller.secret, rotated), (rotated, seller.secret)):
        assert seller.post(seller.signed(moved(event), *secrets)) == (200, "accepted")
        assert seller.is_paid(event)
        event = seller.sell()

    ok(seller.owner.api.delete(ENDPOINT))
    ok(seller.owner.api.put(ENDPOINT, {"url": f"http://127.0.0.1:{seller.shop.port}/webhook"}))
    unheard = seller.sell()["data"]["payment_id"]
    [(status, words)] = until(lambda: seller.answers(unheard))
    assert (status, words[:8]) == (400, "refused:")
