"""Solana Pay on a local chain: wallets that know nothing of payd pay by its codes, with the same proof."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import pytest
import trio
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from payd.chains.solana.keys import TOKEN, token_account
from payd.web.commands import run_command
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    MERCHANT,
    MERCHANT_2,
    POOR,
    PYUSD,
    SOL,
    USDC,
    USDC_MINT,
    USDT,
    USDT_MINT,
    keypair,
    pay_by_link,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_furnished, open_solana_street
from tests.live.svm_node import ServedNode
from tests.packages import CACHE, from_npm

pytestmark = pytest.mark.real_time

BASE_URL: Final = "https://pay.example"
SCAN_MAX_S: Final = 60

# What wallets read Solana Pay with: the long-lived library on web3.js, and its successor on Kit.
LIBRARIES: Final[dict[str, dict[str, str]]] = {
    "web3": {"@solana/pay": "0.2.6", "@solana/web3.js": "1.99.0"},
    "kit": {"@solana/pay": "1.0.16", "@solana/kit": "6.10.0"},
}


@pytest.fixture
async def street(tmp_path: Path) -> AsyncIterator[SolanaStreet]:
    """A shop that is reached by https, as far as it knows: a proxy does that."""
    async with (
        open_furnished() as solana,
        open_solana_street(tmp_path / "house", solana, slot_s=0.05, lines="sponsor = true") as opened,
    ):
        opened.house.base_url = BASE_URL
        yield opened


@pytest.fixture(scope="module")
def libraries() -> dict[str, Path]:
    """Where Node finds each of them; installed once and kept."""
    return {name: from_npm(CACHE / f"solana-pay-{name}", wanted) for name, wanted in LIBRARIES.items()}


class Phone:
    """A wallet that reads codes by one of the libraries.

    Args:
        library: Which.
        folder: Where it is.
        street: Whose network it is on.
        place: Whose key it holds.
    """

    def __init__(self, library: str, folder: Path, street: SolanaStreet, place: int) -> None:
        self._command = ["node", str(Path(__file__).parent / "wallets" / "pay.mjs"), str(folder), library]
        self._street = street
        self._place = place

    async def scan(self, code: str) -> dict[str, Any]:
        """What the wallet shows, and the transaction that it would send once its owner agrees."""
        node = self._street.chain.node
        assert isinstance(node, ServedNode)
        asked = {
            "code": code,
            "key": list(bytes(keypair(self._place))),
            "rpc": node.url,
            "origins": {BASE_URL: self._street.url},
        }
        with trio.fail_after(SCAN_MAX_S):
            run = partial(trio.run_process, capture_stdout=True, stdin=json.dumps(asked).encode())
            done = await run(self._command)
        scanned: dict[str, Any] = json.loads(done.stdout)
        return scanned

    async def pay(self, code: str) -> str:
        """Scan, agree, send; gives the transaction's id."""
        scanned = await self.scan(code)
        assert "error" not in scanned, scanned
        assert scanned["label"] == "Shop"
        return await self._street.chain.send_raw(base64.b64decode(scanned["signed"]), skip_preflight=False)


async def code_of(street: SolanaStreet, payment: str, asset: str = "") -> str:
    """The text of the code that the payment's page shows, for an asset that the buyer has chosen there."""
    query = f"way=solana&asset={asset}" if asset else "way=solana"
    page = await street.http.get(f"{street.url}/pay/{payment}?{query}", headers={"Accept": "text/html"})
    shown = re.search(r'<span id="link"[^>]*>([^<]*)</span>', page.text)
    assert shown is not None
    return html.unescape(shown[1])


async def expect_proof(street: SolanaStreet, payment: str, tx_id: str, asset: str, place: int) -> None:
    """The payment is settled by this transfer of this account, which says nothing about how it was made."""
    await street.until(payment, "settled")
    detail = await street.detail(payment)
    [transfer] = detail["transfers"]
    assert (transfer["txId"], transfer["kind"]) == (tx_id, "matched")
    assert transfer["from"] == f"{CHAIN}:{pubkey(place)}"
    assert transfer["to"] == f"{CHAIN}:{pubkey(MERCHANT)}"
    assert transfer["amount"]["unit"] == f"caip19/{asset}"
    assert detail["settlement"]["txHash"] == tx_id
    assert detail["settlement"]["amount"]["value"] == transfer["amount"]["value"]
    assert await street.events(payment) == [
        "payment.created",
        "payment.processing",
        "payment.succeeded",
        "payment.settled",
    ]


