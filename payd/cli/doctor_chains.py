"""What `payd doctor` finds of live payments: the relayer's key, prices, and each chain as its nodes show it.

It reads the configuration and asks; no store is opened, and nothing is sent to a chain.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from payd.chains import keystore
from payd.chains.assets import Asset
from payd.chains.evm.chain import EvmChain
from payd.chains.evm.doctor import examine as examine_evm
from payd.chains.finding import Level as ChainLevel
from payd.chains.keystore import PASSWORD_VARIABLE, Addresses, KeystoreUnusable
from payd.chains.market.prices import TICKERS, MarketPrices, Prices
from payd.cli.finding import Finding, Level
from payd.config import Config, EvmChainConfig, SolanaChainConfig
from payd.core.caip import to_checksum_address
from payd.live import LookedAt, open_to_look

# Everything that markets trade has a price in it.
CURRENCY: Final = "USD"

_LEVELS: Final[Mapping[ChainLevel, Level]] = {"ok": "ok", "warn": "warning", "error": "error"}


async def examine_live(config: Config, env: Mapping[str, str], now_ms: int) -> list[Finding]:
    """Everything about live payments that can be found out from here.

    Args:
        config: With at least one chain.
        env: Where the relayer's password may be.
        now_ms: Unix milliseconds.
    """
    findings, addresses = examine_key(config, env)
    async with open_to_look(config, addresses) as (chains, prices):
        findings += await examine_prices(chains, prices, currencies_of(config), now_ms)
        for configured, chain in zip(config.chains, chains, strict=True):
            findings += await examine_chain(chain, now_ms, configured.ws)
    return findings


def examine_key(config: Config, env: Mapping[str, str]) -> tuple[list[Finding], Addresses]:
    """The relayer's key, where a chain wants one and one is configured; and its addresses."""
    file, subject, nobody = config.relayer.keystore, "relayer's key", Addresses(None, None)
    if file is None or not any(chain.sponsor for chain in config.chains):
        return [], nobody
    try:
        password = keystore.read_password(config.relayer.password_file, env)
        if password is None:
            words = f"{file} is there, and nothing here opens it"
            todo = f"The server needs password_file in [relayer], or the variable {PASSWORD_VARIABLE}."
            return [Finding("warning", subject, words, todo)], keystore.addresses_in(file)
        opened = keystore.unlock(file, password)
        addresses = Addresses(opened.signer().address, str(opened.fee_payer().address))
    except (KeystoreUnusable, OSError) as unusable:
        todo = "Correct keystore or password_file in [relayer]; without a key the server does not start."
        return [Finding("error", subject, str(unusable), todo)], nobody
    return [Finding("ok", subject, f"{file} opens: {_shown(config, addresses)}")], addresses


def _shown(config: Config, addresses: Addresses) -> str:
    """The addresses that the configured chains know the key by."""
    kinds = {type(chain) for chain in config.chains if chain.sponsor}
    shown = []
    if EvmChainConfig in kinds:
        shown.append(to_checksum_address(addresses.evm or ""))
    if SolanaChainConfig in kinds:
        shown.append(f"{addresses.solana} on Solana")
    return ", ".join(shown)


async def examine_prices(
    chains: Iterable[LookedAt], prices: Prices, currencies: Sequence[str], now_ms: int
) -> list[Finding]:
    """Whether what can be paid with has a price, and whether each source of prices answers.

    Args:
        chains: Whose assets.
        prices: Are asked.
        currencies: One of them has to know the price.
        now_ms: Unix milliseconds.
    """
    findings: list[Finding] = []
    for symbol, row in sorted(_by_symbol(chains).items()):
        known = [each for each in currencies if await prices.price(each, row, now_ms) is not None]
        if known:
            findings.append(Finding("ok", f"price of {symbol}", f"known in {', '.join(known)}"))
        else:
            words, todo = (
                f"unknown in {', '.join(currencies)}",
                "It is not offered. See the sources of prices.",
            )
            findings.append(Finding("warning", f"price of {symbol}", words, todo))
    if all(one.level == "warning" for one in findings):
        findings.append(Finding("error", "prices", "nothing has one, so that nothing can be paid"))
    if isinstance(prices, MarketPrices):
        findings += _examine_sources(prices, now_ms)
    return findings


def currencies_of(config: Config) -> list[str]:
    """In which prices are looked for; which ones merchants use, only the store knows."""
    if config.rates.source == "table":
        return sorted({pair.partition("/")[2] for pair, _ in config.rates.table})
    return [CURRENCY]


def _examine_sources(prices: MarketPrices, now_ms: int) -> Iterator[Finding]:
    todo = "Let this machine reach it. Two sources must agree on what is no stablecoin."
    for source in prices.health(now_ms):
        subject = f"prices of {source.source}"
        if source.error:
            yield Finding("warning", subject, f"it does not answer: {source.error}", todo)
        elif source.ok_age_ms is not None:
            yield Finding("ok", subject, f"it answered {source.ok_age_ms / 1000:.1f} s ago")


def _by_symbol(chains: Iterable[LookedAt]) -> dict[str, Asset]:
    """An asset for each symbol that has a price of its own."""
    rows = (row for chain in chains for row in chain.book.rows_of(chain.terms.chain))
    return {TICKERS.get(row.symbol, row.symbol): row for row in rows}


async def examine_chain(chain: LookedAt, now_ms: int, ws: str = "") -> list[Finding]:
    """What its nodes show, under the chain's name; `ws` is the URL of a websocket of one of them, if any."""
    if isinstance(chain, EvmChain):
        found = await examine_evm(chain, now_ms)
    else:
        from payd.chains.solana.doctor import examine as examine_solana

        found = await examine_solana(chain, now_ms, ws or None)
    return [
        Finding(_LEVELS[one.level], _subject(chain, one.subject), one.words, one.what_to_do) for one in found
    ]


def _subject(chain: LookedAt, subject: str) -> str:
    name = str(chain.terms.chain)
    if isinstance(chain, EvmChain):
        if subject == chain.terms.relayer:
            return f"{name} relayer {to_checksum_address(subject)}"
    elif subject == str(chain.terms.fee_payer):
        return f"{name} fee payer {subject}"
    return subject if subject.startswith(name) else f"{name} {subject}"
