"""Merchants in the dashboard: listed, created, changed and deleted by who may, each act in the audit."""

from __future__ import annotations

import re
import unicodedata

import pytest
import trio

from payd.actors.pictures import Pictures
from payd.core.picture import BYTES_MAX
from payd.core.roles import Role
from payd.store.db import Tx
from payd.store.logos import put_picture
from payd.store.merchants import find_merchant
from payd.store.origins import list_origins
from payd.web.call import Request
from payd.web.dispatch import body_max_of
from tests.shop import Shop
from tests.visitor import OWN, Page, Visitor, sign_in

LIST = "/d/test/merchants"


def acts(shop: Shop, subject: str) -> list[tuple[str, str]]:
    def read(tx: Tx) -> list[tuple[str, str]]:
        return tx.execute(
            "SELECT act, actor FROM audit WHERE subject = ? ORDER BY seq", (subject,)
        ).fetchall()

    return shop.realm.db.point(read)


def one(shop: Shop) -> str:
    return f"{LIST}/{shop.merchant_id}"


async def test_a_merchant_is_created_and_the_page_leads_to_where_its_money_goes(shop: Shop) -> None:
    visitor = await sign_in(shop)
    made = await visitor.post(LIST, {"name": "Ada's Shop", "email": "ada@example.com"})
    assert made.status == 303
    page = await visitor.get(made.to)
    assert "Merchant created. Now say where its money goes." in page.text
    assert "Nobody can pay yet" in page.text
    assert "Add where money goes" in page.text
    assert "Ada's Shop" in (await visitor.get(LIST)).text


async def test_a_form_that_is_sent_twice_at_once_makes_one_merchant(shop: Shop) -> None:
    visitor = await sign_in(shop)
    form = {"name": "Twice", "email": "a@b.c", "once": "0123456789", "form_token": await visitor.token()}
    found: list[Page] = []

    async def send() -> None:
        found.append(await visitor.post(LIST, form))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(send)
    assert found[0].to == found[1].to
    assert "1 merchant " in (await visitor.get(f"{LIST}?q=twice")).text


async def test_what_is_wrong_is_said_and_what_was_typed_stands_there_again(shop: Shop) -> None:
    visitor = await sign_in(shop)
    page = await visitor.post(LIST, {"name": "Half & Half", "email": "nobody"})
    assert page.status == 400
    assert "An e-mail address such as shop@example.com." in page.text
    assert 'value="Half &amp; Half"' in page.html
    assert 'value="nobody"' in page.html


