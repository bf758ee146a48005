// The main flow with the types that openapi-typescript generated, through openapi-fetch.
// Usage: node main_flow.js URL KEY WEBHOOK
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

declare const process: { argv: string[]; stdout: { write(text: string): void } };

const [url, key, webhook] = process.argv.slice(2) as [string, string, string];
// Errors are plain JSON, as they are for whoever does not ask for problem details.
const client = createClient<paths, "application/json">({ baseUrl: url, headers: { "Api-Key": key } });

type Status = components["schemas"]["PaymentStatus"]["status"];
const isOver = (status: Status): boolean => status !== "requires_action" && status !== "processing";

function sure<T>(answer: { data?: T; error?: components["schemas"]["Error"] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.code);
  return answer.data;
}

const { merchant } = sure(
  await client.POST("/v1/merchants", {
    params: { header: { "Idempotency-Key": "m" } },
    body: { merchantName: "Typed", merchantEmail: "shop@example.com" },
  }),
);
const registered = sure(
  await client.POST("/v1/merchants/{merchantId}/settlements/crypto", {
    params: { path: { merchantId: merchant.id }, header: { "Idempotency-Key": "s" } },
    body: {
      settlements: [
        {
          asset: "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
          destination: "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        },
      ],
    },
  }),
);
const endpoint = sure(await client.PUT("/v1/webhooks/endpoint", { body: { url: webhook } }));

async function create(referenceId: string) {
  const header = { "Merchant-Id": merchant.id, "Idempotency-Key": referenceId };
  const body = { referenceId, amount: { unit: "iso4217/USD", value: "1250" } };
  return sure(await client.POST("/v1/payments", { params: { header }, body }));
}
const paid = await create("ORDER-1");
const cancelled = await create("ORDER-2");
sure(
  await client.POST("/v1/test/payments/{id}/simulate", {
    params: { path: { id: paid.paymentId } },
    body: { to: "succeeded" },
  }),
);
const status = sure(
  await client.GET("/v1/payments/{id}/status", {
    params: { path: { id: paid.paymentId }, header: { "Merchant-Id": merchant.id } },
  }),
);
const cancel = () => client.POST("/v1/payments/{id}/cancel", { params: { path: { id: cancelled.id } } });
const calledOff = sure(await cancel());
const refused = (await cancel()).error;
const listed = sure(
  await client.GET("/v1/payments", {
    params: { query: { limit: 10 }, header: { "Merchant-Id": merchant.id } },
  }),
);

process.stdout.write(
  JSON.stringify({
    settlement: registered.settlements[0]?.asset,
    secret: endpoint.secret,
    url: paid.gatewayUrl,
    status: isOver(status.status) ? status.status : "not over",
    amount: status.info?.optionAmount.display.assetSymbol,
    cancelled: calledOff.cancelledReason,
    refused: refused?.code,
    listed: listed.data.map((item) => [item.referenceId, item.status]),
  }),
);
