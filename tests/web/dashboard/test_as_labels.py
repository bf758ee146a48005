"""A refusal on a page calls fields what the page's labels call them."""

from __future__ import annotations

import re

import pytest

from payd.core.errors import InvalidParams, Issue, ParamsValidation
from payd.web.dashboard.as_labels import as_labels
from tests.shop import USDC_BASE, WALLET, Shop
from tests.visitor import sign_in


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([("merchantName", "1 to 256 printable characters.")], "Name: 1 to 256 printable characters."),
        ([("merchantName", "a"), ("merchantEmail", "b")], "Name: a; E-mail: b"),
        ([("merchantName", "Too long."), ("status", "One of a, b.")], "Name: Too long. Status: One of a, b."),
        ([("settlements[0].destination", "the zero address")], "Address: the zero address"),
        ([("collect[1].id", "Each id once.")], "Question 2, Id: Each id once."),
        ([("somethingNew", "note: it stays")], "somethingNew: note: it stays"),
    ],
)
def test_a_field_is_called_what_its_label_says(wrong: list[tuple[str, str]], said: str) -> None:
    assert as_labels(ParamsValidation.of(*(Issue(*one) for one in wrong))) == said


def test_a_value_that_cannot_be_is_called_so_too() -> None:
    refusal = InvalidParams("amount.value: no.", details={"field": "amount.value"})
    assert as_labels(refusal) == "Amount: no."


def test_what_names_no_field_is_said_as_it_is() -> None:
    assert as_labels(InvalidParams("note: the url must begin with https://.")) == (
        "note: the url must begin with https://."
    )


async def test_no_form_names_a_field_of_the_api_or_a_method(shop: Shop) -> None:
    visitor = await sign_in(shop)
    merchant = f"/d/test/merchants/{shop.merchant_id}"
    usdc = {"asset": USDC_BASE}
    for path, values, said in (
        ("/d/test/merchants", {"name": "x" * 300, "email": "nobody"}, "Name: 1 to 256"),
        (f"{merchant}/add", {**usdc, "address": "0x12"}, "Address: an EVM address is"),
        (f"{merchant}/add", {**usdc, "address": "shop.eth"}, "That is no address"),
        (f"{merchant}/add", {**usdc, "address": WALLET}, "has an address already"),
        (f"{merchant}/collect", {"ask_0": "Name", "type_0": "text", "id_0": "1"}, "Question 1, Id"),
        (f"{merchant}/origins", {"origins": "shop.example"}, "Origins: Origins"),
        (f"{merchant}/icon", {"icon_url": "ftp://x"}, "Logo from the web"),
    ):
        page = await visitor.post(path, values)
        assert page.status in (400, 409), path
        [alert] = re.findall(r'role="alert"[^>]*><p>(.*?)</p>', page.html)
        assert said in alert
        assert not re.search(r"merchantName|settlements|collect\[|checkoutOrigins|iconUrl|CAIP|PUT", alert)
