"""`payd merchant` makes merchants and registers where they are paid."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.picture import BYTES_MAX
from tests.pictures import SVG, plain
from tests.terminal import Terminal

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
WALLET = "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def test_a_made_merchant_is_printed_and_listed(begun: Terminal) -> None:
    made = begun.json("merchant", "create", "Shop", "--email", "me@example.com")
    assert (made["name"], made["email"], made["status"]) == ("Shop", "me@example.com", "active")
    assert made["id"] in [merchant["id"] for merchant in begun.json("merchant", "list")]
    assert made["id"] in begun("merchant", "list").output


def test_a_person_is_told_what_comes_next(begun: Terminal) -> None:
    shown = begun("merchant", "create", "Shop", "--email", "me@example.com").output
    assert "payd merchant add-destination mrch_" in shown


def test_what_comes_next_is_said_for_the_same_realm(payd: Terminal, answers: dict[str, Any]) -> None:
    one = {"id": "crypto_1", "asset": USDC, "destination": WALLET}
    waits = {"destination": OTHER, "appliesAt": "2026-05-19T00:00:00.000Z"}
    answers["merchant.create"] = {"id": "mrch_1", "name": "Shop", "status": "active"}
    answers["destination.change"] = one | {"pending": waits}
    answers["merchant.list"] = answers["destination.list"] = []
    live = ("--mode", "live", "--account", "my shop")
    same = " --mode live --account 'my shop'"
    made = payd("merchant", "create", "Shop", "--email", "me@example.com", *live).output
    assert f"payd merchant add-destination mrch_1 ASSET ADDRESS{same}" in made
    changed = payd("merchant", "change-destination", "mrch_1", "crypto_1", OTHER, *live).output
    assert f"payd merchant cancel-change mrch_1 crypto_1{same}" in changed
    assert f"payd merchant create NAME --email ADDRESS{same}" in payd("merchant", "list", *live).output
    listed = payd("merchant", "destinations", "mrch_1", *live).output
    assert f"payd merchant add-destination MERCHANT ASSET ADDRESS{same}" in listed


def test_a_destination_is_registered_and_shown(begun: Terminal) -> None:
    merchant = begun.json("merchant", "create", "Shop", "--email", "me@example.com")["id"]
    assert "payd merchant add-destination" in begun("merchant", "destinations", merchant).output
    made = begun.json("merchant", "add-destination", merchant, USDC, WALLET)
    assert (made["asset"], made["destination"]) == (USDC, WALLET)
    assert begun.json("merchant", "destinations", merchant) == [made]
    shown = begun("merchant", "destinations", merchant).output
    assert WALLET in shown, "an address is never folded where nobody looks"
    assert (
        "crypto_" in begun("merchant", "add-destination", merchant, USDC[:11] + "/slip44:60", WALLET).output
    )


def test_a_destination_is_taken_once_for_each_asset(begun: Terminal) -> None:
    [merchant] = begun.json("merchant", "list")
    assert "exists" in begun.error("merchant", "add-destination", merchant["id"], USDC, WALLET)


def test_a_wrong_checksum_is_refused(begun: Terminal) -> None:
    merchant = begun.json("merchant", "create", "Shop", "--email", "me@example.com")["id"]
    said = begun.error("merchant", "add-destination", merchant, USDC, WALLET.replace("C8", "c8"))
    assert "checksum" in said


def test_a_merchant_needs_an_address_to_be_reached_at(begun: Terminal) -> None:
    assert "--email" in begun.error("merchant", "create", "Shop", code=2)
    assert "merchantEmail" in begun.error("merchant", "create", "Shop", "--email", "nobody")


def test_without_a_merchant_the_way_to_one_is_said(payd: Terminal) -> None:
    payd("account", "create", "main")
    assert "payd merchant create" in payd("merchant", "list").output


def test_questions_are_set_shown_and_taken_back(begun: Terminal) -> None:
    [merchant] = begun.json("merchant", "list")
    assert "asked for nothing" in begun("merchant", "collect", merchant["id"]).output
    asked = begun.json("merchant", "collect", merchant["id"], "dob:date:Date: of birth", "note?:text:Note")
    assert asked == [
        {"id": "dob", "type": "date", "name": "Date: of birth", "required": True},
        {"id": "note", "type": "text", "name": "Note", "required": False},
    ]
    assert begun.json("merchant", "collect", merchant["id"]) == asked
    shown = begun("merchant", "collect", merchant["id"]).output
    assert "Date: of birth" in shown
    assert "optional" in shown
    assert begun.json("merchant", "collect", merchant["id"], "--none") == []


def test_a_question_that_cannot_be_is_refused_in_words(begun: Terminal) -> None:
    [merchant] = begun.json("merchant", "list")
    assert "ID:TYPE:NAME" in begun.error("merchant", "collect", merchant["id"], "dob", code=2)
    assert "--none" in begun.error("merchant", "collect", merchant["id"], "a:text:A", "--none", code=2)
    assert "collect[0].id" in begun.error("merchant", "collect", merchant["id"], "1:text:A")
    begun.error("merchant", "collect", merchant["id"], "a:number:A")
    assert begun.json("merchant", "collect", merchant["id"]) == []


def test_origins_are_shown_replace_those_before_and_none_lets_nobody_in(begun: Terminal) -> None:
    merchant = begun.json("merchant", "create", "Shop", "--email", "me@example.com")["id"]
    both = ["https://shop.example", "http://localhost:3000"]
    assert begun.json("merchant", "origins", merchant, *both) == both
    [listed] = [one for one in begun.json("merchant", "list") if one["id"] == merchant]
    assert listed["checkoutOrigins"] == both
    assert "https://shop.example" in begun("merchant", "origins", merchant, both[0]).output
    assert begun.json("merchant", "origins", merchant) == both[:1], "who only looks changes nothing"
    assert "no page" in begun("merchant", "origins", merchant, "--none").output
    assert begun.json("merchant", "origins", merchant) == []
    assert "--none" in begun.error("merchant", "origins", merchant, *both, "--none", code=2)
    assert "checkoutOrigins" in begun.error("merchant", "origins", merchant, "shop.example")


@pytest.mark.real_time
def test_a_logo_is_shown_from_a_file_looked_at_and_removed(begun: Terminal) -> None:
    [merchant] = begun.json("merchant", "list")
    assert "first letter" in begun("merchant", "logo", merchant["id"]).output
    file = begun.folder / "logo.bin"
    file.write_bytes(plain("JPEG"))
    shown = begun.json("merchant", "logo", merchant["id"], str(file))
    assert (shown["state"], shown["problem"]) == ("ready", None)
    assert shown["url"].endswith(".webp")
    assert shown["url"] in begun("merchant", "logo", merchant["id"]).output
    assert "ready" in begun("merchant", "list").output
    assert "first letter" in begun("merchant", "logo", merchant["id"], "--remove").output
    assert begun.json("merchant", "logo", merchant["id"]) is None


def test_a_file_that_is_no_logo_is_refused_before_it_is_sent(begun: Terminal) -> None:
    file = begun.folder / "logo.png"
    file.write_bytes(SVG)
    assert "SVG" in begun.error("merchant", "logo", "mrch_x", str(file))
    file.write_bytes(b"\x89PNG\r\n\x1a\n".ljust(BYTES_MAX + 1))
    assert "2 MiB" in begun.error("merchant", "logo", "mrch_x", str(file))
    assert "No such file" in begun.error("merchant", "logo", "mrch_x", str(begun.folder / "none.png"))
    assert "--remove" in begun.error("merchant", "logo", "mrch_x", str(file), "--remove", code=2)


def test_why_a_logo_is_not_there_is_said_where_merchants_are_listed(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    logo = {"state": "failed", "url": None, "problem": "The address answers 404 and no picture."}
    answers["merchant.logo"] = logo
    answers["merchant.list"] = [
        {"name": "Shop", "id": "mrch_1", "email": "a@b.c", "status": "active", "createdAt": "x", "logo": logo}
    ]
    assert "failed: The address answers 404" in begun("merchant", "list").output
    assert "failed: The address answers 404" in begun("merchant", "logo", "mrch_1").output


OTHER = "eip155:8453:0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


def test_a_destination_is_changed_and_deleted(begun: Terminal) -> None:
    merchant = begun.json("merchant", "create", "Shop", "--email", "me@example.com")["id"]
    made = begun.json("merchant", "add-destination", merchant, USDC, WALLET)
    assert OTHER in begun("merchant", "change-destination", merchant, made["id"], OTHER).output
    assert begun.json("merchant", "destinations", merchant) == [made | {"destination": OTHER}]
    assert "No change of this destination waits" in begun.error(
        "merchant", "cancel-change", merchant, made["id"]
    )
    assert "is deleted" in begun("merchant", "delete-destination", merchant, made["id"]).output
    assert begun.json("merchant", "destinations", merchant) == []


def test_a_change_that_waits_is_shown_with_its_time_and_how_to_take_it_back(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    one = {"id": "crypto_1", "asset": USDC, "destination": WALLET}
    waits = {"destination": OTHER, "requestedAt": "2026-05-18T00:00:00.000Z"}
    waits |= {"appliesAt": "2026-05-19T00:00:00.000Z"}
    answers["destination.list"] = [one | {"pending": waits}, one]
    answers["destination.change"] = one | {"pending": waits}
    answers["destination.cancel"] = one
    listed = payd("merchant", "destinations", "mrch_1").output
    shown = payd("merchant", "change-destination", "mrch_1", "crypto_1", OTHER).output
    for output in (listed, shown):
        assert OTHER in output
        assert "2026-05-19T00:00:00.000Z" in output
    assert "payd merchant cancel-change mrch_1 crypto_1" in shown
    kept = payd("merchant", "cancel-change", "mrch_1", "crypto_1").output
    assert WALLET in kept
    assert OTHER not in kept
    assert answers["asked"][-1][0] == "destination.cancel"
