"""What payd hands out on Solana is signed by the code of real wallets, passes its own check, and lands."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import (
    Leg,
    Wanted,
    build_message,
    split,
    unit_limit_for,
    unsigned,
    with_signature,
)
from payd.chains.solana.fee_payer import FeePayer, fee_payer_from
from payd.chains.solana.guards import GuardLimits
from payd.chains.solana.keys import LIGHTHOUSE, TOKEN, TOKEN_2022
from payd.chains.solana.returned import Returned, check_returned
from payd.core.errors import InvalidSignature
from tests.live.solana import (
    BUYER,
    LAMPORTS,
    MERCHANT,
    OPERATOR,
    PYUSD_MINT,
    USDC_MINT,
    USDT_MINT,
    LocalSolana,
    furnish_solana,
    keypair,
    pubkey,
)
from tests.live.svm_methods import SvmNode
from tests.packages import CACHE, from_npm

PACKAGES: Final = {
    "@solana/web3.js": "1.99.0",
    "@solana/wallet-adapter-unsafe-burner": "0.1.12",
    "@solana/wallet-standard-wallet-adapter-base": "1.1.4",
    "bs58": "6.0.0",
}
SIGN_MAX_S: Final = 60
# An assertion about an account's lamports, of which nothing is read here but its first byte.
GUARD: Final = base64.b64encode(bytes([5, 0, 0])).decode()

PAYER: Final = fee_payer_from(bytes(31) + b"\7")
AMOUNT: Final = 12_340_000
LIMITS: Final = GuardLimits()


class Case(NamedTuple):
    """A payment: of which token, and who pays the network's fee."""

    name: str
    mint: Pubkey | None
    program: Pubkey | None
    sponsor: FeePayer | None

    def wanted(self) -> Wanted:
        """With the operator's fee beside it, and an account that is created where there is a token."""
        wanted = Wanted(
            reference=reference_of(f"pay_{self.name}"),
            buyer=pubkey(BUYER),
            fee_payer=pubkey(BUYER) if self.sponsor is None else self.sponsor.address,
            mint=self.mint,
            program=self.program,
            decimals=9 if self.mint is None else 6,
            legs=(Leg(pubkey(MERCHANT), AMOUNT), Leg(pubkey(OPERATOR), 10**6)),
            create=() if self.mint is None else (pubkey(OPERATOR),),
            unit_price=1000,
        )
        return msgspec.structs.replace(wanted, unit_limit=unit_limit_for(wanted))

    def handed_out(self, blockhash: str) -> bytes:
        """The transaction, which we have signed if we pay the fee."""
        message = build_message(self.wanted(), blockhash)
        if self.sponsor is None:
            return unsigned(message)
        return with_signature(unsigned(message), self.sponsor.address, self.sponsor.sign(message))

    def check(self, handed_out: bytes, text: str) -> Returned:
        """What payd makes of what a wallet gave back."""
        sponsor = None if self.sponsor is None else self.sponsor.address
        return check_returned(handed_out, text, pubkey(BUYER), sponsor, LIMITS)


CASES: Final = (
    Case("usdc-sponsored", USDC_MINT, TOKEN, PAYER),
    Case("pyusd-sponsored", PYUSD_MINT, TOKEN_2022, PAYER),
    Case("usdt-by-the-buyer", USDT_MINT, TOKEN, None),
    Case("sol-by-the-buyer", None, None, None),
)
SPONSORED: Final = tuple(case for case in CASES if case.sponsor is not None)
UNSPONSORED: Final = tuple(case for case in CASES if case.sponsor is None)


class Signed(NamedTuple):
    """What the wallets gave back, on the node where it may land.

    Attributes:
        handed_out: By the name of the case.
        made: By wallet, then by the name of the case.
    """

    node: SvmNode
    handed_out: dict[str, bytes]
    made: dict[str, dict[str, dict[str, str]]]


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """A folder from which Node finds the wallets' libraries; installed once and kept."""
    return from_npm(CACHE / "solana-wallets", PACKAGES)


