"""Settlements over REST: where a merchant's money goes.

Source: SPEC.md, "POST /v1/merchants/{merchantId}/settlements/crypto";
DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from payd.core.caip import (
    AssetId,
    MalformedCaip,
    canonical_asset,
    canonical_chain,
    destination_problem,
    parse_account,
    parse_asset,
)
from payd.core.endpoint import NOTIFY
from payd.core.errors import ChainUnavailable, InvalidParams, Issue, NotFound, ParamsValidation
from payd.core.notice import DESTINATION_ADDED, Moved
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.idempotency import Outcome, find_replay, once
from payd.store.merchants import find_merchant
from payd.store.settlement_changes import has_vacancy, occupy, record_moved
from payd.store.settlements import Settlement, has_settlement, insert_settlement
from payd.web.call import Answer, Call
from payd.web.house import Realm
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.lookup import own_merchant
from payd.web.schema import SettlementOut, settlement_out

ITEMS_MAX: Final = 50


class SettlementIn(msgspec.Struct):
    """An asset, CAIP-19, and the account it is paid to, CAIP-10."""

    asset: str
    destination: str


class CreateSettlements(msgspec.Struct):
    """1 to 50 of them."""

    settlements: list[SettlementIn]


class SettlementsCreated(msgspec.Struct):
    """In the order in which they were sent."""

    settlements: list[SettlementOut]


async def create(call: Call) -> Answer:
    """POST /v1/merchants/{merchantId}/settlements/crypto → 201, all or nothing."""
    body = call.json(CreateSettlements)
    request = idempotent(call, body)
    # Before all else: a repeated request gets its answer also while no node does, and when its merchant or
    # its chain is gone.
    replay = call.realm.db.point(find_replay, request)
    if replay is not None:
        call.check_merchant(call.params["merchantId"])
        return outcome_answer(replay)
    merchant = own_merchant(call)
    asset_keys = check_settlements(call.realm, body.settlements)
    for place, item in enumerate(body.settlements):
        await check_on_chain(call.realm, item.asset, item.destination, f"settlements[{place}].destination")
    now_ms = call.realm.clock.now_ms()
    wanted = [
        Settlement(
            id=new_id("crypto_", now_ms, call.house.entropy),
            merchant_id=merchant.id,
            asset=item.asset,
            asset_key=asset_key,
            destination=item.destination,
            created_at_ms=now_ms,
        )
        for item, asset_key in zip(body.settlements, asset_keys, strict=True)
    ]

    def work(tx: Tx) -> Outcome:
        if find_merchant(tx, merchant.id) is None:
            raise NotFound("There is no such merchant.")
        # Where nothing was ever taken nothing can be led astray: setting up a merchant is no news.
        took = has_settlement(tx, merchant.id) or has_vacancy(tx, merchant.id)
        is_news = call.realm.live and took
        for settlement in wanted:
            occupy(tx, settlement, now_ms)
            insert_settlement(tx, settlement)
            _record(tx, call, now_ms, settlement, is_news=is_news)
        out = SettlementsCreated([settlement_out(settlement) for settlement in wanted])
        return Outcome(201, msgspec.json.encode(out))

    outcome = await call.realm.db.write_and_tell(
        lambda _: call.realm.deliveries.wake(NOTIFY), once, request, work
    )
    return outcome_answer(outcome)


def check_settlements(realm: Realm, items: list[SettlementIn]) -> list[str]:
    """Check destinations that are to be registered together; gives their canonical assets.

    Raises:
        ParamsValidation: Their number, a pattern, or an asset that stands there twice.
        InvalidParams: A well-formed value that cannot be: another chain, a wrong checksum, an asset that
            nobody serves.
    """
    if not 1 <= len(items) <= ITEMS_MAX:
        raise ParamsValidation.of(Issue("settlements", f"1 to {ITEMS_MAX} items."))
    issues: list[Issue] = []
    keys: list[str] = []
    for place, item in enumerate(items):
        try:
            asset_key = canonical_asset(parse_asset(item.asset))
        except MalformedCaip as malformed:
            issues.append(Issue(f"settlements[{place}].asset", str(malformed)))
            continue
        try:
            parse_account(item.destination)
        except MalformedCaip as malformed:
            issues.append(Issue(f"settlements[{place}].destination", str(malformed)))
            continue
        if asset_key in keys:
            issues.append(
                Issue(f"settlements[{place}].asset", "The same asset stands in this request twice.")
            )
        keys.append(asset_key)
    if issues:
        raise ParamsValidation.of(*issues)
    for place, item in enumerate(items):
        check_destination(item.asset, item.destination, f"settlements[{place}].destination")
        _check_served(realm, item.asset, f"settlements[{place}].asset")
    return keys


def check_destination(asset: str, destination: str, field: str) -> None:
    """Refuse a destination that cannot receive the asset.

    Raises:
        ParamsValidation: It is not a CAIP-10 account.
        InvalidParams: It is one that cannot be.
    """
    try:
        account = parse_account(destination)
    except MalformedCaip as malformed:
        raise ParamsValidation.of(Issue(field, str(malformed))) from None
    problem = destination_problem(parse_asset(asset), account)
    if problem is not None:
        raise InvalidParams(f"{field}: {problem}", details={"field": field})


async def check_on_chain(realm: Realm, asset: str, destination: str, field: str) -> None:
    """Refuse a destination of which its chain shows that it cannot receive the asset.

    A chain that is off has nothing to say, and nobody can pay there.

    Raises:
        InvalidParams: Such as a token account where a wallet belongs.
        ChainUnavailable: No node answers.
    """
    wanted = parse_asset(asset)
    chain = realm.payments.chain_of(str(canonical_chain(wanted.chain)))
    if chain is None:
        return
    try:
        problem = await chain.destination_problem(wanted, parse_account(destination))
    except ChainUnavailable as unavailable:
        raise ChainUnavailable(
            f"{field}: No node of {wanted.chain} answers, so the destination cannot be checked. Nothing was"
            " stored; try again.",
            details={"field": field},
        ) from unavailable
    if problem is not None:
        raise InvalidParams(f"{field}: {problem}", details={"field": field})


def _check_served(realm: Realm, asset: str, field: str) -> None:
    if not serves(realm, parse_asset(asset)):
        served = [row.asset for row in realm.assets.rows if serves(realm, parse_asset(row.asset))]
        raise InvalidParams(
            f"{field}: {asset} is no known asset of a configured chain, so nobody could pay with it."
            f" These work: {', '.join(served) or 'none; payd.toml names them in [[chains]] and [[assets]]'}.",
            details={"field": field},
        )


def serves(realm: Realm, asset: AssetId) -> bool:
    """Whether a chain of the realm knows the asset: in test mode, all of them are known."""
    chain = realm.payments.chain_of(str(canonical_chain(asset.chain)))
    return chain is not None and chain.display(asset) is not None


def _record(tx: Tx, call: Call, now_ms: int, settlement: Settlement, *, is_news: bool) -> None:
    added = Moved(
        settlement.id,
        settlement.merchant_id,
        call.account_id,
        settlement.asset,
        None,
        settlement.destination,
        call.actor,
    )
    fresh_id = partial(new_id, entropy=call.house.entropy) if is_news else None
    record_moved(tx, DESTINATION_ADDED, added, now_ms, actor=call.actor, fresh_id=fresh_id)
