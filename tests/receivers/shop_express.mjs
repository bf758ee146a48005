// A shop that sells one thing and is paid through payd, with Express.
//
// npm install express@5.3.0 libsql@0.5.29 standardwebhooks@1.1.1
// node shop_express.mjs

import { randomUUID } from "node:crypto";
import express from "express";
import Database from "libsql";
import { Webhook } from "standardwebhooks";

const { PAYD_API, PAYD_API_KEY, PAYD_MERCHANT_ID, PAYD_WEBHOOK_SECRET, PORT = 5000 } = process.env;
const LIVE = !PAYD_API_KEY.startsWith("svc_test_");
const verifier = new Webhook(PAYD_WEBHOOK_SECRET);
const UNIT = "iso4217/USD", VALUE = "1250"; // 12.50 USD, in cents

const db = new Database("shop.db", { timeout: 5000 }); // in place of your own
db.exec(`CREATE TABLE IF NOT EXISTS orders (reference PRIMARY KEY, unit, value, paid);
  CREATE TABLE IF NOT EXISTS payments (id PRIMARY KEY, version);
  CREATE TABLE IF NOT EXISTS webhooks (id PRIMARY KEY);`);

const app = express();

app.get("/", (_request, response) => {
  const orders = db.prepare("SELECT reference, paid FROM orders").all();
  const button = '<form method="post" action="/buy"><button>Buy for 12.50 USD</button></form>';
  response.send(button + orders.map((o) => `<p>${o.reference}: ${o.paid ? "paid" : "open"}`).join(""));
});

app.post("/buy", async (_request, response) => {
  const reference = `ORDER-${randomUUID()}`; // stored first: its webhooks may come before the answer
  db.prepare("INSERT INTO orders VALUES (?, ?, ?, 0)").run(reference, UNIT, VALUE);
  const answer = await fetch(`${PAYD_API}/v1/payments`, {
    method: "POST",
    headers: {
      "Api-Key": PAYD_API_KEY,
      "Merchant-Id": PAYD_MERCHANT_ID,
      "Idempotency-Key": reference,
      "Content-Type": "application/json",
    },
    body: JSON.stringify({ referenceId: reference, amount: { unit: UNIT, value: VALUE } }),
  });
  if (!answer.ok) throw new Error(await answer.text()); // says what to do
  response.redirect(303, (await answer.json()).gatewayUrl);
});

app.post("/webhook", express.raw({ type: "*/*" }), (request, response) => {
  let event;
  try { // the raw bytes: what was parsed and written again does not verify
    event = verifier.verify(request.body, request.headers);
  } catch (error) {
    return response.status(400).send(`refused: ${error.message}`);
  }
  const [status, words] = take.immediate(request.headers["webhook-id"], event.data);
  response.status(status).send(words);
});

// One transaction, on the disk before the answer.
const take = db.transaction((webhookId, payment) => {
  if (payment.live !== LIVE) return [200, "ignored: of the other mode"];
  const order = db.prepare("SELECT unit, value FROM orders WHERE reference = ?").get(payment.reference_id);
  if (!order) return [200, "ignored: no order of this shop"];
  if (order.unit !== payment.amount.unit || order.value !== payment.amount.value)
    return [422, "refused: not the amount of the order"];
  if (!db.prepare("INSERT OR IGNORE INTO webhooks VALUES (?)").run(webhookId).changes)
    return [200, "ignored: a duplicate"];
  const newer = db.prepare(`INSERT INTO payments VALUES (?, ?)
    ON CONFLICT DO UPDATE SET version = excluded.version WHERE excluded.version > version`);
  if (!newer.run(payment.payment_id, payment.payment_state_version).changes)
    return [200, "ignored: older than what is known"];
  if (payment.status === "succeeded") // what ships goods looks at `paid`
    db.prepare("UPDATE orders SET paid = 1 WHERE reference = ?").run(payment.reference_id);
  return [200, "accepted"];
});

app.listen(PORT, "127.0.0.1");
