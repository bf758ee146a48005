"""What the names of the wire mean: in payd one name is one thing, so JSON Schema says it once for each.

`FIELDS` is by the name of a field; `IN` is by shape and field, where a name means more in one shape; `WHOLE`
is by shape.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; SPEC.md, "Limits".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from payd.actors.simulation import TARGETS
from payd.core.collect import FIELDS_MAX, NAME_MAX
from payd.core.endpoint import EVENT_TYPES, URL_MAX, EndpointState
from payd.core.fault import FAULT_KINDS
from payd.core.header import HEADERS_MAX, VALUE_MAX
from payd.core.header import NAME_MAX as HEADER_NAME_MAX
from payd.core.money import MINOR_UNITS, VALUE_DIGITS_MAX
from payd.core.option import ACCOUNTS_MAX, OPTIONS_PER_ANSWER_MAX
from payd.core.status import Status, merchant_word
from payd.core.transfer import Kind as TransferKind
from payd.core.version import VERSIONS
from payd.store.attempts import Trigger

Schema = dict[str, Any]

_TAIL: Final = "[0-7][0-9a-hjkmnp-tv-z]{35}"
_LABEL: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PORT: Final = (
    "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # to 65535
)
_CHAIN: Final = "[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,32}"
_BLANK: Final = r"[\x20]*"
# Not all that is refused: of what lies beyond ASCII, generated clients in PHP match bytes.
_SEEN: Final = r"[^\x00-\x20\x7f]"
_PLAIN: Final = r"[^\x00-\x1f\x7f]"


def identifier(*prefixes: str) -> Schema:
    """An id with one of these prefixes."""
    head = prefixes[0] if len(prefixes) == 1 else f"({'|'.join(prefixes)})"
    return {"type": "string", "pattern": f"^{head}{_TAIL}$"}


def one_of(*words: str) -> Schema:
    """One of a closed set of words."""
    return {"type": "string", "enum": list(words)}


def text(most: int, words: str = "Printable characters.") -> Schema:
    """Printable text that is not empty."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": most,
        "pattern": f"^{_PLAIN}+$",
        "description": words,
    }


PAYMENT_ID: Final[Schema] = identifier("pay_t", "pay_l")
INSTANT: Final[Schema] = {
    "type": "string",
    "format": "date-time",
    "description": "ISO 8601, UTC, with milliseconds.",
}
UNIX: Final[Schema] = {
    "type": "integer",
    "format": "int64",
    "minimum": 0,
    "maximum": 253_402_300_799,  # the year 9999
    "description": "Unix seconds.",
}
CHAIN: Final[Schema] = {
    "type": "string",
    "pattern": f"^{_CHAIN}$",
    "description": "CAIP-2, such as `eip155:8453`.",
}
ACCOUNT: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "pattern": f"^{_CHAIN}:[-a-zA-Z0-9]{{1,128}}$",
    "description": "CAIP-10, such as `eip155:8453:0x…`.",
}
ASSET: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "pattern": f"^{_CHAIN}/[-a-zA-Z0-9]{{3,8}}:[-a-zA-Z0-9]{{1,128}}$",
    "description": "CAIP-19, such as `eip155:8453/erc20:0x…`.",
}
URL: Final[Schema] = {"type": "string", "maxLength": URL_MAX, "description": "A URL."}
HTTPS_URL: Final[Schema] = {
    "type": "string",
    "maxLength": URL_MAX,
    "pattern": r"^https://[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[1-9][0-9]{0,3})?(/[^\s\x00-\x1f\x7f]*)?$",
    "description": "An https URL.",
}
CURRENCY: Final = "|".join(sorted(MINOR_UNITS))
STATUS: Final[Schema] = one_of(*(status.value for status in Status))
MERCHANT_STATUS: Final[Schema] = one_of("active", "inactive", "suspended")
EVENT_TYPE: Final[Schema] = one_of(*EVENT_TYPES)
DURATION_MS: Final[Schema] = {"type": "integer", "minimum": 0, "description": "Milliseconds."}
HTTP_STATUS: Final[Schema] = {"type": "integer", "minimum": 100, "maximum": 999}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TX_ID: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "description": "The transaction's hash or first signature; `test:` and the payment's id in test mode.",
}
CURSOR: Final[Schema] = {
    "type": "string",
    "maxLength": 512,
    "description": "Where the next page starts; null on the last one.",
}
AMOUNT: Final[Schema] = {
    "type": "string",
    "pattern": "^(0|[1-9][0-9]*)$",
    "description": "In the smallest unit.",
}
UNIT: Final[Schema] = {
    "type": "string",
    "pattern": rf"^(iso4217/[A-Z]{{3}}|caip19/{ASSET['pattern'][1:-1]})$",
    "description": "`iso4217/` and a currency, or `caip19/` and an asset.",
}
COLLECT: Final[Schema] = {
    "maxItems": FIELDS_MAX,
    "uniqueItems": True,
    "description": "What buyers are asked for.",
}
ORIGINS: Final[Schema] = {
    "maxItems": 10,
    "uniqueItems": True,
    "description": "Origins whose pages may show the checkout in a frame.",
    "items": {
        "type": "string",
        "pattern": f"^(https://{_LABEL}(\\.{_LABEL})*(:(?!443$){_PORT})?|http://localhost(:(?!80$){_PORT})?)$",
    },
}
NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "pattern": f"^{_BLANK}{_SEEN}{_PLAIN}*$",
    "description": "Printable characters; what buyers see.",
}
EMAIL: Final[Schema] = {
    "type": "string",
    "maxLength": 254,
    "pattern": r"^[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}$",
    "description": "An e-mail address; payd sends nothing to it.",
}
OPTION_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
FIELD_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,39}$"}
JOB_KIND: Final[Schema] = one_of("recover", "replay-missing")
ERROR_CODE: Final[Schema] = {"type": "string", "pattern": "^[a-z_]+$", "description": "For programs."}
SECRET: Final[Schema] = {
    "type": "string",
    "pattern": "^whsec_[A-Za-z0-9+/]+=*$",
    "description": "Signs the deliveries, in the scheme of Standard Webhooks.",
}

