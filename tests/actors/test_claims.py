"""A merchant's word about a transaction: where it is looked for, what it comes to, and who is told what."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest
import trio

from payd.actors.claims import READ_EVERY_S, Claimed, claim
from payd.actors.live_chain import LiveChain
from payd.actors.walk import MatchResult
from payd.actors.walk import Outcome as Read
from payd.chains.base import Chain, Found
from payd.chains.evm.binding import payment_tag
from payd.core.errors import ChainUnavailable, InvalidParams, NotFound
from payd.core.payment import Payment
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.merchants import Merchant, insert_merchant
from payd.store.payments import find_payment
from payd.store.sightings import Seen, record, sightings_in
from payd.web.house import Realm
from tests.chains.evm.json import BUYER, OTHER_SHOP, SHOP, THIRD, TOKEN
from tests.shop import open_shop
from tests.till import CHAIN, PRICE, START_MS, USDC, Till, account

TX = "0x" + "ab" * 32
_WORST_FIRST: Final[tuple[Read, ...]] = ("not_ours", "reverted", "disagreement", "not_mined", "not_read_yet")


class Watching:
    """A chain of a few transactions, in the place of a watcher with its nodes."""

    def __init__(self, till: Till, name: str = CHAIN) -> None:
        self.till = till
        self.name = name
        self.watcher = self
        self.outcomes: list[Read] = ["unknown"]
        self.asked = 0
        self.down = False
        self.hangs = False
        self.paid: tuple[Seen, ...] = ()

    def pays(self, binding: bytes | None = None, **more: Any) -> None:
        """The transaction is mined, and paid so much."""
        plain: dict[str, Any] = {
            "chain": self.name,
            "tx_id": TX,
            "log_index": len(self.paid),
            "asset": USDC,
            "value": PRICE,
            "sender": account(BUYER),
            "recipient": account(SHOP),
            "block_number": 100,
            "block_hash": "0xa100",
            "block_time_s": START_MS // 1000 + 60,
        }
        self.paid += (Seen(**(plain | more), binding=binding),)
        self.outcomes = ["recorded"]

    async def match(self, tx_id: str) -> MatchResult:
        """As a watcher does."""
        if tx_id.startswith("0x") is not self.name.startswith("eip155:"):
            raise InvalidParams(f"No transaction of {self.name} is called so.")
        self.asked += 1
        if self.hangs:
            await trio.sleep_forever()
        if self.down:
            raise ChainUnavailable(f"No node of {self.name} answers.")
        outcome = self.outcomes[0] if len(self.outcomes) == 1 else self.outcomes.pop(0)
        if outcome != "recorded":
            return MatchResult(outcome, f"It is {outcome}.")
        await self.till.db.write(record, self.paid, START_MS)
        return MatchResult(outcome, "Recorded.", tuple(self.till.db.point(sightings_in, self.name, TX)))


class Looked:
    """The payments' side of the chain: it is told of news, and finds nothing."""

    def __init__(self) -> None:
        self.at: list[str] = []

    def serves(self, chain: str) -> bool:
        return True

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        self.at.append(payment.id)
        return None


class Office:
    """A realm with a till and its chains, and the merchant who speaks."""

    def __init__(self, realm: Realm, till: Till) -> None:
        self.realm = realm
        self.till = till
        self.watching = Watching(till)
        self.chains = [self.watching]
        self.looked = Looked()
        realm.payments.chains = (cast("Chain", self.looked),)

    async def sell(self, **more: Any) -> str:
        """A payment with an id as the API makes them."""
        return await self.till.sell(new_id("", START_MS), **more)

    async def says(
        self,
        payment_id: str,
        chain: str | None = None,
        tx_id: str = TX,
        merchants: frozenset[str] | None = None,
    ) -> Claimed:
        """The merchant names the transaction."""
        payment = self.till.payment(payment_id)
        chains = [cast("LiveChain", one) for one in self.chains]
        return await claim(self.realm.payments, chains, payment, tx_id, chain, "key_1", merchants)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_shop(tmp_path / "data", live=True) as shop:
        realm = shop.house.realms["live"]
        yield Office(realm, await Till(realm.db).open())


