"""Solana Pay: how a wallet pays that scanned a code: transaction requests, and transfer request links.

There is no key: the payment's id is the capability. Wallets read no more of a refusal than its `message`.

Source: DESIGN.md, "10. Live realm"; the Solana Pay specification, version 1.1.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote as percent_encode
from urllib.parse import urlsplit

import msgspec

from payd.actors.pay_requests import PayLink, pay_links, payable_routes, sign_request
from payd.core.errors import InvalidParams
from payd.core.money import AmountWire
from payd.core.option import Quote
from payd.core.payment import Payment
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.checkout import locale
from payd.web.checkout.words import ENGLISH, Language
from payd.web.client import rate_key
from payd.web.house import Realm
from payd.web.html import NO_STORE
from payd.web.limits import refuse_for
from payd.web.logos import logo_url
from payd.web.lookup import linked_payment, who_is_paid
from payd.web.schema import Amount
from payd.web.static import ASSETS

ICON: Final = "solana-pay.png"
# What wallets show; they refuse other pictures.
ICON_SUFFIXES: Final = (".png", ".svg", ".webp")
PAY_PATH: Final = "/v1/solana-pay"

# A wallet puts a fresh blockhash into a transaction that nobody has signed yet, and sends it: what no network
# takes as it is, such as the test realm's transactions, would move real funds then.
TEST_WORDS: Final = "This is a test payment: a wallet would send real funds. Use the Test Console instead."


class _Wire(msgspec.Struct, rename="camel"):
    pass


class PayeeOut(_Wire):
    """Who asks to be paid, as a wallet shows it."""

    label: str
    icon: str


class AccountIn(_Wire):
    """The wallet's address, base58. What a later specification adds is passed over."""

    account: str


class TransactionToSign(_Wire):
    """A transaction in base64, for the wallet to sign and send, and what it is for."""

    transaction: str
    message: str


class LinkOut(_Wire):
    """A transfer request link; `transactionRequest` null where payd has no https address."""

    asset: str
    asset_symbol: str
    amount: Amount
    url: str
    expires_at: int
    transaction_request: str | None


class LinksOut(_Wire):
    """In the order of the merchant's destinations."""

    links: list[LinkOut]


async def read(call: Call) -> Answer:
    """GET /v1/solana-pay/{id}: who asks."""
    realm, payment = linked_payment(call)
    payable_routes(realm.payments, payment, query.one(call, "asset"))
    name, icon_url = who_is_paid(realm, payment)
    icon = logo_url(call.house, realm, payment.merchant_id) or _icon(call.house.base_url, icon_url)
    return Answer.json(PayeeOut(name, icon), headers=(NO_STORE,))


async def pay(call: Call) -> Answer:
    """POST /v1/solana-pay/{id}?asset=: the transaction by which an account pays."""
    realm, payment = _live_payment_of(call)
    body = call.json(AccountIn)
    asset = query.one(call, "asset")
    refuse_for(call.house.limits.sign_requests.take(rate_key(call.request.client_ip)))
    asked = await sign_request(realm.payments, payment.id, body.account, asset)
    name, _ = who_is_paid(realm, payment)
    words = _words(realm, asked.quote, payment, name)
    return Answer.json(TransactionToSign(asked.transaction, words), headers=(NO_STORE,))


async def links(call: Call) -> Answer:
    """GET /v1/solana-pay/{id}/links: what to pay by in wallets that take no transaction requests."""
    realm, payment = _live_payment_of(call)
    found = await pay_links(realm.payments, payment.id)
    shown = [link_out(call.house.base_url, realm, link) for link in found]
    return Answer.json(LinksOut(shown), headers=(NO_STORE,))


def link_out(base_url: str, realm: Realm, link: PayLink) -> LinkOut:
    """A link as the wire shows it, with the payment's transaction request for the same asset."""
    amount = _amount(realm, link.quote)
    return LinkOut(
        asset=link.quote.asset,
        asset_symbol=amount.display.asset_symbol,
        amount=amount,
        url=link.url,
        expires_at=link.quote.valid_until_ms // 1000,
        transaction_request=transaction_request(base_url, link.quote.payment_id, link.quote.asset),
    )


def transaction_request(base_url: str, payment_id: str, asset: str | None = None) -> str | None:
    """The text of a payment's code; None without https, which wallets insist on.

    As the specification has it, only a URL with a query is percent-encoded: the code is less dense so.
    """
    url = f"{base_url}{PAY_PATH}/{payment_id}"
    if not url.startswith("https://"):
        return None
    if asset is None:
        return f"solana:{url}"
    return "solana:" + percent_encode(f"{url}?asset={percent_encode(asset, safe=':/')}", safe="")


def amount_text(amount: Amount, language: Language) -> str:
    """An amount as people read it: `25.00 USDC`."""
    number = locale.asset(language, int(amount.value), amount.display.decimals)
    return f"{number} {amount.display.asset_symbol}"


def _words(realm: Realm, quote: Quote, payment: Payment, merchant: str) -> str:
    return (
        f"{amount_text(_amount(realm, quote), Language(ENGLISH))} to {merchant}, order {payment.reference_id}"
    )


def _amount(realm: Realm, quote: Quote) -> Amount:
    words = realm.words
    return words.amount(AmountWire(f"caip19/{quote.asset}", str(quote.amount)))


def _icon(base_url: str, icon_url: str | None) -> str:
    """What stands for a logo that is not here: the merchant's address if wallets can show it, else payd's."""
    if icon_url is not None and PurePosixPath(urlsplit(icon_url).path).suffix.lower() in ICON_SUFFIXES:
        return icon_url
    return f"{base_url}/static/{ICON}?v={ASSETS[ICON].version}"


def _live_payment_of(call: Call) -> tuple[Realm, Payment]:
    realm, payment = linked_payment(call)
    if not realm.live:
        raise InvalidParams(TEST_WORDS)
    return realm, payment