_OLDER_WORDS: Final = tuple(dict.fromkeys(merchant_word(status) for status in Status))
_ENDPOINT_STATE: Final[Schema] = one_of(*(state.value for state in EndpointState))
_DELIVERY: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "id": identifier("dlv_"),
        "state": one_of("pending", "succeeded", "failed", "cancelled"),
        "endpointState": _ENDPOINT_STATE,
        "reason": {"description": "Why it was cancelled."},
    }
)

_UP_TO: Final = "[1-9][0-9]{0,"

_INSTANTS: Final = (
    "createdAt", "lastUpdatedAt", "seenAt", "collectedAt", "cancelledAt", "settledAt", "nextAttemptAt", "at",
    "failingSince", "disablesAt", "offSince", "oldSecretsUntil", "missedSince", "now", "requestedAt",
    "appliesAt", "created_at", "expires_at", "processing_at", "succeeded_at", "failed_at", "cancelled_at",
    "expired_at", "settled_at", "recordedAt",
)  # fmt: skip

_BUILD: Final[Mapping[str, Schema]] = MappingProxyType({"data": {"description": "That of the build action."}})
_ANSWER: Final[Schema] = {"type": "string", "description": "What the buyer answered."}
_BOTH: Final = "Both count only together, each with https."
_COLLECTED: Final[Schema] = {
    "type": "object",
    "description": "The object that `schema` of `collectData` describes; or the same as a list, `fields`.",
    "anyOf": [
        {"maxProperties": FIELDS_MAX, "propertyNames": FIELD_ID, "additionalProperties": _ANSWER},
        {
            "required": ["fields"],
            "properties": {
                "fields": {
                    "type": "array",
                    "maxItems": FIELDS_MAX,
                    "items": {
                        "type": "object",
                        "required": ["id", "value"],
                        "properties": {"id": FIELD_ID, "value": _ANSWER},
                    },
                }
            },
        },
    ],
}

# What has no rule that could be written down.
_WORDS: Final = {
    "message": "For people; it may change.",
    "field": "Which field is wrong; `body` is the whole body.",
    "name": "As people read it.",
    "problem": "Why the last copy failed.",
    "assetSymbol": "Such as `USDC` or `USD`.",
    "assetName": "Such as `USD Coin`.",
    "networkName": "Such as `Base`.",
    "words": "For people.",
    "accountProviderName": "The buyer's wallet, where that is known.",
    "label": "Who asks, as the wallet shows it.",
    "icon": "The URL of a picture.",
    "transactionRequest": "A `solana:` link for wallets that take transaction requests.",
    "error": "What happened.",
    "advice": "What to do about it.",
    "body": "What the endpoint answered; not to be trusted.",
    "remoteIp": "Who answered.",
    "api_version": "Of the webhook's shape, a date.",
    "numerator": "Digits.",
    "denominator": "Digits.",
    "method": "Such as `eth_signTypedData_v4` or `solana_signTransaction`.",
    "params": "As the wallet takes them.",
}

