"""What a wallet hands back: accepted when it pays and can land now, refused in words when it does not."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.base import Accepted, Misaligned, Refused, Verdict
from payd.chains.defaults import DepthPolicy
from payd.chains.solana.build import SET_UNIT_LIMIT, fee_of, split, unsigned, with_signature
from payd.chains.solana.checks import ASK_AGAIN, BLOCKS_LEFT_MIN, CHANGED, ONE_TEXT, TAKEN
from payd.chains.solana.failures import FROZEN, NO_FUNDS
from payd.chains.solana.keys import LIGHTHOUSE, TOKEN, TOKEN_2022, token_account
from payd.chains.solana.track import Track
from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidSignature,
    PaydError,
    QuoteExpired,
    RateLimited,
)
from payd.core.option import Quote, Result
from payd.core.submission import Submission
from payd.store.builds import find_build, hash_message
from payd.store.db import Database
from payd.store.submissions import insert_submission
from tests.chains.solana.scene import Scene, open_scene, sign, signed_by, transaction_of
from tests.chains.solana.vm import program_that_does_nothing
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    POOR,
    PYUSD,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    account_id,
    close_holding,
    hand_over,
    keypair,
    pubkey,
    tx_id_of,
)

pytestmark = pytest.mark.real_time

WALLETS = [(USDC, BUYER), (USDC, POOR), (PYUSD, BUYER), (SOL, BUYER)]


def accepted(verdict: Verdict) -> tuple[Submission, Track]:
    assert isinstance(verdict, Accepted), verdict
    assert isinstance(verdict.job, Submission)
    return verdict.job, msgspec.msgpack.decode(verdict.processing.track, type=Track)


def refused(verdict: Verdict) -> PaydError:
    assert isinstance(verdict, Refused), verdict
    return verdict.error


# What is good.


@pytest.mark.parametrize(("asset", "buyer"), WALLETS)
async def test_the_transaction_that_was_handed_out_is_taken_whole_and_lands(
    scene: Scene, asset: str, buyer: int
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, asset, buyer)
    verdict = await scene.check(payment, quote, sign(quote, buyer))
    submission, track = accepted(verdict)
    assert isinstance(verdict, Accepted)

    assert submission.raw == signed_by(transaction_of(quote), keypair(buyer))
    assert submission.tx_id == track.tx_id == tx_id_of(submission.raw)
    assert (submission.chain, submission.buyer) == (CHAIN, account_id(buyer))
    assert submission.valid_until_height == track.valid_until_height == height(scene) + 150
    assert verdict.processing.buyer == account_id(buyer)
    assert (track.asset, track.recipient) == (asset, account_id(MERCHANT))
    await scene.local.send_raw(submission.raw)
    await scene.local.confirm()
    status = await scene.local.status(submission.tx_id)
    assert status is not None
    assert status["err"] is None


def height(scene: Scene) -> int:
    return scene.node.ledger.at("confirmed").height


async def test_who_pays_the_fee_signs_first(scene: Scene) -> None:
    payment = await scene.payment()
    for buyer, payer in ((BUYER, BUYER), (POOR, FEE_PAYER)):
        quote = await scene.quote(payment, buyer=buyer, option_id=f"opt_{buyer}")
        submission, _ = accepted(await scene.check(payment, quote, sign(quote, buyer)))
        message = Message.from_bytes(split(submission.raw)[1])

        assert message.account_keys[0] == pubkey(payer)


async def test_how_deep_it_must_lie_is_noted_by_what_it_is_worth(realm_db: Database) -> None:
    async with open_scene(realm_db, depth=DepthPolicy.of({"0": "confirmed", "25": "finalized"})) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)

        assert accepted(await scene.check(payment, quote, sign(quote)))[1].depth == "finalized"


async def test_what_has_landed_already_is_taken_however_old_it_is(scene: Scene) -> None:
    """A confirm that comes again after a crash, or that a wallet sent by itself."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    tx_id = await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    assert accepted(await scene.check(payment, quote, sign(quote)))[0].tx_id == tx_id
    await scene.local.slots(200)

    assert accepted(await scene.check(payment, quote, sign(quote)))[0].tx_id == tx_id


