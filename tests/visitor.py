"""A person with a browser in a test: signed in to a shop's dashboard, pressing links and posting forms."""

from __future__ import annotations

import html
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from payd.clock import system_wall_ms
from payd.core.roles import Role
from payd.entropy import new_id, system_entropy
from payd.store.sessions import Session, insert_session
from payd.store.users import User, insert_user, put_membership
from payd.web.command import real_ms
from payd.web.dashboard.cookies import new_token, token_hash
from payd.web.house import House
from tests.shop import Got, Shop

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
OWN = {"sec-fetch-site": "same-origin", "origin": "https://pay.example"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass
class Page:
    """What came back."""

    got: Got

    @property
    def status(self) -> int:
        return self.got.status

    @property
    def html(self) -> str:
        return self.got.raw.decode()

    @property
    def text(self) -> str:
        """What it says, without its markup."""
        bare = re.sub(r"<(script|style|title).*?</\1>|<[^>]*>", " ", self.html, flags=re.S)
        return re.sub(r"\s+", " ", html.unescape(bare)).strip()

    @property
    def title(self) -> str:
        found = re.search(r"<title>(.*?)</title>", self.html, re.S)
        return "" if found is None else html.unescape(found[1]).strip()

    @property
    def to(self) -> str:
        """Where it leads."""
        return self.got.headers.get("location", "")

    def hidden(self, name: str) -> str:
        """The first hidden field of this name; empty if there is none."""
        found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', self.html)
        return "" if found is None else html.unescape(found[1])


@dataclass
class Visitor:
    """A browser with its cookies."""

    shop: Shop
    user_id: str = ""
    account_id: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Page:
        """One page; redirects are not followed."""
        return await self.send("GET", path, headers)

    async def follow(self, path: str) -> Page:
        """A page, and where it leads."""
        page = await self.get(path)
        while page.status == 303:
            page = await self.get(page.to)
        return page

    async def post(
        self,
        path: str,
        values: dict[str, Any] | None = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Page:
        """A form with what every form carries, unless another `token` is given."""
        carried = await self.token() if token is None else token
        sent: dict[str, Any] = {"form_token": carried, "once": new_id("", 0)} | (values or {})
        raw = urlencode(sent, doseq=True).encode()
        return await self.send("POST", path, OWN | FORM | (headers or {}), raw)

    async def token(self) -> str:
        """What this browser's forms carry now."""
        found = re.search('"X-Form-Token":"([0-9a-f]{64})"', (await self.follow("/login")).html)
        assert found is not None
        return found[1]

    async def send(self, method: str, path: str, headers: dict[str, str], raw: bytes = b"") -> Page:
        """Any request."""
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        named.setdefault("accept", BROWSER)
        if self.cookies:
            named["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        got = await self.shop.call(method, path, key=None, raw=raw, **named)
        for line in got.cookies:
            name, _, rest = line.partition("=")
            value = rest.partition(";")[0]
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        return Page(got)


async def sign_in(
    shop: Shop, role: Role = Role.OWNER, *, account_id: str = "", email: str = "", password_hash: str = "-"
) -> Visitor:
    """A new person with a part in an account, signed in just now, past the door."""
    account_id = account_id or shop.account_id
    user_id = await add_user(shop.house, account_id, role, email, password_hash)
    token = await add_session(shop.house, user_id, account_id)
    return Visitor(shop, user_id, account_id, {"__Host-payd-session": token})


async def add_user(
    house: House, account_id: str, role: Role = Role.OWNER, email: str = "", password_hash: str = "-"
) -> str:
    """A new person with a part in an account; the id."""
    now_ms = real_ms(house)
    user_id = new_id("usr_", now_ms)
    user = User(user_id, email or f"{user_id}@example.com", password_hash, now_ms, None, now_ms)
    await house.office.write(insert_user, user)
    await house.office.write(
        put_membership, account_id=account_id, user_id=user_id, role=role, actor="test", now_ms=now_ms
    )
    return user_id


async def add_session(house: House, user_id: str, account_id: str) -> str:
    """A session that began just now; its token."""
    now_ms = real_ms(house)
    token = new_token(system_entropy, now_ms)
    session = Session(
        new_id("ses_", now_ms), user_id, account_id, "test", now_ms, now_ms, now_ms, "203.0.113.7", "a test"
    )
    await house.office.write(insert_session, session, token_hash(token))
    return token


def seat(
    folder: Path,
    account_id: str,
    role: Role = Role.OWNER,
    *,
    email: str = "ada@example.com",
    proved_ago_ms: int = 0,
) -> str:
    """As `sign_in`, in the data directory of a server that does not run yet; the token."""
    now_ms = system_wall_ms()
    user = User(new_id("usr_", now_ms), email, "-", now_ms, None, now_ms)
    token = new_token(system_entropy, now_ms)
    proved_at_ms = now_ms - proved_ago_ms
    session = Session(
        new_id("ses_", now_ms),
        user.id,
        account_id,
        "test",
        now_ms,
        now_ms,
        proved_at_ms,
        "127.0.0.1",
        "a test",
    )
    with closing(sqlite3.connect(folder / "office.db")) as tx, tx:
        insert_user(tx, user)
        put_membership(tx, account_id=account_id, user_id=user.id, role=role, actor="test", now_ms=now_ms)
        insert_session(tx, session, token_hash(token))
    return token
