"""The first page of a mode: what is to be done next.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import msgspec

from payd.store.first_steps import FirstSteps, first_steps
from payd.web.call import Answer
from payd.web.dashboard.home_numbers import home_numbers
from payd.web.dashboard.visit import Visit


class Step(msgspec.Struct, frozen=True):
    """One line of the checklist; `href` leads to where it is done, empty where that is not a page."""

    title: str
    words: str
    done: bool
    href: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/: the checklist, until all of it is done; what to look at; the numbers."""
    done = visit.realm.db.point(first_steps, visit.account_id)
    steps = live_steps(visit, done) if visit.realm.live else test_steps(visit, done)
    numbers = await home_numbers(visit)
    return visit.page("home.html", steps=steps, left=sum(not step.done for step in steps), numbers=numbers)


def test_steps(visit: Visit, done: FirstSteps) -> tuple[Step, ...]:
    """From nothing to a paid test payment with a webhook."""
    live_runs = "live" in visit.house.realms
    return (
        *_shop(visit, done),
        Step("Make a test key", "Your backend sends it with each request.", done.key, visit.to("keys")),
        Step("Add a webhook", "Your backend hears of each payment.", done.webhook, visit.to("webhooks")),
        Step("Create a payment", "It has a link for the buyer.", done.payment, visit.to("payments/create")),
        Step(
            "Pay it on the Test Console",
            "Choose the payment, open the buyer's page, and press Approve there.",
            done.paid,
            visit.to("payments"),
        ),
        Step(
            "Go live",
            "Add [[chains]] to payd.toml and start the server again. It has its own merchants and keys.",
            live_runs,
            visit.to("/settings/live"),
        ),
    )


def _shop(visit: Visit, done: FirstSteps) -> tuple[Step, Step]:
    """How each mode begins."""
    to, whose = visit.to("merchants"), "An address of your own wallet, for each asset you take."
    return (
        Step("Create a merchant", "The shop that buyers see.", done.merchant, to),
        Step("Add where money goes", whose, done.destination, to),
    )


def live_steps(visit: Visit, done: FirstSteps) -> tuple[Step, ...]:
    """From nothing to the first payment with real funds."""
    return (
        *_shop(visit, done),
        Step("Make a live key", "Your backend sends it with each request.", done.key, visit.to("keys")),
        Step("Add a webhook", "Your backend hears of each payment.", done.webhook, visit.to("webhooks")),
        Step("Take a payment", "Create one, and pay a small amount yourself first.", done.paid, ""),
    )