@pytest.fixture(scope="module")
def given(node_modules: Path) -> tuple[str, dict[str, bytes], dict[str, Any]]:
    """A blockhash, what was handed out with it, and what each wallet made of that."""
    blockhash = str(Pubkey(bytes([9]) * 32))
    handed_out = {case.name: case.handed_out(blockhash) for case in CASES}
    asked = {
        "key": list(bytes(keypair(BUYER))),
        "transactions": [base64.b64encode(raw).decode() for raw in handed_out.values()],
        "guard": {"program": str(LIGHTHOUSE), "account": str(pubkey(BUYER)), "data": GUARD},
    }
    script = Path(__file__).parent / "wallets" / "sign.mjs"
    run = subprocess.run(
        ["node", str(script), str(node_modules)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=SIGN_MAX_S,
        check=True,
    )
    made = {
        wallet: dict(zip(handed_out, results, strict=True))
        for wallet, results in json.loads(run.stdout).items()
    }
    return blockhash, handed_out, made


@pytest.fixture
async def signed(given: tuple[str, dict[str, bytes], dict[str, Any]]) -> Signed:
    """The same, on a fresh node that takes that blockhash."""
    blockhash, handed_out, made = given
    node = SvmNode(finalized=4)
    node.ledger.accept(blockhash)
    local = LocalSolana(node)
    await furnish_solana(local)
    for one in (PAYER.address, pubkey(OPERATOR), pubkey(MERCHANT)):
        await local.fund(one, LAMPORTS)
    return Signed(node, handed_out, made)


async def landed(signed: Signed, case: Case, returned: Returned) -> tuple[Any, int, int]:
    """How it ended, what the merchant got, and what the buyer's SOL is less."""
    local = LocalSolana(signed.node)

    async def merchants() -> int:
        if case.mint is None or case.program is None:
            return await local.lamports(pubkey(MERCHANT))
        return await local.tokens(pubkey(MERCHANT), case.mint, case.program)

    before, had = await merchants(), await local.lamports(pubkey(BUYER))
    raw = returned.raw
    if returned.tx_id is None:
        assert case.sponsor is not None
        raw = with_signature(raw, case.sponsor.address, case.sponsor.sign(returned.message))
    tx_id = await local.send_raw(raw)
    status = await local.status(tx_id)
    assert status is not None
    return status["err"], await merchants() - before, had - await local.lamports(pubkey(BUYER))


WALLETS: Final = ("versioned", "partial", "incomplete", "standard", "standardLegacy")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("wallet", WALLETS)
async def test_what_wallets_sign_is_accepted_as_it_was_handed_out_and_pays(
    signed: Signed, wallet: str, case: Case
) -> None:
    returned = case.check(signed.handed_out[case.name], signed.made[wallet][case.name]["signed"])

    # None of them adds anything.
    assert returned.message == split(signed.handed_out[case.name])[1]
    assert returned.tx_id is not None
    err, got, spent = await landed(signed, case, returned)
    assert (err, got) == (None, AMOUNT)
    if case.sponsor is not None:
        assert spent == 0


@pytest.mark.parametrize("case", UNSPONSORED, ids=[case.name for case in UNSPONSORED])
async def test_an_old_sample_that_signs_alone_works_where_the_buyer_pays_the_fee(
    signed: Signed, case: Case
) -> None:
    returned = case.check(signed.handed_out[case.name], signed.made["alone"][case.name]["signed"])

    assert (await landed(signed, case, returned))[:2] == (None, AMOUNT)


@pytest.mark.parametrize("case", SPONSORED, ids=[case.name for case in SPONSORED])
async def test_an_old_sample_that_signs_alone_refuses_by_itself_what_we_pay_for(
    signed: Signed, case: Case
) -> None:
    assert "ignature" in signed.made["alone"][case.name]["error"]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_guard_that_a_wallet_adds_is_let_through_and_pays(signed: Signed, case: Case) -> None:
    returned = case.check(signed.handed_out[case.name], signed.made["guarding"][case.name]["signed"])

    assert returned.message != split(signed.handed_out[case.name])[1]
    assert (returned.tx_id is None) == (case.sponsor is not None)
    assert (await landed(signed, case, returned))[:2] == (None, AMOUNT)


async def test_what_another_key_signed_is_refused(signed: Signed) -> None:
    case = CASES[0]
    raw = signed.handed_out[case.name]
    forged = with_signature(raw, pubkey(BUYER), bytes(Keypair().sign_message(b"another")))

    with pytest.raises(InvalidSignature):
        case.check(raw, base64.b64encode(forged).decode())
