"""A shop that sells one thing and is paid through payd, with Flask.

pip install flask httpx standardwebhooks
flask --app shop_flask run --port 5000
"""

import os
import sqlite3
from contextlib import closing
from typing import Any

import httpx
from flask import Flask, redirect, request
from flask.typing import ResponseReturnValue
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

API, WEBHOOK = os.environ["PAYD_API"], Webhook(os.environ["PAYD_WEBHOOK_SECRET"])
KEY, MERCHANT = os.environ["PAYD_API_KEY"], os.environ["PAYD_MERCHANT_ID"]
UNIT, VALUE = "iso4217/USD", "1250"  # 12.50 USD, in cents
BUTTON = '<form method="post" action="/buy"><button>Buy for 12.50 USD</button></form>'
app = Flask(__name__)


def database() -> sqlite3.Connection:  # in place of your own
    db = sqlite3.connect("shop.db")
    db.execute("CREATE TABLE IF NOT EXISTS orders (reference PRIMARY KEY, unit, value, paid)")
    db.execute("CREATE TABLE IF NOT EXISTS payments (id PRIMARY KEY, version)")
    db.execute("CREATE TABLE IF NOT EXISTS webhooks (id PRIMARY KEY)")
    return db


@app.get("/")
def show() -> str:
    with closing(database()) as db:
        orders = db.execute("SELECT reference || iif(paid, ': paid', ': open') FROM orders").fetchall()
    return BUTTON + "".join(f"<p>{order}" for (order,) in orders)


@app.post("/buy")
def buy() -> ResponseReturnValue:
    reference = f"ORDER-{os.urandom(16).hex()}"
    with closing(database()) as db, db:  # the order first: its webhooks may come before the answer
        db.execute("INSERT INTO orders VALUES (?, ?, ?, 0)", (reference, UNIT, VALUE))
    headers = {"Api-Key": KEY, "Merchant-Id": MERCHANT, "Idempotency-Key": reference}
    body = {"referenceId": reference, "amount": {"unit": UNIT, "value": VALUE}}
    answer = httpx.post(f"{API}/v1/payments", headers=headers, json=body)
    if answer.is_error:
        raise RuntimeError(answer.text)  # says what to do
    return redirect(answer.json()["gatewayUrl"], 303)


@app.post("/webhook")
def webhook() -> ResponseReturnValue:
    try:  # the raw bytes: what was parsed and written again does not verify
        event = WEBHOOK.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError as error:
        return f"refused: {error}", 400
    return take(request.headers["webhook-id"], event["data"])


def take(webhook_id: str, payment: Any) -> tuple[str, int]:
    if payment["live"] == KEY.startswith("svc_test_"):
        return "ignored: of the other mode", 200
    with closing(database()) as db, db:  # one transaction, on the disk before the answer
        reference, amount = payment["reference_id"], payment["amount"]
        order = db.execute("SELECT unit, value FROM orders WHERE reference = ?", (reference,)).fetchone()
        if order is None:
            return "ignored: no order of this shop", 200
        if order != (amount["unit"], amount["value"]):
            return "refused: not the amount of the order", 422
        if not db.execute("INSERT OR IGNORE INTO webhooks VALUES (?)", (webhook_id,)).rowcount:
            return "ignored: a duplicate", 200
        newer = """INSERT INTO payments VALUES (?, ?)
            ON CONFLICT DO UPDATE SET version = excluded.version WHERE excluded.version > version"""
        if not db.execute(newer, (payment["payment_id"], payment["payment_state_version"])).rowcount:
            return "ignored: older than what is known", 200
        if payment["status"] == "succeeded":  # what ships goods looks at `paid`
            db.execute("UPDATE orders SET paid = 1 WHERE reference = ?", (reference,))
    return "accepted", 200
