"""What a page's handler sees: who is there, in which account and mode, what they sent, and how to answer.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from payd.core.errors import EndpointDisabled, IdempotencyConflict, InvalidParams, PaydError, SealBroken
from payd.core.ids import Realm as Mode
from payd.core.roles import Permission, Role, may
from payd.store.audit import insert_audit
from payd.store.db import Tx
from payd.store.keys import SCOPES
from payd.store.seal import Seal
from payd.store.sessions import Session, SignedIn
from payd.store.users import User
from payd.web.auth import Caller
from payd.web.call import Answer, Request
from payd.web.dashboard.cookies import FLASH_S, Cookies, pack_flash
from payd.web.dashboard.frame import Frame, frame_of
from payd.web.dashboard.render import html
from payd.web.house import House, Realm
from payd.web.html import NO_STORE, root_of
from payd.web.inside import Query, ask_api

# A page's longest form is a key's, with a tick for each of the merchants that are shown.
FIELDS_MAX: Final = 240

SENT_BEFORE: Final = (
    "This form was sent before, with something else in it, and that was done. If this is to be done, too,"
    " send it again."
)
NOT_ON: Final = (
    "The webhook endpoint takes nothing now: it is paused, disabled or deleted. The page Webhooks switches it"
    " on; of a deleted one, Send again there sends the events to the present one."
)

Form = Mapping[str, list[str]]


@dataclass(slots=True)
class Visit:
    """One request of a browser that found its page.

    Attributes:
        request: As it came.
        house: The house.
        params: The parameters in the path, but for the mode.
        request_id: For the log and for people who ask about an error.
        cookies: Their names here.
        now_ms: Unix milliseconds by the wall: sessions know no test clock.
        form: What was posted; empty for a GET.
        upload: The file that was posted with it.
        form_token: What this visit's forms have to carry.
        mode: The mode in the path; on pages of no mode, where the person was last.
        signed_in: Who is there; None on pages that are open.
        refusal: Why the form that is shown again was refused.
        flash: What the last form did, to be said once.
        set_cookies: Headers that go with the answer.
    """

    request: Request
    house: House
    params: dict[str, str]
    request_id: str
    cookies: Cookies
    now_ms: int
    form: Form = field(default_factory=dict)
    upload: bytes = b""
    form_token: str = ""
    mode: Mode = "test"
    signed_in: SignedIn | None = None
    refusal: PaydError | None = None
    flash: str = ""
    set_cookies: list[tuple[str, str]] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session of who is there; for pages that are not open."""
        assert self.signed_in is not None, "the page is not open"
        return self.signed_in.session

    @property
    def user(self) -> User:
        """Who is there; for pages that are not open."""
        assert self.signed_in is not None, "the page is not open"
        return self.signed_in.user

    @property
    def role(self) -> Role:
        """Their part in the account; for pages that are not open."""
        assert self.signed_in is not None, "the page is not open"
        return self.signed_in.role

    @property
    def account_id(self) -> str:
        """Whose data is shown: nothing of another account may be."""
        return self.session.account_id

    @property
    def actor(self) -> str:
        """Who acts, for the audit."""
        return self.user.id

    @property
    def realm(self) -> Realm:
        """The realm of the mode: the only one that a handler may look into."""
        return self.house.realms[self.mode]

    @property
    def caller(self) -> Caller:
        """This person as the API's handlers know callers. The page's permission is what was checked."""
        return Caller(self.realm, self.account_id, self.actor, frozenset(SCOPES), None)

    def may(self, permission: Permission) -> bool:
        """Whether this person may do it, so that only what works is shown."""
        return may(self.role, permission)

    def typed(self, name: str) -> str:
        """What was typed into a field, without spaces around it."""
        return self.form.get(name, [""])[0].strip()

    def is_changed(self, name: str) -> bool:
        """Whether a field says something else than when its form was shown. An empty one always is changed:
        what may not be empty is refused.
        """
        return not self.typed(name) or self.typed(name) != self.typed(f"was_{name}")

    def secret(self, name: str) -> str:
        """As `typed`, whole: spaces belong to a password."""
        return self.form.get(name, [""])[0]

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query, without spaces around it."""
        found = self.request.query.get(name)
        return found[0].strip() if found else default

    def choice(self, name: str, allowed: Collection[str]) -> str:
        """A parameter of the query that is one of these, or empty.

        Raises:
            InvalidParams: It is another.
        """
        said = self.query(name)
        if said and said not in allowed:
            raise InvalidParams(f"{name} must be one of {', '.join(allowed)}.")
        return said

    def row(self, name: str) -> int | None:
        """The number of a row that the query names; None where it names none."""
        said = self.query(name)
        return int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else None

    @property
    def is_fragment(self) -> bool:
        """Whether a part of a page is wanted and not a whole one."""
        return self.request.headers.get("hx-request") == "true"

    def to(self, path: str, **query: str | None) -> str:
        """A link: `payments` is a page of this mode, `/settings/users` any page."""
        said = {name: value for name, value in query.items() if value}
        below = path if path.startswith("/") else f"/d/{self.mode}/{path}"
        return root_of(self.house.base_url) + below + (f"?{urlencode(said)}" if said else "")

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Query | None = None,
        *,
        merchant_id: str | None = None,
    ) -> Any:
        """What the API's own handler answers to this person; a form that is sent twice acts once.

        Raises:
            PaydError: As the API refuses.
        """
        try:
            return await ask_api(
                self.house, self.caller, method, path, body, query,
                merchant_id=merchant_id, idempotency_key=self.typed("once"),
            )  # fmt: skip
        except IdempotencyConflict:
            raise InvalidParams(SENT_BEFORE) from None
        except EndpointDisabled:
            raise EndpointDisabled(NOT_ON) from None

    def audit(self, tx: Tx, act: str, subject: str) -> None:
        """Record an act of the office in its own transaction."""
        insert_audit(
            tx, at_ms=self.now_ms, account_id=self.account_id, actor=self.actor, act=act, subject=subject
        )

    def seal_for_form(self, what: str, secret: bytes) -> str:
        """A secret that goes into a hidden field and comes back with the form, of this browser alone."""
        stamped = self.now_ms.to_bytes(8, "big") + secret
        return self._seal.seal(stamped, f"form {what} {self.form_token}").hex()

    def open_from_form(self, what: str, text: str, max_age_ms: int) -> bytes | None:
        """What `seal_for_form` was given; None if it is another browser's, too old, or nothing of ours."""
        try:
            stamped = self._seal.open(bytes.fromhex(text), f"form {what} {self.form_token}")
        except (SealBroken, ValueError):
            return None
        return stamped[8:] if self.now_ms - int.from_bytes(stamped[:8], "big") < max_age_ms else None

    def seal_secret(self, secret: bytes, subject: str) -> bytes:
        """A secret as it is stored."""
        return self._seal.seal(secret, subject)

    def open_secret(self, sealed: bytes, subject: str) -> str:
        """What `seal_secret` was given, as text."""
        return self._seal.open(sealed, subject).decode()

    @property
    def _seal(self) -> Seal:
        return self.house.realms["test"].seal

    @property
    def frame(self) -> Frame:
        """What stands around every page."""
        return frame_of(self)

    def page(self, template: str, status: int = 200, **values: Any) -> Answer:
        """A page, or a part of one: templates get `values` and the frame, nothing else."""
        return html(template, self.house.base_url, self.frame, values, status)

    def redirect(self, path: str, said: str = "", **query: str | None) -> Answer:
        """On to a page, as after every form; `said` is shown there once."""
        return self._redirect(self.to(path, **query), said)

    def redirect_raw(self, path: str, said: str = "") -> Answer:
        """On to a path with its query, as it was asked for before."""
        return self._redirect(root_of(self.house.base_url) + path, said)

    def _redirect(self, to: str, said: str) -> Answer:
        if said:
            self.set_cookies.append(self.cookies.set("flash", pack_flash(said), FLASH_S))
        return Answer(303, b"", (("Location", to), NO_STORE))


Handler = Callable[[Visit], Awaitable[Answer]]