# By request: USDC by a buyer without SOL, so that we pay the fee; the others by buyers who pay it themselves.
CODES: Final = (
    ("request", USDC, POOR),
    ("request", USDT, BUYER),
    ("request", PYUSD, BUYER),
    ("request", SOL, BUYER),
    ("link", USDC, BUYER),
    ("link", SOL, BUYER),
)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_the_libraries_of_wallets_pay_by_every_code(
    street: SolanaStreet, libraries: dict[str, Path], library: str
) -> None:
    for kind, asset, place in CODES:
        street.house.base_url = BASE_URL if kind == "request" else street.url
        payment = await street.payment()
        code = await code_of(street, payment, asset)
        assert code.startswith("solana:https%3A" if kind == "request" else f"solana:{pubkey(MERCHANT)}?")
        tx_id = await Phone(library, libraries[library], street, place).pay(code)
        await expect_proof(street, payment, tx_id, asset, place)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_the_pages_first_code_is_paid_in_what_the_wallet_holds(
    street: SolanaStreet, libraries: dict[str, Path], library: str
) -> None:
    payment = await street.payment()
    code = await code_of(street, payment)
    assert code == f"solana:{BASE_URL}/v1/solana-pay/{payment}"
    phone = Phone(library, libraries[library], street, POOR)
    scanned = await phone.scan(code)
    assert scanned["icon"].startswith(f"{BASE_URL}/static/")
    await expect_proof(street, payment, await phone.pay(code), USDC, POOR)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_merchant_without_a_token_account_is_paid_when_we_pay_for_it(
    tmp_path: Path, libraries: dict[str, Path], library: str
) -> None:
    fresh = pubkey(MERCHANT_2)
    async with (
        open_furnished() as solana,
        open_solana_street(
            tmp_path / "house", solana, slot_s=0.05, lines="sponsor = true", destination=fresh
        ) as street,
    ):
        street.house.base_url = BASE_URL
        payment = await street.payment()
        code = await code_of(street, payment, USDC)
        tx_id = await Phone(library, libraries[library], street, POOR).pay(code)
        await street.until(payment, "succeeded", "settled")
        assert (await street.detail(payment))["transfers"][0]["txId"] == tx_id
        assert await street.chain.tokens(fresh, USDC_MINT) == 25_000_000


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_wallet_is_told_why_not(
    street: SolanaStreet, libraries: dict[str, Path], library: str
) -> None:
    payment = await street.payment()
    code = await code_of(street, payment)
    await street.call("POST", f"/v1/payments/{payment}/cancel")
    scanned = await Phone(library, libraries[library], street, BUYER).scan(code)
    assert "This payment was cancelled." in scanned["error"]


async def test_a_merchant_may_name_the_chain_by_its_alias(street: SolanaStreet) -> None:
    async def do(command: str, **args: Any) -> Any:
        return await run_command(street.house, command, msgspec.json.encode({"mode": "live", **args}))

    merchant = (await do("merchant.create", name="Alias", email="till@alias.example"))["id"]
    for asset in (USDC.replace("/token:", "/spl:"), SOL):
        alias = asset.replace(CHAIN, "solana:mainnet")
        await do(
            "destination.add",
            merchant=merchant,
            asset=alias,
            destination=f"solana:mainnet:{pubkey(MERCHANT)}",
        )
    street.headers["merchant-id"] = merchant
    payment = await street.payment()
    links = await street.links(payment)
    assert list(links) == [f"solana:mainnet/spl:{USDC_MINT}", "solana:mainnet/slip44:501"]
    await expect_proof(street, payment, await street.pay_by_request(payment, USDC, POOR), USDC, POOR)
    other = await street.payment()
    link = (await street.links(other))["solana:mainnet/slip44:501"]
    tx_id = await street.chain.send(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))
    await expect_proof(street, other, tx_id, SOL, BUYER)