async def test_what_pays_is_told_to_the_payment(office: Office) -> None:
    payment = await office.sell()
    office.watching.pays()

    claimed = await office.says(payment)

    assert claimed.outcome == "matched"
    assert [(one.kind, one.payment_id) for one in claimed.transfers] == [("matched", payment)]
    assert office.looked.at == [payment]


async def test_saying_it_again_gives_the_same_answer(office: Office) -> None:
    payment = await office.sell()
    office.watching.pays()

    assert await office.says(payment) == await office.says(payment)


@pytest.mark.parametrize(("value", "kind"), [(PRICE - 1, "partial"), (PRICE + 1, "surplus")])
async def test_what_does_not_pay_is_recorded_with_the_payment(office: Office, value: int, kind: str) -> None:
    payment = await office.sell()
    office.watching.pays(value=value)

    claimed = await office.says(payment)

    assert (claimed.outcome, [one.kind for one in claimed.transfers]) == ("recorded", [kind])
    assert office.looked.at == []


async def test_of_several_transfers_the_one_that_pays_is_the_answer(office: Office) -> None:
    payment = await office.sell()
    office.watching.pays(value=1)
    office.watching.pays()

    claimed = await office.says(payment)

    assert claimed.outcome == "matched"
    assert [one.kind for one in claimed.transfers] == ["partial", "matched"]


async def test_what_is_bound_to_another_payment_is_said_and_left(office: Office) -> None:
    other, payment = await office.sell(), await office.sell()
    office.watching.pays(payment_tag(other))

    claimed = await office.says(payment)

    assert claimed.outcome == "other_payment"
    assert other not in claimed.words
    assert [one.payment_id for one in claimed.transfers] == [other]


async def sibling(office: Office) -> None:
    """Another merchant of the same account, paid elsewhere; keys can be limited to one of them."""
    other = Merchant("mrch_3", "acct_1", "Bar", "bar@example.com", None, "active", 1000)
    await office.till.db.write(insert_merchant, other)
    await office.till.settle(3, USDC, THIRD)


async def test_what_another_merchant_was_paid_is_not_shown(office: Office) -> None:
    payment = await office.sell()
    await sibling(office)
    office.watching.pays(recipient=account(THIRD))

    claimed = await office.says(payment)
    assert (claimed.outcome, claimed.transfers) == ("not_ours", ())

    office.watching.pays(value=PRICE - 1)
    claimed = await office.says(payment)
    assert (claimed.outcome, [one.kind for one in claimed.transfers]) == ("recorded", ["partial"])


async def test_the_payment_of_another_merchant_is_not_named(office: Office) -> None:
    other, payment = await office.sell(), await office.sell()
    await sibling(office)
    await office.till.db.write(hand_over, other, "mrch_3")
    office.watching.pays(payment_tag(other))

    claimed = await office.says(payment)

    assert (claimed.outcome, claimed.transfers) == ("other_payment", ())


async def test_who_speaks_for_one_merchant_takes_nothing_from_another(office: Office) -> None:
    theirs, payment = await office.sell(), await office.sell()
    await sibling(office)
    await office.till.db.write(hand_over, theirs, "mrch_3")
    office.watching.pays(value=PRICE - 1)
    assert (await office.says(theirs)).outcome == "recorded"

    limited = await office.says(payment, merchants=frozenset({"mrch_1"}))
    assert (limited.outcome, limited.transfers) == ("other_payment", ())
    of_both = await office.says(payment, merchants=frozenset({"mrch_1", "mrch_3"}))
    assert [one.payment_id for one in of_both.transfers] == [payment]
    of_all = await office.says(theirs)
    assert [one.payment_id for one in of_all.transfers] == [theirs]


