"""What a screen reader makes of each view: all of it, in order, with name and role of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.scenes import PLAYED, SCENES, SHOP, Stage
from tests.browser.shop_page import open_shop_page

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

HEAD: Final = """
- main:
  - /children: equal
  - paragraph: Demo Shop
  - heading "€25.00" [level=1]
  - paragraph: Order ORDER-1042
"""
CONSOLE: Final = """
  - group "Test Console":
    - text: Test Console
    - paragraph: Play the buyer and the network. Every move sends its real webhooks.
    - button "Approve"
    - button "Fail"
    - button "Expire"
    - button "Cancel"
"""
TIMER: Final = """
    - paragraph:
      - text: Price held for
      - timer: /1\\d:\\d\\d/
"""
PAYMENT: Final = """
    - term: Payment
    - definition:
      - text: /pay_t\\w+/
      - button "Copy"
"""
LEAVING: Final = """
    - paragraph:
      - text: /Taking you there in \\d s/
      - button "Stay on this page"
"""

SPOKEN: Final[dict[str, tuple[str, ...]]] = {
    "open": (
        HEAD,
        '  - status\n  - region "Pay with your wallet":\n    - /children: equal',
        TIMER,
        """
    - heading "Pay with your wallet" [level=2]
    - button "Another Wallet"
    - button "Played Wallet"
    - paragraph: Scan the code with your phone, or open this link in your wallet.
    - img "QR code with the link to this page"
    - group "Payment link": /http.+/
    - button "Copy link"
    - group: Details
    - group: Cancel this payment
""",
        CONSOLE,
    ),
    "processing": (
        HEAD,
        """
  - status
  - region "Payment sent":
    - /children: equal
    - heading "Payment sent" [level=2]
    - paragraph: "The network is confirming it. You can close this page: Demo Shop is told."
    - paragraph:
      - strong: Do not pay again.
    - list:
      - listitem: Sent
      - listitem: Confirming
      - listitem: Done
    - term: You paid
    - definition: 27.50 USDC on Base
    - term: From
    - definition: 0x0000…0001
""",
        PAYMENT,
        CONSOLE.replace('"Cancel"', '"Cancel" [disabled]'),
    ),
    "succeeded-shop": (
        HEAD,
        """
  - status
  - region "Paid":
    - /children: equal
    - heading "Paid" [level=2]
    - paragraph: Demo Shop has your payment.
    - link "Return to shop.example"
""",
        LEAVING,
        """
    - term: You paid
    - definition: 27.50 USDC on Base
    - term: Rate
    - definition: /1 USDC = .+ EUR/
    - term: From
    - definition: 0x0000…0001
    - term: Date
    - definition:
      - time
    - term: Transaction
    - definition:
      - text: /test:pay_t\\w+/
      - button "Copy"
""",
        PAYMENT,
        '    - button "Print receipt"',
    ),
    "failed-sent": (
        HEAD,
        """
  - status
  - region "Payment failed":
    - /children: equal
    - heading "Payment failed" [level=2]
    - paragraph:
      - strong: The test made it fail.
    - paragraph: If money left your wallet, keep the transaction id and contact Demo Shop.
    - link "Back to shop.example"
""",
        LEAVING,
        PAYMENT,
    ),
    "expired": (
        HEAD,
        """
  - status
  - region "This payment has expired":
    - /children: equal
    - heading "This payment has expired" [level=2]
    - paragraph:
      - strong: Do not send money now.
      - text: Ask Demo Shop for a new payment link.
    - paragraph: If you already sent money, keep the transaction id and contact Demo Shop.
    - link "Back to shop.example"
""",
        LEAVING,
        PAYMENT,
    ),
    "cancelled": (
        HEAD,
        """
  - status
  - region "Payment cancelled":
    - /children: equal
    - heading "Payment cancelled" [level=2]
    - paragraph: Nothing was charged. To pay after all, ask Demo Shop for a new payment link.
    - paragraph: If you already sent money, keep the transaction id and contact Demo Shop.
""",
        PAYMENT,
    ),
    "declined": (
        HEAD,
        """
  - status
  - alert:
    - strong: You declined the request
    - text: Nothing was sent. Press the button to try again.
  - region "Pay with your wallet":
    - heading "Check and pay" [level=2]
    - button /Pay [\\d.]+ USDC with .+/
    - button "Another way to pay"
""",
        CONSOLE,
    ),
    "sent": (
        HEAD,
        """
  - status: Your wallet sent the payment We are telling the shop. Do not pay again.
  - region "Pay with your wallet":
    - heading "Your wallet sent the payment" [level=2]
    - paragraph: We are telling the shop. Do not pay again.
""",
        CONSOLE,
    ),
}


@pytest.mark.parametrize("scene", SPOKEN)
def test_a_view_is_spoken_whole_and_in_order(
    till: Till, open_page: OpenPage, watch: Watch, scene: str
) -> None:
    watch.expected = (f"request: {SHOP}/",)
    page = open_page()
    page.add_init_script(PLAYED)
    page.route(f"{SHOP}/**", lambda route: route.fulfill(status=204))
    with open_shop_page(till.server.url) as shop:
        SCENES[scene](Stage(page, till, str, shop, "en"))
    lines = [line for part in SPOKEN[scene] for line in part.splitlines() if line.strip()]
    expect(page.locator("body")).to_match_aria_snapshot("\n".join(lines))
