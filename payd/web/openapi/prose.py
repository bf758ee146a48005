"""What every operation has in common: words, groups, credentials, headers.

Source: SPEC.md, "Authentication"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Any, Final

from payd.core.idempotency import KEY_MAX
from payd.core.ids import LIVE_KEY_PREFIX, TEST_KEY_PREFIX
from payd.core.version import VERSIONS
from payd.web.openapi import deliveries, gateway, merchants, payments, service, webhooks
from payd.web.openapi.fields import identifier, one_of
from payd.web.openapi.story import MERCHANT_ID

Schema = dict[str, Any]

WORDS: Final = """\
payd takes crypto payments on the merchant's own server; the money goes straight to the merchant's own
address.

* **Two modes.** A key that starts with `svc_test_` works in test mode, where nothing is real; a key that
  starts with `svc_` in live mode. Both have the same API and share no data.
* **Amounts** are strings of digits in the smallest unit: 12.50 USD is `1250`. Assets are CAIP-19 ids,
  accounts CAIP-10.
* **Errors** are `{message, code, details, issues}`. Branch on `code`; show or log `message`; quote
  `details.requestId`, which is the `Request-Id` header; `details.docUrl` leads to the code on this page.
  `params_validation` is a body that misses its schema; `invalid_params` a value that fits it and cannot be.
  Try again on 429 and 5xx only, after `Retry-After`. With `Accept: application/problem+json` errors
  are problem details (RFC 9457).
* **Retries.** The same `Idempotency-Key` with the same body gets the same answer for 30 days, with
  `Idempotent-Replayed: true`; with another body 409.
* **Lists** have `nextCursor`: send it as `cursor` for the next page.
* **Unknown fields** in what you send are passed over; expect new ones in what you get.
"""

FEEDS: Final = """\
Two websockets tell of changes as they happen.

`/v1/payments/{{id}}/feed` is a payment's page: no key, any origin. It sends the payment now and at each
change, of two at once maybe the later alone, and closes after the last one:

```json
{message}
```

`/v1/feed?after=` is an account's events, with an `Api-Key` of the scope `webhooks:read`: each message is
`{{"cursor": "…", "event": {{…}}}}` with a webhook's body as `event`. Without `after` it begins with what is
new; the header `Feed-Cursor` of the answer is the cursor before that. Connect again with the last `cursor`
as `after`, and nothing is missed; where a backup was restored meanwhile, some may come again, and an event
that somebody sends again has `"resent": true` and its old cursor. A cursor behind which events were
forgotten with age is refused with 400 `invalid_params`, whose `details.after` is the one to go on with.
Without a websocket upgrade both answer 426 `upgrade_required`.
"""

TAGS: Final = {
    merchants.TAG: "Who receives payments, and what buyers see of them.",
    merchants.SETTLEMENTS_TAG: "Where their money goes: an asset and the account that is paid in it.",
    payments.TAG: "What buyers are asked to pay, what became of it, and what chains showed.",
    payments.OLDER_TAG: "The same, in the words of older clients.",
    gateway.TAG: "For wallets: any key or app id of the payment's mode. The payment's id is the authority.",
    gateway.SOLANA_TAG: "How a wallet pays that scanned a code. Live mode only.",
    webhooks.TAG: "Where events are sent, one endpoint for each mode.",
    webhooks.DELIVERIES_TAG: "What was sent, what was not, and how to send it again.",
    deliveries.TAG: "What payd sends to the endpoint: signed, at least once, in no particular order.",
    "Feeds": "",
    payments.TEST_TAG: "With test keys only: play the buyer, the chain, and time.",
    service.TAG: "The server itself.",
}

SECURITY: Final = {
    "ApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Api-Key",
        "description": f"A secret of the backend: `{LIVE_KEY_PREFIX}…`, in test mode `{TEST_KEY_PREFIX}…`.",
    },
    "AppId": {
        "type": "apiKey",
        "in": "header",
        "name": "App-Id",
        "description": "Names a wallet's app; no secret. `Client-Id` comes with it.",
    },
    "ClientId": {
        "type": "apiKey",
        "in": "header",
        "name": "Client-Id",
        "description": "Any name of the one client, beside `App-Id`.",
    },
}
KEY_ONLY: Final[list[dict[str, list[str]]]] = [{"ApiKey": []}]
KEY_OR_APP: Final[list[dict[str, list[str]]]] = [{"ApiKey": []}, {"AppId": [], "ClientId": []}]

HEADERS: Final = {
    "Request-Id": {"description": "Names this request in the log.", "schema": identifier("req_")},
    "Service-Version": {"description": "The version that answered.", "schema": one_of(*VERSIONS)},
    "Retry-After": {
        "description": "Seconds to wait before trying again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotent-Replayed": {
        "description": "There when the answer was given before, under the same `Idempotency-Key`.",
        "schema": one_of("true"),
    },
    "Original-Request": {
        "description": "The `Request-Id` of the request that was answered then.",
        "schema": identifier("req_"),
    },
}


def _header(name: str, words: str, schema: Schema, example: str, *, required: bool = False) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": words,
        "schema": schema,
        "example": example,
    }


_RETRY_WORDS: Final = "Makes a retry safe: the same key with the same body gets the same answer for 30 days."
_KEY: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_MAX,
    "pattern": r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$",
}
_ANY_KEY: Final[Schema] = _KEY | {"minLength": 0, "pattern": r"^[\x20-\x7e]*$"}
_MERCHANT: Final = identifier("mrch_")


def parameters_of(version: str) -> Schema:
    """The headers of requests, by the names that operations have for them."""
    ours, key = MERCHANT_ID, "ORDER-1042"
    return {
        "IdempotencyKey": _header("Idempotency-Key", f"{_RETRY_WORDS} An empty one is none.", _ANY_KEY, key),
        "IdempotencyKeyRequired": _header("Idempotency-Key", _RETRY_WORDS, _KEY, key, required=True),
        "MerchantId": _header("Merchant-Id", "Only what is this merchant's.", _MERCHANT, ours),
        "MerchantIdRequired": _header("Merchant-Id", "Whose payment it is.", _MERCHANT, ours, required=True),
        "ServiceVersion": _header(
            "Service-Version",
            "The version to answer in; without it the account's own. Not an older one than that.",
            one_of(*VERSIONS),
            version,
        ),
    }
