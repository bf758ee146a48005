"""What must be true of webhooks whatever was done to their endpoint, and whoever died meanwhile.

Each function gives what is wrong, from the diary of who did it; nothing is as it should be.

Source: SPEC.md, "Delivery rules"; SPEC.md, "Signature"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tests.crash.aftermath import Aftermath
from tests.crash.endpoint_diary import Arrival, AskedJob, EndpointDiary, KnownSecret, Sent, Shape
from tests.crash.rows import Rows

ATTEMPTS: Final = 8
OVERLAP_MS: Final = 24 * 3600 * 1000
# A request that was made before a change may arrive so long after its answer.
UNDER_WAY_S: Final = 1.0
# By how much the realm's clock may be moved between a signature and its arrival.
MOVED_MAX_MS: Final = 30 * 60 * 1000

EndpointTruth = Callable[[Aftermath, EndpointDiary, Rows], Sequence[Any]]
"""Of what is left, what was done, and what was stored before what was missing was replayed."""


def every_event_is_owed_to_the_endpoint_that_wanted_it(
    left: Aftermath, diary: EndpointDiary, _: Rows
) -> Sequence[Any]:
    owed = Counter((row["event_seq"], row["endpoint_id"]) for row in left.rows.deliveries)
    wrong: list[Any] = [place for place, count in owed.items() if count > 1]
    for row in left.rows.events:
        shapes = diary.shapes_at(row["seq"])
        wanting = {one.id for one in shapes if one is not None and one.wants(row["type"])}
        is_sure = len(wanting) == 1 and all(one is not None and one.wants(row["type"]) for one in shapes)
        if is_sure and not owed[row["seq"], *wanting]:
            wrong.append((row["seq"], row["type"], shapes))
    return wrong


def nothing_is_owed_that_nobody_wanted_or_replayed(
    _: Aftermath, diary: EndpointDiary, rest: Rows
) -> Sequence[Any]:
    return [
        (row, diary.shapes_at(row["event_seq"]))
        for row in rest.deliveries
        if not any(
            shape is not None and shape.id == row["endpoint_id"] and shape.wants(row["event_type"])
            for shape in diary.shapes_at(row["event_seq"])
        )
        and not any(
            job.kind == "replay-missing" and job.span.ended.seq >= row["event_seq"]
            for job in _jobs_of(diary, row["endpoint_id"])
        )
    ]


def every_delivery_has_an_end_that_is_explained(
    _: Aftermath, diary: EndpointDiary, rest: Rows
) -> Sequence[Any]:
    taken = {one.message_id for one in diary.arrivals if one.is_taken}
    failures = Counter(
        row["delivery_id"]
        for row in rest.attempts
        if row["trigger"] in ("auto", "replay") and row["error_class"] is not None
    )

    def is_explained(row: dict[str, Any]) -> bool:
        endpoint_id = row["endpoint_id"]
        match row["state"], row["reason"]:
            case "succeeded", None:
                return row["message_id"] in taken
            case "failed", "job_cancelled":
                return any(job.cancelled for job in _jobs_of(diary, endpoint_id) if job.kind == "recover")
            case "failed", None:
                return failures[row["id"]] >= ATTEMPTS
            case "cancelled", "job_cancelled":
                return any(job.cancelled for job in _jobs_of(diary, endpoint_id))
            case "cancelled", "endpoint_disabled" | "endpoint_deleted":
                what = row["reason"].removeprefix("endpoint_").removesuffix("d")
                acts = diary.acts_of(endpoint_id, what)
                return any(act.span.ended.seq >= row["event_seq"] for act in acts)
        return False

    return [row for row in rest.deliveries if not is_explained(row)]


def nothing_is_sent_to_an_endpoint_that_is_off(
    left: Aftermath, diary: EndpointDiary, _: Rows
) -> Sequence[Any]:
    """But for what was under way, and tests."""
    owed_to = {row["message_id"]: row["endpoint_id"] for row in left.rows.deliveries}
    return [
        (one, shapes)
        for one, shapes in _arrivals(diary)
        if (endpoint_id := owed_to.get(one.message_id)) is not None
        and not any(shape and (shape.id, shape.state) == (endpoint_id, "enabled") for shape in shapes)
    ]


def every_request_goes_to_where_the_endpoint_is_and_has_its_header(
    left: Aftermath, diary: EndpointDiary, _: Rows
) -> Sequence[Any]:
    return [
        (one, shapes)
        for one, shapes in _arrivals(diary)
        if not any(shape and (shape.url, shape.token) == (one.url, one.token) for shape in shapes)
        or urlsplit(one.url).netloc != one.address
    ]


def every_request_is_signed_by_the_secrets_that_are_valid_and_no_other(
    left: Aftermath, diary: EndpointDiary, _: Rows
) -> Sequence[Any]:
    endpoint_of = {row["message_id"]: row["endpoint_id"] for row in (*left.rows.deliveries, *left.rows.tests)}
    wrong = []
    for one in diary.arrivals:
        said = one.received.headers["webhook-signature"].split(" ")
        signers = [secret for secret in diary.secrets if signature_of(secret.value, one) in said]
        endpoint_id = endpoint_of.get(one.message_id)
        may = [secret for secret in diary.secrets if _may_sign(secret, one, endpoint_id)]
        must = [secret for secret in diary.secrets if _must_sign(secret, one, endpoint_id)]
        if (
            len(said) != len(signers)
            or not signers
            or not _within(signers, may)
            or not _within(must, signers)
        ):
            wrong.append((one, signers, may, must))
    return wrong


def _within(some: Collection[KnownSecret], of: Collection[KnownSecret]) -> bool:
    return {one.value for one in some} <= {one.value for one in of}


def signature_of(secret: str, one: Arrival) -> str:
    """The entry that a secret signs a request by."""
    headers = one.received.headers
    key = b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + one.received.body
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def _may_sign(secret: KnownSecret, one: Arrival, endpoint_id: str | None) -> bool:
    if endpoint_id not in (None, secret.endpoint_id) or secret.made.begun.at_s > one.received.at_s:
        return False
    return secret.replaced is None or one.realm_ms < secret.replaced.clock_ms()[1] + OVERLAP_MS + MOVED_MAX_MS


def _must_sign(secret: KnownSecret, one: Arrival, endpoint_id: str | None) -> bool:
    if endpoint_id != secret.endpoint_id or secret.made.ended.at_s >= one.received.at_s - UNDER_WAY_S:
        return False
    return secret.replaced is None or one.realm_ms < secret.replaced.clock_ms()[0] + OVERLAP_MS - MOVED_MAX_MS


def what_was_cancelled_comes_again_only_by_a_replay(
    left: Aftermath, diary: EndpointDiary, _: Rows
) -> Sequence[Any]:
    deliveries = {row["message_id"]: row for row in left.rows.deliveries}
    wrong = []
    for one in diary.arrivals[: diary.arrived_before_rest]:
        row = deliveries.get(one.message_id)
        if row is None:
            continue
        for act in diary.acts_of(row["endpoint_id"], "disable"):
            if act.span.begun.seq < row["event_seq"] or act.span.ended.at_s + UNDER_WAY_S > one.received.at_s:
                continue
            asked: list[AskedJob | Sent] = [*_jobs_of(diary, row["endpoint_id"])]
            asked += [sent for sent in diary.resends if sent.delivery_id == row["id"]]
            since = (act.span.begun.at_s, one.received.at_s)
            if one.is_taken and not any(since[0] < each.span.begun.at_s <= since[1] for each in asked):
                wrong.append((one, act))
    return wrong


def every_replay_job_has_ended_and_was_asked_for(
    left: Aftermath, diary: EndpointDiary, rest: Rows
) -> Sequence[Any]:
    jobs = {row["id"]: row for row in rest.jobs}
    wrong: list[Any] = [*(jobs.keys() ^ {job.id for job in diary.jobs})]
    for job in diary.jobs:
        row = jobs.get(job.id)
        if row is None:
            continue
        was_ended = job.cancelled or _was_ended(diary, job)
        if row["state"] not in ("done", *(["cancelled"] if was_ended else [])):
            wrong.append((job, row))
        if row["queued"] != row["matched"]:
            wrong.append(row)
    return wrong


def a_replay_of_what_is_missing_leaves_nothing_missing(
    left: Aftermath, diary: EndpointDiary, rest: Rows
) -> Sequence[Any]:
    """Of what the endpoint wanted all the time since, unless it was switched off or the job was cancelled."""
    states = {(row["event_seq"], row["endpoint_id"]): row["state"] for row in rest.deliveries}
    wrong = []
    for job in diary.jobs:
        of_endpoint = _jobs_of(diary, job.endpoint_id)
        since_s = job.span.begun.at_s
        ended = (act.span.ended.at_s > since_s for act in diary.acts_of(job.endpoint_id, "disable", "delete"))
        if job.kind == "recover" or any(ended) or any(each.cancelled for each in of_endpoint):
            continue
        shapes = diary.shapes_between(since_s, float("inf"))
        wrong += [
            (job, row["seq"], row["type"])
            for row in rest.events
            if row["seq"] <= job.span.begun.seq
            and all(_is_wanted(shape, job.endpoint_id, row["type"]) for shape in shapes)
            and states.get((row["seq"], job.endpoint_id)) not in ("succeeded", "failed")
        ]
    return wrong


def a_recovery_leaves_nothing_failed(left: Aftermath, diary: EndpointDiary, rest: Rows) -> Sequence[Any]:
    """Of what had failed for good before, unless it was ended as well."""
    newest_ms: dict[str, int] = {}
    for row in rest.attempts:
        newest_ms[row["delivery_id"]] = row["at_ms"] + row["duration_ms"]
    wrong = []
    for job in diary.jobs:
        if job.kind != "recover" or job.cancelled or _was_ended(diary, job):
            continue
        before_ms = job.span.clock_ms()[0] - MOVED_MAX_MS
        wrong += [
            (job, row)
            for row in rest.deliveries
            if (row["endpoint_id"], row["state"], row["reason"]) == (job.endpoint_id, "failed", None)
            and newest_ms[row["id"]] < before_ms
        ]
    return wrong


def _was_ended(diary: EndpointDiary, job: AskedJob) -> bool:
    """Whether a job's endpoint may have been switched off since."""
    acts = diary.acts_of(job.endpoint_id, "disable", "delete")
    return any(act.span.ended.at_s > job.span.begun.at_s for act in acts)


