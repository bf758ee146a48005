"""Merchants' logos over HTTP: sent by the merchant, shown to buyers.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.core.picture import LOGO_TYPE, digest_in, logo_name
from payd.store.db import Tx
from payd.store.logos import Logo, delete_logo, find_logo, find_picture, put_picture, shown_logo
from payd.store.merchants import find_merchant
from payd.web.acts import audit
from payd.web.call import Answer, Call
from payd.web.house import House, Realm
from payd.web.lookup import own_merchant

LOGO_PATH: Final = "/logo"

# A logo's path has the hash of its content in it.
SHOWN: Final = (
    ("Content-Type", LOGO_TYPE),
    ("Cache-Control", "public, max-age=31536000, immutable"),
    ("X-Content-Type-Options", "nosniff"),
    # Wallets that are pages show it.
    ("Cross-Origin-Resource-Policy", "cross-origin"),
    # Whoever opens it by itself sees a picture and nothing that runs.
    ("Content-Security-Policy", "default-src 'none'; sandbox"),
)


class LogoOut(msgspec.Struct):
    """What became of a merchant's logo. `url` is what buyers see now, also while a new one is copied.

    `state` is ready, copying, or failed; `problem` why the last copy failed, also while it is tried again.
    """

    state: Literal["ready", "copying", "failed"]
    url: str | None
    problem: str | None


class LogoAnswer(msgspec.Struct):
    """A merchant's logo; None: there is none."""

    id: str
    logo: LogoOut | None


def logo_out(base_url: str, logo: Logo | None) -> LogoOut | None:
    """A logo as the wire shows it."""
    if logo is None:
        return None
    url = None if logo.digest is None else f"{base_url}{logo_path(logo.digest)}"
    if logo.due_at_ms is not None:
        return LogoOut("copying", url, logo.problem)
    return LogoOut("ready" if logo.problem is None else "failed", url, logo.problem)


def logo_path(digest: str) -> str:
    """Where a picture is shown, below the root."""
    return f"{LOGO_PATH}/{logo_name(digest)}"


def logo_url(house: House, realm: Realm, merchant_id: str) -> str | None:
    """The address of what is shown of a merchant; None where there is no picture."""
    digest = realm.db.point(shown_logo, merchant_id)
    return None if digest is None else house.base_url + logo_path(digest)


async def put(call: Call) -> Answer:
    """PUT /v1/merchants/{id}/logo: the picture is the body; it is shown from now on."""
    merchant = own_merchant(call)
    if not call.request.body:
        raise InvalidParams("Send the picture itself as the body: a PNG, JPEG, WebP or AVIF.")
    picture = await call.realm.logos.pictures.draw(call.request.body)

    def step(tx: Tx) -> Logo | None:
        if find_merchant(tx, merchant.id) is None:
            raise NotFound("There is no such merchant.")
        digest = put_picture(tx, merchant.id, picture)
        audit(tx, call, "merchant.logo", merchant.id, {"digest": digest})
        return find_logo(tx, merchant.id)

    logo = await call.realm.db.write(step)
    return Answer.json(LogoAnswer(merchant.id, logo_out(call.house.base_url, logo)))


async def delete(call: Call) -> Answer:
    """DELETE /v1/merchants/{id}/logo: pages show the first letter again; the same when repeated."""
    merchant = own_merchant(call)

    def step(tx: Tx) -> None:
        if delete_logo(tx, merchant.id):
            audit(tx, call, "merchant.logo", merchant.id, {"digest": None})

    await call.realm.db.write(step)
    return Answer.json(LogoAnswer(merchant.id, None))


async def show(call: Call) -> Answer:
    """GET /logo/{name}: a picture, by the hash of its content."""
    digest = digest_in(call.params["name"])
    if digest is not None:
        for realm in call.house.realms.values():
            picture = realm.db.point(find_picture, digest)
            if picture is not None:
                return Answer(200, picture, SHOWN)
    raise NotFound("There is no such picture.")