async def test_the_list_is_searched_by_name_and_status(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.post(LIST, {"name": "Bakery", "email": "a@b.c"})
    page = await visitor.get(f"{LIST}?q=bAk&status=active")
    assert "Bakery" in page.text
    assert "Café" not in page.text
    assert "No merchant is like that" in (await visitor.get(f"{LIST}?status=suspended")).text


async def test_name_mail_and_status_change(shop: Shop) -> None:
    visitor = await sign_in(shop)
    values = {"name": "New name", "email": "new@example.com", "status": "inactive"}
    assert (await visitor.post(one(shop), values)).to == one(shop)
    merchant = shop.realm.db.point(find_merchant, shop.merchant_id)
    assert merchant is not None
    assert (merchant.name, merchant.email, merchant.status) == ("New name", "new@example.com", "inactive")
    assert "No payment can be created for it while it is inactive." in (await visitor.get(one(shop))).text


async def test_a_form_that_was_open_for_long_undoes_nothing(shop: Shop) -> None:
    visitor, other = await sign_in(shop), await sign_in(shop)
    page = await visitor.get(one(shop))
    was = {name: page.hidden(name) for name in ("was_name", "was_email", "was_status")}
    shown = {name.removeprefix("was_"): value for name, value in was.items()}
    await other.post(one(shop), shown | {"status": "suspended"})

    wrong = await visitor.post(one(shop), was | shown | {"name": "New name", "email": "nobody"})
    assert (wrong.status, wrong.hidden("was_status")) == (400, "active")
    await visitor.post(one(shop), was | shown | {"name": "New name"})
    merchant = shop.realm.db.point(find_merchant, shop.merchant_id)
    assert merchant is not None
    assert (merchant.name, merchant.status) == ("New name", "suspended")
    same = await visitor.post(one(shop), was | shown)
    assert "Nothing was changed." in (await visitor.get(same.to)).text
    assert (await visitor.post(one(shop), was | shown | {"name": ""})).status == 400


async def test_who_made_and_changed_a_merchant_is_in_the_audit(shop: Shop) -> None:
    visitor = await sign_in(shop)
    made = (await visitor.post(LIST, {"name": "Shop", "email": "a@b.c"})).to
    merchant = made.rpartition("/")[2]
    for status in ("suspended", "suspended", "active"):
        await visitor.post(made, {"name": "Shop", "email": "d@e.f", "status": status})
    await visitor.post(f"{made}/icon", {"icon_url": "https://shop.example/icon.png"})
    names = ("create", "email", "status", "status", "icon_url")
    assert acts(shop, merchant) == [(f"merchant.{name}", visitor.user_id) for name in names]
    told = (await visitor.get("/settings/audit")).text
    assert "merchant.status" in told
    assert "from: active, to: suspended" in told


async def test_questions_get_ids_from_their_words_and_are_in_the_audit(shop: Shop) -> None:
    visitor = await sign_in(shop)
    values = {
        "ask_0": "Full name",
        "type_0": "text",
        "required_0": "on",
        "ask_1": "",
        "type_1": "date",
        "ask_2": "I agree",
        "type_2": "checkbox",
        "id_2": "terms",
    }
    await visitor.post(f"{one(shop)}/collect", values)
    merchant = shop.realm.db.point(find_merchant, shop.merchant_id)
    assert merchant is not None
    assert [(field.id, field.type, field.required) for field in merchant.collect] == [
        ("Full_name", "text", True),
        ("terms", "checkbox", False),
    ]
    assert acts(shop, shop.merchant_id) == [("merchant.collect", visitor.user_id)]
    page = await visitor.get(one(shop))
    assert page.html.count("<legend>") == 4
    refused = await visitor.post(f"{one(shop)}/collect", {"ask_0": "?", "type_0": "text"})
    assert refused.status == 400
    assert "A letter, then" in refused.text


async def test_questions_in_any_script_get_ids(shop: Shop) -> None:
    visitor = await sign_in(shop)
    words = ("Имя и фамилия", "電話番号", "2nd line", "Full name", "العنوان")
    asked = {f"ask_{n}": one for n, one in enumerate(words)} | {f"type_{n}": "text" for n in range(5)}
    saved = await visitor.post(f"{one(shop)}/collect", asked | {"id_4": "question_2"})
    assert saved.status == 303
    merchant = shop.realm.db.point(find_merchant, shop.merchant_id)
    assert merchant is not None
    assert [(field.id, field.name) for field in merchant.collect] == [
        *zip(("question_1", "question_3", "question_4", "Full_name", "question_2"), words, strict=True)
    ]


async def test_what_must_be_answered_stays_ticked_when_the_questions_are_refused(shop: Shop) -> None:
    visitor = await sign_in(shop)
    good = {"ask_0": "Full name", "id_0": "name", "type_0": "text", "required_0": "on"}
    await visitor.post(f"{one(shop)}/collect", good)
    asked = {"ask_0": "Full name", "id_0": "name", "type_0": "text"}
    asked |= {"ask_1": "Имя", "id_1": "имя", "type_1": "text", "required_1": "on"}
    refused = await visitor.post(f"{one(shop)}/collect", asked)
    assert refused.status == 400
    assert re.findall(r'name="required_(\d)" type="checkbox" value="on" checked', refused.html) == ["1"]


async def test_questions_that_somebody_else_changed_meanwhile_stay(shop: Shop) -> None:
    visitor, other = await sign_in(shop), await sign_in(shop)

    def asked() -> list[str]:
        merchant = shop.realm.db.point(find_merchant, shop.merchant_id)
        return [] if merchant is None else [field.name for field in merchant.collect]

    was = {"was_asked": (await visitor.get(one(shop))).hidden("was_asked")}
    await other.post(f"{one(shop)}/collect", was | {"ask_0": "I agree", "type_0": "checkbox"})
    mine = was | {"ask_0": "Full name", "type_0": "text"}
    found = await visitor.follow((await visitor.post(f"{one(shop)}/collect", mine)).to)
    assert "The questions were changed meanwhile" in found.text
    assert asked() == ["I agree"]
    again = {"was_asked": found.hidden("was_asked")}
    for _ in range(2):  # sent twice, it is saved all the same
        saved = await visitor.post(f"{one(shop)}/collect", again | {"ask_0": "Full name", "type_0": "text"})
        assert "Buyers are asked this from now on." in (await visitor.follow(saved.to)).text
    assert asked() == ["Full name"]


async def test_sites_that_somebody_else_named_meanwhile_stay(shop: Shop) -> None:
    visitor, other = await sign_in(shop), await sign_in(shop)
    was = {"was_origins": (await visitor.get(one(shop))).hidden("was_origins")}
    await other.post(f"{one(shop)}/origins", was | {"origins": "https://a.example"})
    moved = await visitor.post(f"{one(shop)}/origins", was | {"origins": "https://b.example"})
    assert "The sites were changed meanwhile" in (await visitor.follow(moved.to)).text
    assert shop.realm.db.point(list_origins, shop.merchant_id) == ("https://a.example",)


async def test_sites_that_may_frame_the_checkout_are_told_one_on_a_line(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await visitor.post(f"{one(shop)}/origins", {"origins": "https://a.example\r\nhttps://b.example\r\n"})
    origins = shop.realm.db.point(list_origins, shop.merchant_id)
    assert origins == ("https://a.example", "https://b.example")
    refused = await visitor.post(f"{one(shop)}/origins", {"origins": "https://a.example/path"})
    assert refused.status == 400
    assert "https://a.example/path</textarea>" in refused.html
    assert shop.realm.db.point(list_origins, shop.merchant_id) == origins


async def test_a_logo_is_shown_in_the_preview_and_can_be_removed(shop: Shop) -> None:
    visitor = await sign_in(shop)
    assert "http" not in (await visitor.get(one(shop))).html.split('class="preview"')[1].split("</div>")[0]
    await shop.realm.db.write(put_picture, shop.merchant_id, b"a picture")
    assert "/logo/" in (await visitor.get(one(shop))).html.split('class="preview"')[1].split("</div>")[0]
    await visitor.post(f"{one(shop)}/logo/remove")
    assert "/logo/" not in (await visitor.get(one(shop))).html.split('class="preview"')[1].split("</div>")[0]
    refused = await visitor.post(f"{one(shop)}/icon", {"icon_url": "http://plain.example/x.png"})
    assert refused.status == 400
    await visitor.post(f"{one(shop)}/icon", {"icon_url": "https://shop.example/x.png"})
    assert "The picture is being copied." in (await visitor.get(one(shop))).text


async def test_a_picture_from_the_web_is_copied_again_over_one_that_was_sent_and_after_its_end(
    shop: Shop,
) -> None:
    visitor, icon = await sign_in(shop), {"icon_url": "https://shop.example/x.png"}
    await visitor.post(f"{one(shop)}/icon", icon)
    await shop.realm.db.write(put_picture, shop.merchant_id, b"a picture")
    await visitor.post(f"{one(shop)}/icon", icon)
    assert "The picture is being copied." in (await visitor.get(one(shop))).text
    await visitor.post(f"{one(shop)}/logo/remove")
    assert "The picture is being copied." not in (await visitor.get(one(shop))).text
    await visitor.post(f"{one(shop)}/icon", icon)
    assert "The picture is being copied." in (await visitor.get(one(shop))).text
    names = ("icon_url", "logo", "logo", "logo")
    assert acts(shop, shop.merchant_id) == [(f"merchant.{name}", visitor.user_id) for name in names]


def with_file(token: str, picture: bytes, extra: bytes = b"") -> tuple[dict[str, str], bytes]:
    """A form with a file as a browser sends it: headers and body."""
    parts = [
        b'Content-Disposition: form-data; name="form_token"\r\n\r\n' + token.encode(),
        b'Content-Disposition: form-data; name="picture"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n'
        + picture,
    ]
    body = b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + b"--edge--\r\n" + extra
    return OWN | {"content-type": "multipart/form-data; boundary=edge"}, body


async def test_a_picture_is_sent_from_the_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    async def draw(_: Pictures, data: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        drawn.append(data)
        return b"a logo"

    monkeypatch.setattr(Pictures, "draw", draw)
    visitor = await sign_in(shop)
    picture = b"\x89PNG\r\n\r\n--edg \x00"
    headers, body = with_file(await visitor.token(), picture)
    sent = await visitor.send("POST", f"{one(shop)}/logo", headers, body)
    assert sent.to == one(shop)
    assert drawn == [picture]
    assert acts(shop, shop.merchant_id) == [("merchant.logo", visitor.user_id)]
    assert "/logo/" in (await visitor.get(one(shop))).html
    headers, body = with_file(await visitor.token(), b"")
    empty = await visitor.send("POST", f"{one(shop)}/logo", headers, body)
    assert empty.status == 400
    assert "Choose a picture first" in empty.text
    headers, body = with_file("0" * 64, picture)
    assert (await visitor.send("POST", f"{one(shop)}/logo", headers, body)).status == 403
    assert drawn == [picture]


async def test_only_who_is_signed_in_may_send_what_is_large(shop: Shop) -> None:
    visitor = await sign_in(shop)
    cookie = f"__Host-payd-session={visitor.cookies['__Host-payd-session']}"
    usual = shop.house.body_max
    for path, cookies, limit in (
        (f"{one(shop)}/logo", cookie, usual + BYTES_MAX),
        (f"{one(shop)}/logo", "__Host-payd-session=" + "0" * 36, usual),
        (f"{one(shop)}/logo", "", usual),
        (one(shop), cookie, usual),
    ):
        request = Request("POST", path, headers={"cookie": cookies})
        assert body_max_of(shop.house, request) == limit


async def test_a_merchant_is_deleted_when_its_name_is_typed(shop: Shop) -> None:
    visitor = await sign_in(shop)
    refused = await visitor.post(f"{one(shop)}/delete", {"its_name": "Cafe"})
    assert refused.status == 400
    assert "Nothing was deleted." in refused.text
    gone = await visitor.post(f"{one(shop)}/delete", {"its_name": "Café Größe"})
    assert gone.to == LIST
    assert (await visitor.get(one(shop))).status == 404
    assert acts(shop, shop.merchant_id) == [("merchant.delete", visitor.user_id)]


@pytest.mark.parametrize("name", ["Two  Spaces", "No\u00a0Break", "Cafe\u0301"])
async def test_a_name_is_typed_as_it_is_seen(shop: Shop, name: str) -> None:
    visitor = await sign_in(shop)
    made = await shop.call(
        "POST", "/v1/merchants", {"merchantName": name, "merchantEmail": "a@b.c"}, idempotency_key="k"
    )
    seen = unicodedata.normalize("NFC", " ".join(name.split()))
    gone = await visitor.post(f"{LIST}/{made.body['merchant']['id']}/delete", {"its_name": seen})
    assert gone.to == LIST


async def test_who_may_only_look_sees_no_forms(shop: Shop) -> None:
    for role, forms in ((Role.VIEWER, 0), (Role.SUPPORT, 0), (Role.DEVELOPER, 6), (Role.OWNER, 6)):
        visitor: Visitor = await sign_in(shop, role)
        page = await visitor.get(one(shop))
        assert page.html.count(f'action="{one(shop)}') == forms, role
        assert ("/destinations/" in page.html) is (role is Role.OWNER)