def hand_over(tx: Tx, payment_id: str, merchant_id: str) -> None:
    """Have a payment be another merchant's, paid at the same address."""
    payment = find_payment(tx, payment_id)
    assert payment is not None
    body = msgspec.msgpack.encode(msgspec.structs.replace(payment, merchant_id=merchant_id))
    tx.execute("UPDATE payments SET merchant_id = ?, body = ? WHERE id = ?", (merchant_id, body, payment_id))


async def test_what_another_account_was_paid_is_not_told(office: Office) -> None:
    payment, foreign = await office.sell(), await office.sell(merchant=2)
    office.watching.pays(payment_tag(foreign), recipient=account(OTHER_SHOP))

    claimed = await office.says(payment)

    assert (claimed.outcome, claimed.transfers) == ("not_ours", ())
    assert foreign not in claimed.words


async def test_what_was_never_asked_for_is_left_and_said(office: Office) -> None:
    payment = await office.sell()
    office.watching.pays(block_time_s=START_MS // 1000 - 1000)

    claimed = await office.says(payment)

    assert claimed.outcome == "not_offered"
    assert [(one.kind, one.payment_id) for one in claimed.transfers] == [("unmatched", None)]


@pytest.mark.parametrize("outcome", ["not_ours", "not_mined", "reverted", "disagreement"])
async def test_what_cannot_be_recorded_is_told_and_changes_nothing(office: Office, outcome: Read) -> None:
    payment = await office.sell()
    office.watching.outcomes = [outcome]

    claimed = await office.says(payment)

    assert (claimed.outcome, claimed.transfers, office.looked.at) == (outcome, (), [])


@pytest.mark.parametrize("at_first", ["not_read_yet", "disagreement"])
async def test_a_block_that_is_about_to_be_read_or_that_one_node_has_not_is_waited_for(
    office: Office, at_first: Read
) -> None:
    payment = await office.sell()
    office.watching.pays()
    office.watching.outcomes = [at_first, at_first, "recorded"]

    assert (await office.says(payment)).outcome == "matched"


async def test_a_chain_that_is_not_read_is_not_waited_for_long(office: Office) -> None:
    payment = await office.sell()
    office.watching.outcomes = ["not_read_yet"]

    assert (await office.says(payment)).outcome == "not_read_yet"


async def test_the_payments_own_chains_are_asked_first_and_then_the_others(office: Office) -> None:
    elsewhere = Watching(office.till, "eip155:1")
    office.chains = [elsewhere, office.watching]
    payment = await office.sell()
    office.watching.pays()

    assert (await office.says(payment)).outcome == "matched"
    assert elsewhere.asked == 0

    office.watching.outcomes, elsewhere.outcomes = ["unknown"], ["not_ours"]
    assert (await office.says(payment)).outcome == "not_ours"
    assert elsewhere.asked == 1


@pytest.mark.parametrize("elsewhere", ["reverted", "not_ours", "not_mined", "disagreement", "not_read_yet"])
async def test_of_several_chains_that_know_it_the_one_where_it_pays_counts(
    office: Office, elsewhere: Read
) -> None:
    """A transaction that names no chain can be brought to several, by anybody, and reverts on another one."""
    first = Watching(office.till, "eip155:1")
    office.chains = [first, office.watching]
    payment = await office.sell()
    await office.till.offer(payment, asset=f"{first.name}/erc20:{TOKEN}")
    first.outcomes = [elsewhere]
    office.watching.pays()

    claimed = await office.says(payment)

    assert first.asked > 0
    assert claimed.outcome == "matched"
    assert office.looked.at == [payment]


async def test_less_than_was_asked_for_on_one_chain_hides_nothing_that_pays_on_another(
    office: Office,
) -> None:
    """The same amount is less of a coin that has more decimals there."""
    first = Watching(office.till, "eip155:1")
    asset = f"{first.name}/erc20:{TOKEN}"
    office.chains = [first, office.watching]
    payment = await office.sell()
    await office.till.offer(payment, asset=asset, value=10**12 * PRICE)
    first.pays(asset=asset, sender=account(BUYER, first.name), recipient=account(SHOP, first.name))

    assert (await office.says(payment)).outcome == "recorded"
    office.watching.pays()
    claimed = await office.says(payment)

    assert claimed.outcome == "matched"
    assert [(one.chain, one.kind) for one in claimed.transfers] == [(CHAIN, "matched")]


async def test_where_no_chain_shows_that_it_pays_the_most_hopeful_word_is_told(office: Office) -> None:
    first, second = Watching(office.till, "eip155:1"), Watching(office.till, "eip155:10")
    office.chains = [first, second]
    payment = await office.sell()
    for told, more_hopeful in itertools.pairwise(_WORST_FIRST):
        for first.outcomes, second.outcomes in ([told], [more_hopeful]), ([more_hopeful], [told]):
            assert (await office.says(payment)).outcome == more_hopeful


async def test_a_chain_that_hangs_takes_back_nothing_that_another_one_said(office: Office) -> None:
    hanging = Watching(office.till, "eip155:1")
    hanging.hangs = True
    office.chains = [office.watching, hanging]
    payment = await office.sell()
    office.watching.outcomes = ["reverted"]

    assert (await office.says(payment)).outcome == "reverted"
    assert hanging.asked == 1


async def test_a_named_chain_alone_is_asked(office: Office) -> None:
    elsewhere = Watching(office.till, "eip155:1")
    office.chains = [elsewhere, office.watching]
    payment = await office.sell()
    office.watching.pays()

    with pytest.raises(NotFound, match="eip155:1 knows"):
        await office.says(payment, "eip155:1")
    with pytest.raises(InvalidParams, match="eip155:10 is not configured"):
        await office.says(payment, "eip155:10")
    assert office.watching.asked == 0


async def test_unknown_is_only_said_where_every_chain_could_be_asked(office: Office) -> None:
    elsewhere = Watching(office.till, "eip155:1")
    office.chains = [office.watching, elsewhere]
    payment = await office.sell()

    with pytest.raises(NotFound):
        await office.says(payment)
    office.watching.down = True
    with pytest.raises(ChainUnavailable):
        await office.says(payment)
    elsewhere.outcomes = ["not_ours"]
    assert (await office.says(payment)).outcome == "not_ours"


async def test_an_id_is_looked_for_where_transactions_are_called_so(office: Office) -> None:
    """An EVM hash is none of Solana's, whichever chain is configured first."""
    payment = await office.sell()
    office.watching.pays()
    solana = Watching(office.till, "solana:mainnet")
    for chains in ([office.watching, solana], [solana, office.watching]):
        office.chains = chains
        assert (await office.says(payment)).outcome == "matched"
    with pytest.raises(NotFound, match="No node of solana:mainnet knows"):
        await office.says(payment, tx_id="5" * 88)
    assert solana.asked == 1

    with pytest.raises(InvalidParams, match=f"No transaction of {CHAIN} is called so"):
        await office.says(payment, CHAIN, tx_id="5" * 88)
    office.chains = [office.watching]
    with pytest.raises(InvalidParams, match=f"No transaction of {CHAIN} is called so"):
        await office.says(payment, tx_id="5" * 88)
    office.chains, solana.down = [office.watching, solana], True
    with pytest.raises(ChainUnavailable):
        await office.says(payment, tx_id="5" * 88)


async def test_nodes_that_hang_are_not_waited_for_for_ever(office: Office) -> None:
    payment = await office.sell()
    office.watching.hangs = True
    with pytest.raises(ChainUnavailable, match="too long"):
        await office.says(payment)


async def test_a_caller_who_leaves_does_not_stop_it(office: Office) -> None:
    payment = await office.sell()
    office.watching.pays()
    office.watching.outcomes = ["not_read_yet", "recorded"]
    with trio.move_on_after(READ_EVERY_S / 2) as left:
        await office.says(payment)
    await trio.sleep(READ_EVERY_S)

    assert left.cancelled_caught
    assert office.looked.at == [payment]


async def test_without_a_chain_there_is_nothing_to_read(office: Office) -> None:
    payment = await office.sell()
    office.chains = []
    with pytest.raises(InvalidParams, match="No chain is configured"):
        await office.says(payment)