def _is_wanted(shape: Shape | None, endpoint_id: str, event_type: str) -> bool:
    return shape is not None and shape.id == endpoint_id and event_type in shape.events


def every_test_that_was_answered_was_sent_once(
    left: Aftermath, diary: EndpointDiary, rest: Rows
) -> Sequence[Any]:
    came = [one for one in diary.arrivals if one.merchant_id not in left.rows.merchants]
    # A kept connection that ends without an answer may have been stale: there it is sent once more.
    times = Counter(one.message_id for one in came if not one.does.resets)
    bodies = {row["message_id"]: bytes(row["body"]) for row in left.rows.tests}
    wrong: list[Any] = [
        one for one in came if bodies.get(one.message_id, one.received.body) != one.received.body
    ]
    wrong += [one for one in came if msgspec.json.decode(one.received.body)["data"]["live"]]
    unlogged = [one for one in came if one.message_id not in bodies]
    wrong += unlogged if len(unlogged) > diary.tests_lost else []
    messages = {row["id"]: row["message_id"] for row in left.rows.tests}
    for sent in diary.tests:
        message_id = messages.get(sent.delivery_id)
        count = 0 if message_id is None else times[message_id]
        if message_id is None or count > 1 or (sent.status is not None and count != 1):
            wrong.append((sent, count))
    return wrong


