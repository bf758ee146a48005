"""Every text of the buyer's page, in English: templates and scripts have none of their own.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LANGUAGE: Final = "en"

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "title": "{heading} · {amount} · {merchant}",
        "title.requires_action": "Pay {amount} to {merchant}",
        "mode": "Mode",
        "mode.name": "Test mode.",
        "mode.body": "No real funds move.",
        "order": "Order",
        # -- requires_action
        "requires_action.heading": "Pay with your wallet",
        "requires_action.held": "Price held for",
        "requires_action.body": "Scan the code with your phone, or open this link in your wallet.",
        "qr": "QR code with the link to this page",
        "link": "Payment link",
        "copy.link": "Copy link",
        "phones": "On this phone:",
        "phone": "Open in {wallet}",
        # -- the code of Solana Pay
        "ways": "Ways to pay",
        "way.link": "Payment link",
        "way.solana": "Solana Pay",
        "solana.requires_action.body": "Scan this code with a Solana wallet. It shows what you will pay.",
        "solana.choices": "What to pay with",
        "solana.qr": "Solana Pay code",
        "solana.link": "Solana Pay link",
        "solana.open": "Open a wallet on this device",
        "solana.down": "There are no prices on Solana at the moment. Wait a little, then load this again.",
        "cancel": "Cancel this payment",
        "cancel.ask": "Nothing has been charged. To pay later, you will need a new link from {merchant}.",
        "cancel.yes": "Yes, cancel the payment",
        # -- processing
        "processing.heading": "Payment sent",
        "processing.body": "The network is confirming it. You can close this page: {merchant} is told.",
        "step.sent": "Sent",
        "step.confirming": "Confirming",
        "step.done": "Done",
        "processing.again": "Do not pay again.",
        # -- succeeded
        "succeeded.heading": "Paid",
        "succeeded.body": "{merchant} has your payment.",
        "paid": "You paid",
        "paid.on": "{amount} on {network}",
        "date": "Date",
        "transaction": "Transaction",
        "copy.transaction": "Copy",
        # -- failed
        "failed.heading": "Payment failed",
        "failed.unsent": "Nothing was charged. Go back to {merchant} to try again.",
        "failed.sent": "If money left your wallet, keep the transaction id and contact {merchant}.",
        # -- expired
        "expired.heading": "This payment has expired",
        "expired.stop": "Do not send money now.",
        "expired.body": "Ask {merchant} for a new payment link.",
        "expired.sent": "If you already sent money, keep the transaction id and contact {merchant}.",
        # -- cancelled
        "cancelled.heading": "Payment cancelled",
        "cancelled.body": "Nothing was charged. To pay after all, ask {merchant} for a new payment link.",
        "cancelled.sent": "If you already sent money, keep the transaction id and contact {merchant}.",
        # -- the way back
        "back.succeeded": "Return to {host}",
        "back": "Back to {host}",
        "stay": "Stay on this page",
        # -- test mode
        "console": "Test Console",
        "console.body": "Play the buyer and the network. Every move sends its real webhooks.",
        "move.succeeded": "Approve",
        "move.failed": "Fail",
        "move.expired": "Expire",
        "move.cancelled": "Cancel",
        # -- the form of a merchant that asks for details
        "collect.title": "Your details · {merchant}",
        "collect.heading": "Your details",
        "collect.body": "{merchant} asks for these to take your payment of {amount}.",
        "collect.optional": "(optional)",
        "collect.send": "Send and go on",
        "collect.privacy": (
            "Stored encrypted and shown to {merchant} alone. Deleted after {days} days, or in a day or two if"
            " you do not pay."
        ),
        "collect.test": "This is a test: do not enter anyone's real details.",
        "collect.wrong": "Please look at this again:",
        "collect.missing": "Fill this in.",
        "collect.unticked": "Tick this to go on.",
        "collect.long": "This is too long: {max} characters at most.",
        "collect.unprintable": "Use one line, without control characters.",
        "collect.no date": "Enter a date, such as 1990-12-31.",
        "collect.no choice": "Tick this, or leave it empty.",
        "collect.offline": "No connection. Nothing was sent; try again.",
        "collect.refused": "That did not work. Wait a moment, then try again.",
        "collect.done": "Thank you",
        "collect.done.body": "{merchant} has your details. Go back to your wallet to pay.",
        "collect.closed": "Nothing is asked any more",
        "collect.closed.processing": "This payment was sent. Do not pay again.",
        "collect.closed.succeeded": "This payment is paid. Do not pay again.",
        "collect.closed.failed": "This payment failed. Ask {merchant} for a new payment link.",
        "collect.closed.expired": "This payment has expired. Do not send money now.",
        "collect.closed.cancelled": "This payment was cancelled. Ask {merchant} for a new payment link.",
        # -- without scripts
        "noscript": "With JavaScript this page updates by itself; without, it reloads every 15 seconds.",
        "footer": "Never type your recovery phrase into a web page.",
        "payment": "Payment",
        # -- refusals, by machine code
        "error": "That did not work",
        "error.payment_not_found": "No such payment",
        "error.payment_not_found.body": "Check the link, or ask the shop for a new one.",
        "error.rate_limited": "Too many requests",
        "error.rate_limited.body": "Wait a moment, then load the page again. Your payment is safe.",
        "error.internal_error": "Something broke on our side",
        "error.internal_error.body": "Your payment is safe. Wait a moment, then load the page again.",
        "error.back": "To the payment",
        "error.request": "If you ask for help, name this request:",
        # -- for the script
        "js.offline": "No connection",
        "js.offline.body": "We keep trying. Your payment is safe.",
        "js.refused": "That did not work",
        "js.refused.body": "Look at the payment and try again.",
        "js.copied": "Copied",
        "js.checking": "Checking…",
        "js.left.300": "5 minutes left",
        "js.left.60": "1 minute left",
        "js.left.0": "The time is over",
        "js.redirect": "Taking you there in {s} s",
        # -- wallets of this browser
        "js.wallet": "Your wallet reported a problem",
        "js.wallet.body": "Try again, or choose another way. {code}",
        "js.unnamed": "Browser wallet",
        "js.check": "Check {wallet}…",
        "js.stop": "Stop waiting",
        "js.paying": "Check and pay",
        "js.pays": "You pay",
        "js.network": "Network",
        "js.fee": "Network fee",
        "js.fee.none": "None for you",
        "js.fee.wallet": "Your wallet shows it",
        "js.from": "From",
        "js.pay": "Pay {amount} with {wallet}",
        "js.collect": "Answer the shop's questions first",
        "js.another": "Another way to pay",
        "js.approve": "Approve in {wallet}…",
        "js.approve.step": "Approve in {wallet} ({step})…",
        "js.rehearsal": "Test payment {id}. No funds move.",
        "js.sent": "Your wallet sent the payment",
        "js.sent.body": "We are telling the shop. Do not pay again.",
        "js.sent.looking": "The shop knows. We wait until the network shows it. Do not pay again.",
        "js.unseen": "We cannot see your transaction yet",
        "js.unseen.body": "If you sped it up or replaced it in your wallet, enter the new transaction id.",
        "js.replaced": "New transaction id",
        "js.replace": "Use this id",
        "js.no_hash": "That is no transaction id",
        "js.no_hash.body": "It begins with 0x, and 64 digits and letters follow.",
        "js.maybe": "Look into your wallet first",
        "js.maybe.body": "It was asked to pay, and did not say whether it did. If it shows the payment, do"
        " not pay again: this page finds it by itself.",
        "js.again": "Nothing was sent: pay now",
        "js.kept": "What your wallet sent:",
        "js.rejected": "You declined the request",
        "js.rejected.body": "Nothing was sent. Press the button to try again.",
        "js.busy": "Your wallet is already asking you something",
        "js.busy.body": "Open it, finish or close that request, then try again.",
        "js.locked": "Your wallet is locked",
        "js.locked.body": "Unlock it and try again.",
        "js.disconnected": "Your wallet lost its connection",
        "js.disconnected.body": "Check that it is online and try again.",
        "js.wrong_network": "Your wallet is on another network",
        "js.wrong_network.body": "Switch it to {network} and try again.",
        "js.chain_missing": "Your wallet does not have {network}",
        "js.chain_missing.body": "Add it in your wallet, or choose another way to pay.",
        "js.insufficient": "Not enough funds",
        "js.insufficient.body": "You need {amount} and what the network charges. Choose another way to pay.",
        "js.no_options": "This wallet cannot pay here",
        "js.no_options.body": "It lacks what {merchant} accepts: {list}.",
        "js.quote_expired": "The price changed",
        "js.quote_expired.body": "{old} is now {new}. Nothing was sent.",
        "js.unsigned": "The approval was not accepted",
        "js.unsigned.body": "Nothing was sent. Try again, or choose another way to pay.",
    }
)

FOR_SCRIPTS: Final[Mapping[str, str]] = MappingProxyType(
    {key.removeprefix("js."): text for key, text in WORDS.items() if key.startswith("js.")}
)


def say(key: str, **values: object) -> str:
    """The text of `key` with its values put in: plain text, not HTML. Raises KeyError when one is missing."""
    return WORDS[key].format(**values)
