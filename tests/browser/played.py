"""A wallet of EVM chains that a test plays: it answers as real ones are documented to, well or badly."""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Page

from tests.browser.page_wallets import connect

ACCOUNT: Final = "0x" + "11" * 20
OTHER: Final = "0x" + "22" * 20
HASH: Final = "0x" + "ab" * 32
SIGNATURE: Final = "0x" + "cd" * 65
NAME: Final = "Played Wallet"
SENT: Final = "eth_sendTransaction"
SIGNED: Final = "eth_signTypedData_v4"
BASE: Final = "0x2105"

# played says what it answers, a list one after the other; what has a message fails, what is null never ends.
# tell() has it say something by itself; asked is what it was asked for.
PLAYED: Final = """
window.asked = [];
const hears = {};
window.tell = (event, value) => { for (const hear of hears[event] ?? []) hear(value); };
const account = '0x' + '11'.repeat(20);
window.played = {
    eth_requestAccounts: [[account]], eth_accounts: [[account]], eth_chainId: ['0x2105'],
    eth_sendTransaction: ['0x' + 'ab'.repeat(32)], eth_signTypedData_v4: ['0x' + 'cd'.repeat(65)],
    personal_sign: ['0x' + 'cd'.repeat(65)],
};
const provider = {
    on(event, hear) { (hears[event] ??= []).push(hear); },
    async request({ method, params }) {
        asked.push([method, params]);
        const answers = window.played[method] ?? [{ code: 4200, message: 'no' }];
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer === null) return new Promise((done, fail) => Object.assign(window, { done, fail }));
        if (answer?.message) throw Object.assign(new Error(answer.message), answer);
        return answer === 'null' ? null : answer;
    },
};
const detail = { info: { uuid: 'played', name: 'Played Wallet', icon: '', rdns: 'test.played' }, provider };
addEventListener('eip6963:requestProvider', () => {
    dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }));
});
"""


def play(page: Page, **answers: Any) -> None:
    """What the wallet answers from now on, by method."""
    page.evaluate("(answers) => Object.assign(played, answers)", answers)


def tell(page: Page, event: str, value: Any) -> None:
    """Have the wallet say something by itself."""
    page.evaluate("([event, value]) => tell(event, value)", [event, value])


def asked(page: Page, *methods: str) -> list[Any]:
    """The parameters of what the wallet was asked for by these methods."""
    return [params for method, params in page.evaluate("asked") if method in methods]


def for_real(page: Page) -> None:
    """Have the page ask for what it would ask if this were no test payment: the wallet is a played one."""
    page.evaluate("document.getElementById('checkout').removeAttribute('data-rehearsal')")


def opened(page: Page, link: str, asset: str = "ETH") -> Page:
    """A payment's page with this wallet connected, about to pay in an asset."""
    page.add_init_script(PLAYED)
    page.goto(link)
    for_real(page)
    connect(page, NAME, asset)
    return page