def every_resend_that_was_answered_came(left: Aftermath, diary: EndpointDiary, _: Rows) -> Sequence[Any]:
    messages = {row["id"]: row["message_id"] for row in left.rows.deliveries}
    return [
        sent
        for sent in diary.resends
        if sent.status is not None
        and not any(
            one.message_id == messages.get(sent.delivery_id)
            and sent.span.begun.at_s <= one.received.at_s <= sent.span.ended.at_s
            for one in diary.arrivals
        )
    ]


def _jobs_of(diary: EndpointDiary, endpoint_id: str) -> list[AskedJob]:
    return [job for job in diary.jobs if job.endpoint_id == endpoint_id]


def _arrivals(diary: EndpointDiary) -> Iterator[tuple[Arrival, list[Shape | None]]]:
    """Each request that came, and what the endpoint may have been when it was made."""
    for one in diary.arrivals:
        at_s = one.received.at_s
        yield one, diary.shapes_between(at_s - UNDER_WAY_S, at_s)


ENDPOINT_TRUTHS: Final[tuple[EndpointTruth, ...]] = (
    every_event_is_owed_to_the_endpoint_that_wanted_it,
    nothing_is_owed_that_nobody_wanted_or_replayed,
    every_delivery_has_an_end_that_is_explained,
    nothing_is_sent_to_an_endpoint_that_is_off,
    every_request_goes_to_where_the_endpoint_is_and_has_its_header,
    every_request_is_signed_by_the_secrets_that_are_valid_and_no_other,
    what_was_cancelled_comes_again_only_by_a_replay,
    every_replay_job_has_ended_and_was_asked_for,
    a_replay_of_what_is_missing_leaves_nothing_missing,
    a_recovery_leaves_nothing_failed,
    every_test_that_was_answered_was_sent_once,
    every_resend_that_was_answered_came,
)


def broken_endpoint(left: Aftermath) -> dict[str, Sequence[Any]]:
    """The truths that do not hold, by name, with what is wrong; none where nobody changed the endpoint."""
    if left.diary is None or left.diary.at_rest is None:
        return {}
    at_rest = left.diary.at_rest
    return {one.__name__: wrong for one in ENDPOINT_TRUTHS if (wrong := one(left, left.diary, at_rest))}
