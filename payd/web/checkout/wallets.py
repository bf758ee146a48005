"""What wallets in the buyer's browser and on phones need to know of a payment.

Source: DESIGN.md, "11. Pages"; SPEC.md, "POST /v1/gateway/payment/{id}/options".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from payd.chains.assets import AssetBook
from payd.core.caip import AssetId, ChainId, parse_asset
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.options import Route, routes_of
from payd.web.house import Realm

NAMESPACES: Final = ("eip155", "solana")
"""Whose wallets can be found in a page."""

# A sentence with more of them is one that nobody reads.
NAMED_MAX: Final = 8

# What a wallet that lacks a network is told to ask there: the endpoint that the network's makers publish. A
# merchant's own nodes are not for everybody.
PUBLIC_RPC: Final = {
    "eip155:10": "https://mainnet.optimism.io",
    "eip155:56": "https://bsc-dataseed.bnbchain.org",
    "eip155:137": "https://polygon-rpc.com",
    "eip155:8453": "https://mainnet.base.org",
    "eip155:42161": "https://arb1.arbitrum.io/rpc",
    "eip155:43114": "https://api.avax.network/ext/bc/C/rpc",
}


class Phone(msgspec.Struct, frozen=True):
    """A link that opens the page in the browser of a wallet on this phone."""

    name: str
    href: str


class WalletsView(msgspec.Struct, frozen=True):
    """What the template shows.

    Attributes:
        chains: By CAIP-2, what to tell a wallet of the network: `chainName`, and what adds it to a wallet.
        accepted: What the shop takes, in words.
        phones: Links for buyers on a phone.
    """

    chains: dict[str, dict[str, Any]]
    accepted: str
    phones: tuple[Phone, ...]


def wallet_routes(realm: Realm, payment: Payment) -> list[Route]:
    """Where a payment's money can go that a wallet in a page may bring; none once it needs no action."""
    if payment.status is not Status.REQUIRES_ACTION:
        return []
    routes = realm.db.point(routes_of, payment.id, payment.merchant_id)
    return [route for route in routes if _is_payable(realm, parse_asset(route.asset_key))]


def wallets_view(
    realm: Realm, payment: Payment, routes: Sequence[Route], base_url: str
) -> WalletsView | None:
    """What a page can ask wallets for; None where there is nothing for them to do."""
    if not routes:
        return None
    payable = [parse_asset(route.asset_key) for route in routes]
    chains = {str(one.chain): _network(realm.assets, one.chain) for one in payable}
    named = list(dict.fromkeys(_name(realm, one) for one in payable))
    more = ["…"] if len(named) > NAMED_MAX else []
    accepted = ", ".join([*named[:NAMED_MAX], *more])
    return WalletsView(chains, accepted, phone_links(f"{base_url}/pay/{payment.id}", set(chains)))


def phone_links(link: str, chains: set[str]) -> tuple[Phone, ...]:
    """Links that open the page's link in wallets which have a browser; they take https alone.

    Source: the deep links that MetaMask, Coinbase Wallet, Trust Wallet and Phantom document.
    """
    url = urlsplit(link)
    if url.scheme != "https":
        return ()
    text, origin = quote(link, safe=""), quote(f"https://{url.netloc}", safe="")
    phones = []
    if any(chain.startswith("eip155:") for chain in chains):
        phones.append(Phone("MetaMask", f"https://link.metamask.io/dapp/{url.netloc}{url.path}"))
        phones.append(Phone("Coinbase Wallet", f"https://go.cb-w.com/dapp?cb_url={text}"))
        phones.append(Phone("Trust Wallet", f"https://link.trustwallet.com/open_url?coin_id=60&url={text}"))
    if any(chain.startswith("solana:") for chain in chains):
        phones.append(Phone("Phantom", f"https://phantom.app/ul/browse/{text}?ref={origin}"))
    return tuple(phones)


def _is_payable(realm: Realm, asset: AssetId) -> bool:
    return asset.chain.namespace in NAMESPACES and realm.payments.chain_of(str(asset.chain)) is not None


def _network(book: AssetBook, chain: ChainId) -> dict[str, Any]:
    """Its name; and where payd knows a public endpoint and the coin, what `wallet_addEthereumChain` takes."""
    network: dict[str, Any] = {"chainName": book.network(chain) or str(chain)}
    rpc = PUBLIC_RPC.get(str(chain))
    coin = next((row for row in book.rows_of(chain) if row.kind == "native"), None)
    if rpc is not None and coin is not None:
        network["nativeCurrency"] = {"name": coin.name, "symbol": coin.symbol, "decimals": coin.decimals}
        network["rpcUrls"] = [rpc]
    return network


def _name(realm: Realm, asset: AssetId) -> str:
    chain = realm.payments.chain_of(str(asset.chain))
    display = None if chain is None else chain.display(asset)
    symbol = asset.reference if display is None else display.asset_symbol
    return f"{symbol} ({realm.assets.network(asset.chain) or asset.chain})"
