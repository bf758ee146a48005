"""The one table of the dashboard: every page and form, who may use it, what it asks for.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.picture import BYTES_MAX as PICTURE_MAX
from payd.core.roles import Permission
from payd.web.dashboard import (
    audit,
    destinations,
    door,
    home,
    joining,
    keys,
    live,
    log,
    merchants,
    payment,
    payment_create,
    payments,
    people,
    proof,
    refunds,
    security,
    sessions,
    settings,
    status,
    transfers,
    webhooks,
    webhooks_deliveries,
    webhooks_events,
    webhooks_faults,
    webhooks_replay,
)
from payd.web.dashboard.visit import Handler
from payd.web.route_table import RouteTable


class Page(msgspec.Struct, frozen=True):
    """One method of one path.

    Attributes:
        method: `GET` or `POST`, the two that plain forms know.
        path: With parameters in braces. Below `/d/{mode}/` it is in that mode; elsewhere it is in none.
        handler: Answers it.
        may: What the person must be allowed; None where nobody needs to be signed in.
        shown_by: Shows the form again when it is refused, with what was typed and why.
        proof: Whether the person shows again who they are, if that was a while ago.
        upload_max: Bytes of a file that comes with the form; 0: none does.
    """

    method: str
    path: str
    handler: Handler
    may: Permission | None
    shown_by: Handler | None = None
    proof: bool = False
    upload_max: int = 0

    @property
    def in_mode(self) -> bool:
        """Whether the path says in which mode it is."""
        return self.path.startswith("/d/{mode}/")


SECURITY: Final = security.HERE
SESSIONS: Final = sessions.HERE
USERS: Final = people.HERE
PAYMENT: Final = "/d/{mode}/payments/{payment}"


def _act(name: str, handler: Handler, may: Permission, shown_by: Handler = payment.page) -> Page:
    """A form of a payment's own page."""
    return Page("POST", f"{PAYMENT}/{name}", handler, may, shown_by=shown_by)


HOOKS: Final = "/d/{mode}/webhooks"
DELIVERY: Final = f"{HOOKS}/deliveries/{{delivery}}"
REPLAY: Final = f"{HOOKS}/replay"
KEYS: Final = "/d/{mode}/keys"
MERCHANTS: Final = "/d/{mode}/merchants"
ONE: Final = f"{MERCHANTS}/{{merchant}}"
DESTINATION: Final = f"{ONE}/destinations/{{destination}}"

PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/login", door.login_page, None),
    Page("POST", "/login", door.login, None, door.login_page),
    Page("GET", "/login/code", door.code_page, None),
    Page("POST", "/login/code", door.code, None, door.code_page),
    Page("POST", "/login/passkey", door.passkey, None, door.login_page),
    Page("POST", "/logout", door.logout, "own_login"),
    Page("POST", "/account", door.change_account, "own_login"),
    Page("POST", "/prove", proof.go_on, "own_login", proof=True),
    Page("GET", "/setup", joining.setup_page, None),
    Page("POST", "/setup", joining.setup, None, joining.setup_page),
    Page("GET", "/join", joining.join_page, None),
    Page("POST", "/join", joining.join, None, joining.join_page),
    Page("POST", "/join/accept", joining.accept, "own_login", joining.join_page),
    Page("GET", "/reset", joining.reset_page, None),
    Page("POST", "/reset", joining.reset, None, joining.reset_page),
    Page("GET", SECURITY, security.page, "own_login"),
    Page("POST", f"{SECURITY}/password", security.change_password, "own_login", security.page, proof=True),
    Page("GET", f"{SECURITY}/app", security.app_page, "own_login", proof=True),
    Page("POST", f"{SECURITY}/app", security.add_app, "own_login", security.app_page, proof=True),
    Page("POST", f"{SECURITY}/app/remove", security.remove_app, "own_login", security.page, proof=True),
    Page("POST", f"{SECURITY}/passkeys", security.add_passkey, "own_login", security.page, proof=True),
    Page(
        "POST", f"{SECURITY}/passkeys/remove", security.drop_passkey, "own_login", security.page, proof=True
    ),
    Page("POST", f"{SECURITY}/codes", security.new_codes, "own_login", security.page, proof=True),
    Page("GET", SESSIONS, sessions.page, "own_login"),
    Page("POST", f"{SESSIONS}/end", sessions.end, "own_login", sessions.page),
    Page("POST", f"{SESSIONS}/end-others", sessions.end_others, "own_login", sessions.page),
    Page("GET", USERS, people.page, "manage_users"),
    Page("POST", USERS, people.invite, "manage_users", people.page, proof=True),
    Page("POST", f"{USERS}/uninvite", people.uninvite, "manage_users", people.page),
    Page("POST", f"{USERS}/role", people.change_role, "manage_users", people.page, proof=True),
    Page("POST", f"{USERS}/remove", people.remove, "manage_users", people.page, proof=True),
    Page("GET", audit.HERE, audit.page, "view_audit"),
    Page("GET", "/d/{mode}/", home.page, "view"),
    Page("GET", "/d/{mode}/payments", payments.page, "view"),
    Page("GET", "/d/{mode}/payments.csv", payments.export, "view"),
    Page("GET", "/d/{mode}/payments/create", payment_create.page, "create_payments"),
    Page(
        "POST",
        "/d/{mode}/payments",
        payment_create.create,
        "create_payments",
        shown_by=payment_create.page,
    ),
    Page("POST", "/d/{mode}/payments/scenario", payment_create.run_scenario, "simulate", payment_create.page),
    Page("GET", PAYMENT, payment.page, "view"),
    _act("cancel", payment.cancel, "move_payments"),
    _act("simulate", payment.simulate, "simulate"),
    _act("resend", payment.resend, "resend_webhooks"),
    Page("GET", f"{PAYMENT}/refund", refunds.page, "record_refunds"),
    _act("refund", refunds.record, "record_refunds", refunds.page),
    Page("POST", f"{PAYMENT}/refund/transaction", refunds.write, "record_refunds"),
    Page("POST", f"{PAYMENT}/refund/send", refunds.bring, "record_refunds"),
    Page("GET", f"{PAYMENT}/match", transfers.preview, "move_payments"),
    _act("match", transfers.match, "move_payments", transfers.preview),
    Page("GET", "/d/{mode}/transfers", transfers.page, "view"),
    Page("GET", "/d/{mode}/transfers/match", transfers.choose, "move_payments"),
    Page("GET", HOOKS, webhooks.page, "view"),
    Page("POST", HOOKS, webhooks.save, "manage_webhooks", webhooks.page, proof=True),
    Page("POST", f"{HOOKS}/pause", webhooks.pause, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/resume", webhooks.resume, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/disable", webhooks.disable, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/enable", webhooks.enable, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/test", webhooks.test, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/faults", webhooks_faults.inject, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/faults/end", webhooks_faults.end, "manage_webhooks", webhooks.page),
    Page("POST", f"{HOOKS}/reveal", webhooks.reveal, "see_secrets", webhooks.page, proof=True),
    Page("POST", f"{HOOKS}/rotate", webhooks.rotate, "see_secrets", webhooks.page, proof=True),
    Page("POST", f"{HOOKS}/delete", webhooks.delete, "manage_webhooks", webhooks.page, proof=True),
    Page("GET", f"{HOOKS}/deliveries", webhooks_deliveries.page, "view"),
    Page("GET", DELIVERY, webhooks_deliveries.one, "view"),
    Page(
        "POST", f"{DELIVERY}/resend", webhooks_deliveries.resend, "resend_webhooks", webhooks_deliveries.one
    ),
    Page("GET", REPLAY, webhooks_replay.page, "view"),
    Page("POST", REPLAY, webhooks_replay.start, "resend_webhooks", webhooks_replay.page),
    Page("POST", f"{REPLAY}/preview", webhooks_replay.preview, "resend_webhooks", webhooks_replay.page),
    Page("POST", f"{REPLAY}/{{job}}/cancel", webhooks_replay.cancel, "resend_webhooks", webhooks_replay.page),
    Page("GET", f"{HOOKS}/events", webhooks_events.page, "view"),
    Page("GET", f"{HOOKS}/events/{{event}}", webhooks_events.one, "view"),
    Page("GET", "/d/{mode}/log", log.page, "view_log"),
    Page("GET", MERCHANTS, merchants.page, "view"),
    Page("POST", MERCHANTS, merchants.create, "edit_merchants", merchants.page),
    Page("GET", ONE, merchants.show, "view"),
    Page("POST", ONE, merchants.edit, "edit_merchants", merchants.show),
    Page("POST", f"{ONE}/collect", merchants.ask_buyers, "edit_merchants", merchants.show),
    Page("POST", f"{ONE}/origins", merchants.set_origins, "edit_merchants", merchants.show),
    Page("POST", f"{ONE}/icon", merchants.set_icon, "edit_merchants", merchants.show),
    Page(
        "POST",
        f"{ONE}/logo",
        merchants.set_logo,
        "edit_merchants",
        merchants.show,
        upload_max=PICTURE_MAX,
    ),
    Page("POST", f"{ONE}/logo/remove", merchants.drop_logo, "edit_merchants", merchants.show),
    Page("POST", f"{ONE}/delete", merchants.delete, "edit_merchants", merchants.show, proof=True),
    Page("GET", f"{ONE}/add", destinations.add_page, "change_destinations"),
    Page("POST", f"{ONE}/add", destinations.add, "change_destinations", destinations.add_page, proof=True),
    Page("GET", DESTINATION, destinations.change_page, "change_destinations"),
    Page(
        "POST",
        f"{DESTINATION}/compare",
        destinations.compare,
        "change_destinations",
        destinations.change_page,
        proof=True,
    ),
    Page(
        "POST", DESTINATION, destinations.change, "change_destinations", destinations.change_page, proof=True
    ),
    Page(
        "POST",
        f"{DESTINATION}/cancel",
        destinations.cancel,
        "change_destinations",
        destinations.change_page,
    ),
    Page(
        "POST",
        f"{DESTINATION}/delete",
        destinations.delete,
        "change_destinations",
        destinations.change_page,
        proof=True,
    ),
    Page("GET", KEYS, keys.page, "manage_keys"),
    Page("POST", KEYS, keys.create, "manage_keys", keys.page),
    Page("POST", f"{KEYS}/live", keys.create_live, "manage_live_keys", keys.page, proof=True),
    Page("POST", f"{KEYS}/{{key}}/revoke", keys.revoke, "manage_keys", keys.page),
    Page("POST", f"{KEYS}/apps", keys.create_app, "manage_keys", keys.page),
    Page("POST", f"{KEYS}/apps/{{app}}/revoke", keys.revoke_one_app, "manage_keys", keys.page),
    Page("GET", "/status", status.page, "view"),
    Page("GET", settings.HERE, settings.page, "change_settings"),
    Page("POST", settings.HERE, settings.rename_account, "change_settings", settings.page),
    Page("POST", f"{settings.HERE}/version", settings.move_account, "change_settings", settings.page),
    Page("GET", "/settings/live", live.page, "view"),
)

_TABLE: Final = RouteTable(PAGES)


def find_pages(path: str) -> tuple[dict[str, Page], dict[str, str]]:
    """The pages at a path by their methods, and the parameters in it."""
    return _TABLE.find(path)
