"""The main flow by a client that openapi-python-client generated; run as a program beside that client.

Usage: main_flow.py PACKAGES URL KEY WEBHOOK, where PACKAGES is the folder with the package `generated`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main(folder: str, url: str, key: str, webhook: str) -> None:
    """Print what happened, as JSON."""
    sys.path.insert(0, folder)

    def api(name: str) -> Any:
        return importlib.import_module(f"generated.api.{name}").sync

    models: Any = importlib.import_module("generated.models")
    client: Any = importlib.import_module("generated.client").AuthenticatedClient(
        base_url=url, token=key, prefix="", auth_header_name="Api-Key", raise_on_unexpected_status=True
    )
    shop = models.CreateMerchant(merchant_name="Généré", merchant_email="shop@example.com")
    merchant = api("merchants.merchant_create")(client=client, body=shop, idempotency_key="m").merchant
    usdc = models.SettlementIn(
        asset="eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        destination="eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    )
    registered = api("settlements.crypto_settlement_create")(
        merchant.id, client=client, body=models.CreateSettlements(settlements=[usdc]), idempotency_key="s"
    )
    endpoint = api("webhook_endpoint.webhook_endpoint_put")(
        client=client, body=models.PutEndpoint(url=webhook)
    )

    amount = models.AmountIn(unit="iso4217/USD", value="1250")
    paid, cancelled = (
        api("payments.payment_create")(
            client=client,
            body=models.CreatePayment(reference_id=name, amount=amount),
            merchant_id=merchant.id,
            idempotency_key=name,
        )
        for name in ("ORDER-1", "ORDER-2")
    )
    api("test_mode.test_payment_simulate")(
        paid.payment_id, client=client, body=models.SimulateIn(to=models.SimulateInTo("succeeded"))
    )
    status = api("payments.payment_status")(paid.payment_id, client=client, merchant_id=merchant.id)
    called_off = api("payments.payment_cancel")(cancelled.id, client=client, body=models.PaymentCancelBody())
    refused = api("payments.payment_cancel")(cancelled.id, client=client, body=models.PaymentCancelBody())
    listed = api("payments.payment_list")(client=client, limit=10)
    json.dump(
        {
            "settlement": registered.settlements[0].asset,
            "secret": endpoint.secret,
            "url": paid.gateway_url,
            "status": status.status,
            "amount": status.info.option_amount.display.asset_symbol,
            "cancelled": called_off.cancelled_reason,
            "refused": refused.code,
            "listed": [(item.reference_id, item.status) for item in listed.data],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
