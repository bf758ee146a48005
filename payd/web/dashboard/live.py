"""Going live: what real funds need, each line ticked by what is there.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from payd.store.first_steps import FirstSteps, first_steps
from payd.web.call import Answer
from payd.web.dashboard.home import Step
from payd.web.dashboard.visit import Visit
from payd.web.house import House
from payd.web.metrics_chains import see_chain

NODES_WANTED = 2
"""One node alone decides what was paid; two have to agree."""

NOTHING = FirstSteps(False, False, False, False, False, False)


async def page(visit: Visit) -> Answer:
    """GET /settings/live: the checklist."""
    steps = live_checks(visit)
    return visit.page("live.html", steps=steps, left=sum(not step.done for step in steps))


def live_checks(visit: Visit) -> tuple[Step, ...]:
    """What is done, and what is left, in the order in which it is done."""
    house = visit.house
    realm = house.realms.get("live")
    done = NOTHING if realm is None else realm.db.point(first_steps, visit.account_id)

    def to(path: str) -> str:
        return "" if realm is None else visit.to(f"/d/live/{path}")

    return (
        Step(
            "Serve it over https",
            f"base_url in payd.toml is {house.base_url}. Put a proxy with TLS before payd, and"
            " its address there.",
            house.base_url.startswith("https://"),
            "",
        ),
        Step(
            "Configure a chain",
            "Add [[chains]] with its id and nodes to payd.toml, and start the server again.",
            bool(realm and realm.payments.chains),
            "",
        ),
        Step(
            f"Have {NODES_WANTED} nodes of each chain answer",
            "rpc in [[chains]] takes several, of different operators. The page Status shows how they do.",
            _nodes_answer(house),
            visit.to("/status"),
        ),
        Step("Create a live merchant", "Test and live mode share nothing.", done.merchant, to("merchants")),
        Step(
            "Add where its money goes",
            "An address of your own wallet, for each asset you take.",
            done.destination,
            to("merchants"),
        ),
        Step("Make a live key", "With no more than your backend needs.", done.key, to("keys")),
        Step("Add a live webhook", "Your backend hears of each payment.", done.webhook, to("webhooks")),
        Step("Take a payment", "Pay a small amount yourself first.", done.paid, to("")),
    )


def _nodes_answer(house: House) -> bool:
    realm = house.realms.get("live")
    if realm is None or not realm.live_chains:
        return False
    chains = [see_chain(live) for live in realm.live_chains]
    return all(sum(node.is_up for node in chain.nodes) >= NODES_WANTED for chain in chains)