async def test_a_key_that_was_changed_since_does_not_void_what_the_old_one_signed(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, buyer=POOR)
    results = [Result("walletRpc", [sign(quote, POOR)])]
    for key in (None, STRANGER):
        restarted = scene.restarted(key=key)
        verdict = await restarted.check(payment, quote, results, scene.now_ms())

        assert accepted(verdict)[0].raw == signed_by(transaction_of(quote), keypair(POOR))


# Guards.


@pytest.fixture
def guards(scene: Scene) -> Scene:
    """A program in the place of Lighthouse that takes everything."""
    scene.node.ledger.svm.add_program(LIGHTHOUSE, program_that_does_nothing())
    return scene


def with_units(data: bytes, more: int) -> bytes:
    """What sets the limit of compute units, for so many more; anything else as it is."""
    if len(data) != 5 or data[0] != SET_UNIT_LIMIT:
        return data
    return data[:1] + (int.from_bytes(data[1:], "little") + more).to_bytes(4, "little")


def guarded(quote: Quote, buyer: int = BUYER, named: Pubkey | None = None, more_units: int = 0) -> str:
    """What a wallet gives that adds an assertion about an account, its user's own if none is named."""
    own = token_account(pubkey(buyer), USDC_MINT, TOKEN)
    built = Message.from_bytes(split(transaction_of(quote))[1])
    keys, header = built.account_keys, built.header

    def is_writable(at: int) -> bool:
        if at < header.num_required_signatures:
            return at < header.num_required_signatures - header.num_readonly_signed_accounts
        return at < len(keys) - header.num_readonly_unsigned_accounts

    ours = [
        Instruction(
            keys[one.program_id_index],
            with_units(bytes(one.data), more_units),
            [AccountMeta(keys[at], built.is_signer(at), is_writable(at)) for at in one.accounts],
        )
        for one in built.instructions
    ]
    guard = Instruction(LIGHTHOUSE, b"\x09guard", [AccountMeta(named or own, False, False)])
    message = Message.new_with_blockhash([*ours, guard], keys[0], built.recent_blockhash)
    return base64.b64encode(signed_by(unsigned(bytes(message)), keypair(buyer))).decode()


async def test_a_wallets_guard_is_taken_with_the_transaction(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment)
    submission, _ = accepted(await guards.check(payment, quote, guarded(quote)))
    await guards.local.send_raw(submission.raw)
    await guards.watch()

    assert guards.row(payment).tx_id == submission.tx_id


async def test_where_we_pay_a_guarded_transaction_is_signed_anew_and_reserved(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment, buyer=POOR)
    result = guarded(quote, POOR, more_units=50_000)
    verdict = await guards.check(payment, quote, result)
    submission, _ = accepted(verdict)
    handed, changed = split(transaction_of(quote))[1], split(submission.raw)[1]
    build = guards.db.point(find_build, hash_message(changed))
    first = guards.db.point(find_build, hash_message(handed))

    assert build is not None
    assert first is not None
    assert build.tx_id == submission.tx_id != first.tx_id
    assert build.cost == first.cost - fee_of(handed) + fee_of(changed) > first.cost
    assert (build.payment_id, build.buyer) == (payment.id, account_id(POOR))
    # Again, it is the same one: nothing more is reserved.
    assert await guards.check(payment, quote, result) == verdict
    await guards.local.send_raw(submission.raw)
    await guards.watch()
    assert guards.row(payment).tx_id == submission.tx_id
    # And when it has landed, too.
    await guards.local.slots(200)
    assert accepted(await guards.check(payment, quote, result))[0] == submission


async def test_what_a_guarded_transaction_opens_is_reserved_with_it(guards: Scene) -> None:
    await guards.local.send([close_holding(pubkey(MERCHANT), USDC_MINT)], keypair(MERCHANT))
    await guards.local.confirm()
    payment = await guards.payment()
    quote = await guards.quote(payment, buyer=POOR)
    submission, _ = accepted(await guards.check(payment, quote, guarded(quote, POOR)))
    handed, changed = split(transaction_of(quote))[1], split(submission.raw)[1]
    first, build = (guards.db.point(find_build, hash_message(one)) for one in (handed, changed))

    assert first is not None
    assert build is not None
    assert build.cost == first.cost > fee_of(changed)