@pytest.mark.parametrize("destination", ["mint", "token account"])
async def test_what_is_no_wallet_is_no_destination(street: SolanaStreet, destination: str) -> None:
    holding = token_account(pubkey(MERCHANT), USDC_MINT, TOKEN)
    where = USDT_MINT if destination == "mint" else holding
    path = f"/v1/merchants/{street.headers['merchant-id']}/settlements"
    before = (await street.call("GET", path)).json()["crypto"]
    settlement = next(one for one in before if one["asset"] == USDC)
    changed = {"destination": f"{CHAIN}:{where}"}
    refused = await street.call("PUT", f"{path}/crypto/{settlement['id']}", changed)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_params")
    assert (await street.call("GET", path)).json()["crypto"] == before


async def test_a_link_is_the_same_however_often_it_is_asked_for(street: SolanaStreet) -> None:
    payment = await street.payment()
    found = (await street.call("GET", f"/v1/solana-pay/{payment}/links")).json()["links"]
    # Wallets of the specification know no transfer request for Token-2022.
    assert [one["asset"] for one in found] == [USDC, USDT, SOL]
    again = (await street.call("GET", f"/v1/solana-pay/{payment}/links")).json()["links"]
    assert again == found
    assert {urlsplit(one["url"]).path for one in found} == {str(pubkey(MERCHANT))}
    assert all("&label=Shop" in one["url"] for one in found)


async def test_a_transfer_by_a_link_whose_price_is_old_counts_within_its_grace(street: SolanaStreet) -> None:
    payment = await street.payment()
    old = (await street.links(payment))[SOL]
    await street.later(150)
    tx_id = await street.chain.send(pay_by_link(old, pubkey(BUYER)), keypair(BUYER))
    await expect_proof(street, payment, tx_id, SOL, BUYER)


async def test_a_transfer_after_the_window_is_recorded_as_late(street: SolanaStreet) -> None:
    payment = await street.payment()
    link = (await street.links(payment))[USDC]
    await street.later(20 * 60)
    await street.until(payment, "expired")
    await street.chain.send(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))
    # Where nothing is open, the chain is asked once a minute; where something is, at once.
    await street.links(await street.payment())

    async def seen() -> list[dict[str, Any]]:
        return list((await street.detail(payment))["transfers"])

    [transfer] = await street.wait_for(seen)
    assert (transfer["kind"], await street.status(payment)) == ("late", "expired")


async def test_two_who_scan_one_code_pay_once_and_the_other_is_surplus(street: SolanaStreet) -> None:
    payment = await street.payment()
    first = await street.pay_by_request(payment, USDC, BUYER)
    second = await street.pay_by_request(payment, USDC, BUYER_2)

    async def both() -> list[dict[str, Any]]:
        found = list((await street.detail(payment))["transfers"])
        return found if len(found) == 2 else []

    kinds = {one["txId"]: one["kind"] for one in await street.wait_for(both)}
    await street.until(payment, "settled")
    assert set(kinds) == {first, second}
    assert sorted(kinds.values()) == ["matched", "surplus"]


async def test_what_is_handed_out_asks_for_no_signature_but_the_wallets(street: SolanaStreet) -> None:
    """As the specification has it: signed by us already, or by nobody and at the wallet's expense."""
    for asset, place in ((USDC, POOR), (USDT, BUYER)):
        path = f"/v1/solana-pay/{await street.payment()}?asset={asset}"
        given = await street.call("POST", path, {"account": str(pubkey(place))})
        transaction = VersionedTransaction.from_bytes(base64.b64decode(given.json()["transaction"]))
        signers = transaction.message.account_keys[: transaction.message.header.num_required_signatures]
        missing = [
            key
            for key, signature in zip(signers, transaction.signatures, strict=True)
            if signature == Signature.default()
        ]
        assert missing == [pubkey(place)]
        if place == BUYER:
            assert list(signers) == [pubkey(BUYER)]
        else:
            assert list(signers) == [FEE_PAYER, pubkey(POOR)]
            message = bytes(transaction.message)
            assert transaction.signatures[0].verify(FEE_PAYER, message)