_TIME: Final = f"^({_UP_TO}6}}s|{_UP_TO}4}}m|{_UP_TO}2}}h|([1-9][0-9]?|[1-3][0-9]{{2}})d)$"
FIELDS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        **{name: {"description": words} for name, words in _WORDS.items()},
        **dict.fromkeys(_INSTANTS, INSTANT),
        **dict.fromkeys(("paymentId", "payment_id"), PAYMENT_ID),
        **dict.fromkeys(("merchantId", "merchant_id"), identifier("mrch_")),
        **dict.fromkeys(("txId", "txHash", "hash", "tx_id"), TX_ID),
        **dict.fromkeys(("chain", "networkId", "chain_id", "chain_caip2"), CHAIN),
        **dict.fromkeys(("account", "destination", "accountCaip10", "buyer_caip10"), ACCOUNT),
        **dict.fromkeys(("url", "gatewayUrl", "iconUrl", "networkIconUrl"), URL),
        **dict.fromkeys(("durationMs", "dnsMs", "connectMs", "tlsMs", "totalMs"), DURATION_MS),
        **dict.fromkeys(("decimals", "attempts", "queued", "done", "takenBack"), COUNT),
        **dict.fromkeys(("retrying", "totalCount", "missedEvents", "n", "retryAfterS", "etaS"), COUNT),
        **dict.fromkeys(("blockNumber", "payment_state_version", "offsetS"), COUNT),
        "eventId": identifier("evt_"),
        "messageId": identifier("msg_"),
        "deliveryId": identifier("dlv_"),
        "optionId": OPTION_ID,
        "expiresAt": UNIX,
        "pollInMs": {"type": "integer", "minimum": 0, "description": "When to ask again; null: no need."},
        "isFinal": {"description": "Whether the status can never change."},
        "isTerminal": {"description": "Whether the status can never change."},
        "status": STATUS,
        "unit": UNIT,
        "value": AMOUNT,
        "asset": ASSET,
        "nextCursor": CURSOR,
        "merchantName": NAME,
        "merchantEmail": EMAIL,
        "email": EMAIL,
        "referenceId": text(255, "The merchant's own name for the payment; printable, not unique."),
        "reference_id": text(255, "The merchant's own name for the payment."),
        "reason": text(500, "Why; printable characters."),
        "collect": COLLECT,
        "checkoutOrigins": ORIGINS,
        "eventType": EVENT_TYPE,
        "events": {"uniqueItems": True, "items": EVENT_TYPE},
        "secret": SECRET,
        "lastStatus": HTTP_STATUS,
        "failureCode": ERROR_CODE,
        "code": ERROR_CODE,
        "errorClass": ERROR_CODE | {"description": "Why there was no good answer, for programs."},
        "actions": {"description": "To be done in their order."},
        "failureReason": {"description": "For people; do not branch on it."},
        "failure_reason": {"description": "For people; do not branch on it."},
        "cancellation_reason": {"description": "For people; do not branch on it."},
        "cancellationReason": {"description": "For people; do not branch on it."},
        "cancelledReason": one_of("cancelled_by_merchant", "cancelled_by_user"),
        "accounts": {"maxItems": ACCOUNTS_MAX, "items": ACCOUNT},
    }
)  # fmt: skip