async def test_guards_are_paid_for_within_the_budget_alone(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment, buyer=POOR)
    reserved = guards.db.point(find_build, hash_message(split(transaction_of(quote))[1]))
    assert reserved is not None
    tight = guards.restarted(spend_per_day=reserved.cost * 2 - 1)
    results = [Result("walletRpc", [guarded(quote, POOR)])]
    assert isinstance(refused(await tight.check(payment, quote, results, guards.now_ms())), RateLimited)
    assert guards.builds() == 1
    for key in (None, STRANGER):
        other = guards.restarted(key=key)
        error = refused(await other.check(payment, quote, results, guards.now_ms()))

        assert isinstance(error, QuoteExpired)
    assert guards.builds() == 1


async def test_nothing_is_reserved_for_a_guarded_transaction_that_would_fail(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment, buyer=POOR)
    await guards.local.give(pubkey(POOR), USDC_MINT, 1)
    error = refused(await guards.check(payment, quote, guarded(quote, POOR)))

    assert isinstance(error, InvalidParams)
    assert NO_FUNDS in error.message
    assert guards.builds() == 1


async def test_a_guard_that_names_the_fee_payer_is_refused(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment, buyer=POOR)
    result = guarded(quote, POOR, named=pubkey(FEE_PAYER))

    assert isinstance(refused(await guards.check(payment, quote, result)), InvalidParams)
    assert guards.builds() == 1


async def test_a_guard_that_reads_another_token_program_changes_nothing(guards: Scene) -> None:
    payment = await guards.payment()
    quote = await guards.quote(payment)

    accepted(await guards.check(payment, quote, guarded(quote, named=TOKEN_2022)))


# Refusals.


async def test_a_transaction_too_old_to_land_is_to_be_fetched_again(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.slots(150 - BLOCKS_LEFT_MIN)
    accepted(await scene.check(payment, quote, sign(quote)))
    for _ in range(2):
        await scene.local.slots(1)
        error = refused(await scene.check(payment, quote, sign(quote)))

        assert isinstance(error, QuoteExpired)
        assert error.message == ASK_AGAIN
        await scene.local.slots(BLOCKS_LEFT_MIN)


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_a_buyer_who_spent_it_meanwhile_is_told_so(scene: Scene, asset: str) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, asset)
    if asset == SOL:
        await scene.local.fund(pubkey(BUYER), 10_000_000)
    else:
        await scene.local.give(pubkey(BUYER), USDC_MINT, 24_999_999)
    error = refused(await scene.check(payment, quote, sign(quote)))

    assert isinstance(error, InvalidParams)
    assert NO_FUNDS in error.message
    assert "still open" in error.message


