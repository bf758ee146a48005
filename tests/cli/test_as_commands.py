"""What the API asks of HTTP clients is told to who types commands as commands, and each of them exists."""

from __future__ import annotations

import pytest

from payd.cli.as_commands import _COMMANDS, as_commands
from payd.cli.merchant import merchant
from payd.cli.webhook import webhook
from payd.core.errors import NotFound, PaydError, SettlementAssetConflict
from payd.store.db import Database
from payd.store.deliveries import check_resend
from payd.store.endpoints import Act, delete_endpoint, get_endpoint, switch_endpoint
from payd.store.settlements import Settlement, insert_settlement
from payd.store.webhook_jobs import start_job
from payd.web.scenarios import NOBODY
from tests.store.test_deliveries import happen, register


def told(message: str) -> str:
    here = "--data-dir 'my data'"
    return as_commands(
        message, lambda words: f"payd {words} --mode test", lambda words: f"payd {words} {here}"
    )


async def switched(db: Database, act: Act) -> None:
    await db.write(switch_endpoint, account_id="acct_1", act=act, now_ms=0, actor="test")


async def refused_job(db: Database) -> str:
    with pytest.raises(PaydError) as refused:
        await db.write(start_job, job_id="job_1", account_id="acct_1", kind="recover", since_ms=0, now_ms=0)
    return told(refused.value.message)


async def refused_resend(db: Database) -> str:
    with pytest.raises(PaydError) as refused:
        db.point(check_resend, "acct_1", "dlv_1", 0)
    return told(refused.value.message)


async def test_without_an_endpoint_the_command_that_sets_one_is_named(realm_db: Database) -> None:
    with pytest.raises(NotFound) as refused:
        realm_db.point(get_endpoint, "acct_1")
    said = told(refused.value.message)
    assert said == "There is no webhook endpoint. Set it: payd webhook set --url URL --mode test"


async def test_what_an_endpoint_that_is_off_refuses_names_the_command_that_switches_it_on(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1, now_ms=1)
    await switched(realm_db, "pause")
    resume = "Let it go on first: payd webhook resume --mode test"
    assert await refused_job(realm_db) == f"The webhook endpoint is paused. {resume}"
    assert await refused_resend(realm_db) == f"The delivery's endpoint is paused. {resume}"

    await switched(realm_db, "disable")
    enable = "Enable it first: payd webhook enable --mode test"
    assert await refused_job(realm_db) == f"The webhook endpoint is disabled. {enable}"
    assert await refused_resend(realm_db) == f"The delivery's endpoint is disabled. {enable}"
    acts: tuple[Act, ...] = ("pause", "resume")
    for act in acts:
        with pytest.raises(PaydError) as refused:
            await switched(realm_db, act)
        assert told(refused.value.message) == f"The webhook endpoint is disabled. {enable}"

    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=0, actor="test")
    assert await refused_resend(realm_db) == (
        "The delivery belonged to an endpoint that was deleted. Send its event to the present one:"
        " payd webhook replay-missing --since 1970-01-01T00:00:00.001Z --mode test"
    )


def test_every_command_that_is_named_exists() -> None:
    for _, _, command in _COMMANDS:
        noun, name, *_ = command.split()
        assert name in {"webhook": webhook, "merchant": merchant}[noun].commands


async def test_an_asset_that_is_taken_names_the_command_that_sends_it_elsewhere(realm_db: Database) -> None:
    one = Settlement("crypto_1", "mrch_1", "eip155:1/slip44:60", "eip155:1/slip44:60", "eip155:1:0xa", 0)
    await realm_db.write(insert_settlement, one)
    with pytest.raises(SettlementAssetConflict) as refused:
        await realm_db.write(insert_settlement, one)
    assert told(refused.value.message) == (
        "A settlement for eip155:1/slip44:60 exists. Change its destination:"
        " payd merchant change-destination MERCHANT DESTINATION ADDRESS --mode test"
    )


def test_where_nobody_can_be_paid_the_command_that_makes_a_merchant_is_named() -> None:
    assert told(NOBODY) == (
        "There is no merchant that can be paid. Make one, and say where its money goes:"
        " payd merchant create NAME --email ADDRESS --mode test"
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("No key. `payd key list` shows the ids.", "No key. `payd key list --mode test` shows the ids."),
        ("`payd account list` shows them.", "`payd account list --data-dir 'my data'` shows them."),
        ("`payd doctor` says more.", "`payd doctor --data-dir 'my data'` says more."),
        (
            "`payd user invite` or `payd user reset`.",
            "`payd user invite --data-dir 'my data'` or `payd user reset --data-dir 'my data'`.",
        ),
    ],
)
def test_a_command_that_is_named_stays_in_the_house_and_in_the_mode_where_it_has_one(
    message: str, said: str
) -> None:
    assert told(message) == said


def test_what_a_command_gives_once_has_no_place_in_a_list() -> None:
    assert told("settlements[0].destination: it is a mint") == "destination: it is a mint"


@pytest.mark.parametrize("message", ["", "No.", "since must be at most 14 days ago.", "POST it first."])
def test_what_names_no_path_stays_as_it_is(message: str) -> None:
    assert told(message) == message