IN: Final[Mapping[str, Mapping[str, Schema]]] = MappingProxyType(
    {
        "Merchant": {"id": identifier("mrch_"), "status": MERCHANT_STATUS},
        "MerchantWithSettlements": {"id": identifier("mrch_"), "status": MERCHANT_STATUS},
        "MerchantBrief": {"id": identifier("mrch_")},
        "CreateMerchant": {"iconUrl": HTTPS_URL},
        "PatchMerchant": {"iconUrl": HTTPS_URL, "status": MERCHANT_STATUS},
        "LogoAnswer": {"id": identifier("mrch_")},
        "Settlement": {"id": identifier("crypto_")},
        "PutSettlement": {"expected": ACCOUNT | {"description": "Where the money has to go until now."}},
        "CreateSettlements": {"settlements": {"minItems": 1, "maxItems": 50, "uniqueItems": True}},
        "Deleted": {"id": identifier("mrch_", "crypto_", "ep_")},
        "Field": {
            "id": FIELD_ID,
            "name": text(NAME_MAX, "What the buyer reads."),
            "required": {"description": "True unless it says otherwise."},
        },
        "Answered": {"id": FIELD_ID, "value": _ANSWER},
        "CollectData": {"url": {"type": "string", "description": "A page that asks, for these accounts."}},
        "CreatePayment": {
            "expiresAt": UNIX | {"description": "Unix seconds, in the future, at most 24 hours ahead."}
        },
        "CheckoutIn": {
            "successUrl": {"description": f"Where a buyer goes who paid. {_BOTH}"},
            "errorUrl": {"description": f"Where a buyer goes when nothing was paid. {_BOTH}"},
        },
        "AmountIn": {
            "unit": {
                "type": "string",
                "pattern": f"^iso4217/({CURRENCY})$",
                "description": "`iso4217/` and a currency.",
            },
            "value": {
                "type": "string",
                "pattern": f"^[1-9][0-9]{{0,{VALUE_DIGITS_MAX - 1}}}$",
                "description": "In the smallest unit: 12.50 USD is `1250`.",
            },
        },
        "PaymentCreated": {"status": one_of(*_OLDER_WORDS)},
        "PaymentCreatedBoth": {"id": PAYMENT_ID},
        "MerchantPaymentStatus": {"status": one_of(*_OLDER_WORDS)},
        "Transfer": {
            "kind": one_of(*get_args(TransferKind)),
            "from": ACCOUNT | {
                "description": "Who sent it, as one node told; CAIP-10. Before money goes back there, look"
                " the transaction up on its chain."
            },
            "to": ACCOUNT | {"description": "Who received it; CAIP-10."},
        },
        "MatchOutcome": {
            "outcome": one_of(
                "matched", "recorded", "not_offered", "other_payment", "not_ours", "not_mined",
                "not_read_yet", "reverted", "disagreement",
            )
        },
        "MatchIn": {"txId": {"type": "string", "description": "A hash, or a first signature."}},
        "RecordRefund": {
            "txId": text(128, "The transaction that paid it back; it is looked up on the chain."),
            "note": {"maxLength": 1000},
        },
        "Refund": {"note": {"description": "The merchant's own words."}},
        "Option": {"id": identifier("opt_")},
        "Options": {"options": {"maxItems": OPTIONS_PER_ANSWER_MAX}},
        "ConfirmIn": {"results": {"maxItems": 16}, "collectedData": _COLLECTED},
        "AccountsIn": {"refresh": {"description": "Taken, and changes nothing: ids are stable."}},
        "PutEndpoint": {
            "url": URL | {"description": "Absolute, https, on a public address."},
            "events": {
                "minItems": 1,
                "uniqueItems": True,
                "items": EVENT_TYPE,
                "description": "Which events it wants; left out: all.",
            },
            "headers": {
                "maxProperties": HEADERS_MAX,
                "description": "What its requests have besides; left out: as they are.",
                "propertyNames": {"pattern": f"^[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,{HEADER_NAME_MAX}}}$"},
                "additionalProperties": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": VALUE_MAX,
                    "pattern": r"^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$",
                },
            },
        },
        "Endpoint": {
            "id": identifier("ep_"),
            "state": _ENDPOINT_STATE,
        },
        "SendTest": {"type": EVENT_TYPE},
        "TestDelivery": {"status": HTTP_STATUS},
        "Delivery": _DELIVERY,
        "DeliveryDetail": _DELIVERY,
        "Attempt": {
            "fault": {"description": "What was done to it on purpose, in test mode; null: nothing."},
            "headers": {"description": "Of the answer; not to be trusted."},
            "status": HTTP_STATUS, "trigger": one_of(*get_args(Trigger))},
        "Job": {
            "id": identifier("job_"),
            **dict.fromkeys(("matched", "failed"), COUNT),
            "kind": JOB_KIND,
            "since": INSTANT,
            "state": one_of("running", "done", "cancelling", "cancelled"),
        },
        "Preview": {"kind": JOB_KIND, "since": INSTANT, "matched": COUNT},
        "StartJob": {
            "since": UNIX | {"description": "From when on: RFC 3339 with a time zone, or Unix seconds."},
            "preview": {"description": "Only count what the job would send; false unless it says so."},
        },
        "FetchIn": {**_BUILD, "collectedData": _COLLECTED},
        "BuildData": _BUILD,
        "Build": _BUILD,
        "Fee": {"kind": {"description": "`base_plus_percent`; there may be others."}},
        "Event": {"id": identifier("evt_"), "type": EVENT_TYPE},
        "Envelope": {"id": identifier("evt_"), "type": EVENT_TYPE},
        "SimulateIn": {"to": one_of(*TARGETS)},
        "InjectIn": {
            "deliveries": {
                "minimum": 1, "maximum": 1000, "description": "How many it touches; without `for`, 1."
            },
            "for": {"pattern": _TIME, "description": "For all of a time such as `10m`, at most 7 days."},
            "delay": {
                "pattern": _TIME,
                "description": "How long the fault `delay` holds back, at most a day; `30s` if not given.",
            },
            "events": {"items": EVENT_TYPE, "description": "Only of these types."},
            "paymentId": PAYMENT_ID | {"description": "Only of this payment."},
        },
        "Fault": {
            "id": identifier("flt_"),
            "fault": one_of(*FAULT_KINDS),
            "state": one_of("active", "over"),
            "deliveries": {"description": "How many it was to touch; null: all until `until`."},
            "left": {"description": "How many it still touches."},
            "until": {"description": "When it ends by itself."},
            "delayS": {"description": "How many seconds the fault `delay` holds back."},
            "injected": COUNT | {"description": "How many attempts it touched."},
            "events": {"items": EVENT_TYPE, "description": "Only of these types; empty: of all."},
        },
        "Sample": {"type": EVENT_TYPE, "apiVersion": {"description": "Of the payload."}},
        "Scenario": {
            "name": {"description": "By which it is run."},
            "description": {"description": "What happens."},
            "needsEndpoint": {"description": "Whether nothing could be seen without one."},
        },
        "Run": {"scenario": {"description": "Its name."}},
        "Step": {
            "did": {"description": "What was done."},
            "refused": {"description": "The code with which it was refused, as it should be."},
        },
        "Told": {
            "type": EVENT_TYPE,
            "note": {"description": "What is odd about its requests; empty: nothing."},
            "requests": COUNT | {"description": "How many a receiver gets that accepts what it should."},
        },
        "ClockIn": {
            "advance": {
                "type": "string",
                "pattern": _TIME,
                "description": "Such as `300s`, `15m`, `28h` or `5d`, at most 400 days.",
            }
        },
        "ClockJob": {"id": identifier("job_"), "state": one_of("running", "done")},
        "Problem": {
            "type": {
                "type": "string",
                "format": "uri",
                "description": "Where this server explains the code.",
            },
            "title": {"description": "The code in words."},
            "status": {"type": "integer", "description": "The HTTP status."},
            "detail": {"description": "For people; it may change."},
            "instance": identifier("req_") | {"description": "The request, as the log names it."},
            "details": {"description": "What a program may want to know."},
        },
        "Error": {
            "details": {
                "type": "object",
                "description": "What a program may want to know; more of it for some codes.",
                "properties": {
                    "requestId": identifier("req_") | {"description": "Names this request in the log."},
                    "docUrl": {
                        "type": "string",
                        "format": "uri",
                        "description": "Where this server explains the code.",
                    },
                },
                "required": ["requestId", "docUrl"],
            }
        },
        "Health": {"status": one_of("ok", "degraded", "failing")},
        "Versions": {
            "stable": {"items": one_of(*VERSIONS)},
            "preview": {"items": one_of(*VERSIONS)},
        },
        "AccountIn": {
            "account": {
                "type": "string",
                "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$",
                "description": "The wallet's Solana address, base58.",
            }
        },
        "TransactionToSign": {"transaction": {"description": "Base64; the wallet signs and sends it."}},
        "Link": {"url": {"type": "string", "pattern": "^solana:"}},
    }
)  # fmt: skip

WHOLE: Final[Mapping[str, Schema]] = MappingProxyType({"PatchMerchant": {"minProperties": 1}})
"""What holds for a shape as a whole."""