async def test_a_frozen_account_is_told_so(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.give(pubkey(BUYER), USDC_MINT, 10**9, state=2)
    error = refused(await scene.check(payment, quote, sign(quote)))

    assert isinstance(error, InvalidParams)
    assert FROZEN in error.message


async def test_a_merchants_account_that_was_closed_in_between_is_made_anew_by_fetching_again(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.send([close_holding(pubkey(MERCHANT), USDC_MINT)], keypair(MERCHANT))
    await scene.local.confirm()
    error = refused(await scene.check(payment, quote, sign(quote)))
    assert isinstance(error, QuoteExpired)
    assert error.message == CHANGED

    again = await scene.quote(payment)
    accepted(await scene.check(payment, again, sign(again)))


async def test_a_merchants_account_that_became_somebody_elses_is_not_paid(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await scene.local.confirm()
    error = refused(await scene.check(payment, quote, sign(quote)))

    assert isinstance(error, QuoteExpired)
    assert error.message == CHANGED


async def test_what_failed_on_the_chain_already_is_to_be_fetched_again(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    await scene.local.give(pubkey(BUYER), USDC_MINT, 10**9)
    error = refused(await scene.check(payment, quote, sign(quote)))

    assert isinstance(error, QuoteExpired)
    assert NO_FUNDS in error.message


async def test_what_the_buyer_did_not_sign_is_refused(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    raw = transaction_of(quote)
    unsigned_text = base64.b64encode(raw).decode()
    theirs = bytes(keypair(BUYER_2).sign_message(split(raw)[1]))
    wrong = base64.b64encode(with_signature(raw, pubkey(BUYER), theirs)).decode()
    for text in (unsigned_text, wrong):
        assert isinstance(refused(await scene.check(payment, quote, text)), InvalidSignature)


async def test_the_transaction_of_another_payment_is_refused(scene: Scene) -> None:
    payment = await scene.payment()
    other = await scene.payment(id="pay_l01jw0000000000000000000000000000000b")
    quote, theirs = await scene.quote(payment), await scene.quote(other)
    assert isinstance(refused(await scene.check(payment, quote, sign(theirs))), InvalidParams)
    # Not even if the quote says so.
    mixed = msgspec.structs.replace(quote, actions=theirs.actions)

    assert isinstance(refused(await scene.check(payment, mixed, sign(theirs))), QuoteExpired)


async def test_what_was_fetched_before_is_an_old_transaction_and_not_a_changed_one(scene: Scene) -> None:
    payment = await scene.payment()
    handed = await scene.handed(payment, USDC)
    old = await scene.fetch(payment, handed)
    await scene.local.slots(100)
    new = await scene.fetch(payment, handed)
    assert transaction_of(new) != transaction_of(old)
    error = refused(await scene.check(payment, new, sign(old)))
    assert isinstance(error, QuoteExpired)
    assert error.message == ASK_AGAIN

    # Each is good for its own quote.
    accepted(await scene.check(payment, new, sign(new)))
    await scene.local.slots(30)
    accepted(await scene.check(payment, old, sign(old)))


async def test_what_was_never_stored_as_handed_out_is_refused(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.db.write(lambda tx: tx.execute("DELETE FROM builds"))

    assert isinstance(refused(await scene.check(payment, quote, sign(quote))), QuoteExpired)


async def test_a_transaction_is_given_for_one_payment_only(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    submission, _ = accepted(await scene.check(payment, quote, sign(quote)))
    await scene.db.write(insert_submission, "pay_other", submission, scene.now_ms())
    error = refused(await scene.check(payment, quote, sign(quote)))

    assert isinstance(error, InvalidParams)
    assert error.message == TAKEN


@pytest.mark.parametrize("data", [[], ["a", "b"], [7], [{"transaction": "AA=="}]])
async def test_a_result_is_one_text(scene: Scene, data: list[object]) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    verdict = await scene.solana.check(payment, quote, [Result("walletRpc", data)], scene.now_ms())
    error = refused(verdict)

    assert isinstance(error, InvalidParams)
    assert error.message == ONE_TEXT


async def test_another_number_of_results_is_misaligned(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)

    assert await scene.check(payment, quote) == Misaligned()
    assert await scene.check(payment, quote, sign(quote), sign(quote)) == Misaligned()


# Nodes.


async def test_a_check_asks_a_node_once(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)
        scene.proxies[0].posts = 0
        accepted(await scene.check(payment, quote, sign(quote)))

        assert scene.proxies[0].posts == 1


async def test_without_a_node_nothing_is_accepted_or_refused(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)
        [node] = scene.proxies
        node.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, sign(quote))
        node.status = None


async def test_what_a_node_has_processed_and_shows_no_status_of_is_taken(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)

        def processed(request: Any, result: Any) -> Any:
            if request["method"] != "simulateTransaction":
                return result
            return {**result, "value": {**result["value"], "err": "AlreadyProcessed"}}

        scene.proxies[0].rewrite = processed
        accepted(await scene.check(payment, quote, sign(quote)))


@pytest.mark.parametrize(
    "method", ["getBlockHeight", "simulateTransaction", "getMultipleAccounts", "getSignatureStatuses"]
)
async def test_an_answer_that_cannot_be_read_is_none(realm_db: Database, method: str) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)
        scene.proxies[0].rewrite = lambda request, result: "?" if request["method"] == method else result
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, sign(quote))


async def test_a_node_that_does_not_take_it_for_a_transaction_refuses_it(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)
        scene.proxies[0].errors["simulateTransaction"] = (-32602, "invalid transaction: index out of bounds")
        error = refused(await scene.check(payment, quote, sign(quote)))

        assert isinstance(error, InvalidParams)
        assert "index out of bounds" in error.message
