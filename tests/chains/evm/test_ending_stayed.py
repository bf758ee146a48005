"""What was signed and never left: refused it has failed; out of time, others may have brought it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.chains.base import Accepted
from payd.chains.evm.ending import GIVEN_UP_S
from payd.core.failure import BROADCAST_FAILED, TOO_LATE
from payd.core.payment import PaymentFailed
from payd.core.relay import RelayJob
from payd.core.status import Status
from tests.chains.evm.ended import end, ends_s, pass_time, set_job, signed
from tests.chains.evm.scene import Scene, sign
from tests.live.chain import STRANGER, account

pytestmark = pytest.mark.real_time


async def test_what_never_left_payd_and_never_will_has_failed(scene: Scene) -> None:
    payment = await signed(scene)
    await set_job(scene, payment, state="dead", left_us=0, reason="the token refuses it")
    found = end(await scene.look(payment))

    assert isinstance(found, PaymentFailed)
    assert "the token refuses it" in found.reason
    assert found.code == BROADCAST_FAILED


async def test_what_never_left_in_time_may_have_been_brought_by_others_until_that_was_read(
    scene: Scene,
) -> None:
    payment = await signed(scene)
    await set_job(scene, payment, state="dead", left_us=0, reason=TOO_LATE)
    await pass_time(scene, ends_s(payment) - 1)
    assert await scene.look(payment) is None
    await pass_time(scene, ends_s(payment))
    found = end(await scene.look(payment))

    assert isinstance(found, PaymentFailed)
    assert found.reason.endswith(TOO_LATE)
    assert found.code == BROADCAST_FAILED


async def test_what_the_buyer_brought_while_payd_could_not_is_waited_for(scene: Scene) -> None:
    payment = await signed(scene)
    await scene.relay()
    await set_job(scene, payment, state="dead", left_us=0, reason=TOO_LATE)
    await scene.chain.rpc("anvil_setNextBlockTimestamp", hex(ends_s(payment)))
    await scene.chain.mine(4)
    # Nothing of that was read when the payment is looked at first.
    assert await scene.look(payment) is None
    await scene.watch()

    assert (await scene.follow(payment)).status is Status.SUCCEEDED


async def test_a_signature_that_was_used_for_something_else_is_not_waited_for_for_ever(scene: Scene) -> None:
    """The buyer signed twice, for two amounts that were asked for; the other one was brought."""
    payment = await scene.payment()
    first = await scene.quote(payment, scene.usdc_asset)
    other = await scene.check(payment, first, sign(first.actions[0]))
    assert isinstance(other, Accepted)
    assert isinstance(other.job, RelayJob)
    dearer = msgspec.structs.replace(payment, value=2600)
    second = await scene.quote(dearer, scene.usdc_asset)
    payment = await scene.commit(payment, second, sign(second.actions[0]))
    await scene.chain.done(account(STRANGER), other.job.target, other.job.data)
    await set_job(scene, payment, state="dead", left_us=0, reason=TOO_LATE)
    await pass_time(scene, ends_s(payment) + GIVEN_UP_S - 1)
    assert await scene.look(payment) is None
    await pass_time(scene, ends_s(payment) + GIVEN_UP_S)

    found = end(await scene.look(payment))
    assert isinstance(found, PaymentFailed)
    assert found.reason.endswith(TOO_LATE)


@pytest.mark.parametrize(
    "job",
    [
        {"state": "dead", "left_us": 1},
        {"state": "queued", "left_us": 0},
        {"state": "sent", "left_us": 1},
        {"state": "landed", "left_us": 1},
        {"state": "landed", "left_us": 0},
    ],
)
async def test_what_left_or_may_still_leave_has_not(scene: Scene, job: dict[str, Any]) -> None:
    payment = await signed(scene)
    await set_job(scene, payment, **job)
    await scene.watch(3)

    assert await scene.look(payment) is None
