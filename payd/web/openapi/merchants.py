"""What the description says of merchants, their logos and their destinations."""

from __future__ import annotations

from typing import Final

from payd.core.errors import ChainUnavailable, InvalidParams, SettlementAssetConflict, UnsupportedMediaType
from payd.core.picture import LOGO_TYPE
from payd.web import merchants, settlement_changes, settlements
from payd.web.logos import LogoAnswer
from payd.web.openapi import fields as names
from payd.web.openapi.operation import (
    CURSOR,
    MERCHANT_PATH,
    NO_MERCHANT,
    Media,
    Operation,
    Operations,
    Param,
    limit,
)
from payd.web.schema import Deleted, SettlementOut

TAG: Final = "Merchants"
SETTLEMENTS_TAG: Final = "Settlements"

PICTURES: Final = Media(("application/octet-stream", "image/png", "image/jpeg", LOGO_TYPE, "image/avif"))
SETTLEMENT_PATH: Final = {**MERCHANT_PATH, "id": names.identifier("crypto_")}

_SEARCH: Final = Param("search", "Part of a name, e-mail or id.", {"type": "string", "maxLength": 256})

OPERATIONS: Final[Operations] = {
    "POST /v1/merchants": Operation(
        id="Merchant_create",
        tag=TAG,
        summary="Create a merchant",
        words="Who receives payments. Then say where the money goes: `CryptoSettlement_create`.",
        body=merchants.CreateMerchant,
        answers={201: merchants.MerchantCreated},
    ),
    "GET /v1/merchants": Operation(
        id="Merchant_list",
        tag=TAG,
        summary="List merchants",
        words="The newest first. A key that is limited to some merchants sees these.",
        query=(Param("status", "Only these.", names.MERCHANT_STATUS), _SEARCH, CURSOR, limit(100, 20)),
        answers={200: merchants.MerchantPage},
    ),
    "GET /v1/merchants/{merchantId}": Operation(
        id="Merchant_get",
        tag=TAG,
        summary="Read a merchant",
        words="With where it is paid.",
        path=MERCHANT_PATH,
        answers={200: merchants.MerchantWithSettlements},
        refusals=NO_MERCHANT,
    ),
    "PATCH /v1/merchants/{merchantId}": Operation(
        id="Merchant_update",
        tag=TAG,
        summary="Change a merchant",
        words="At least one field. `iconUrl: null` takes the icon and its logo away.",
        path=MERCHANT_PATH,
        body=merchants.PatchMerchant,
        answers={200: merchants.MerchantOut},
        refusals=NO_MERCHANT,
    ),
    "DELETE /v1/merchants/{merchantId}": Operation(
        id="Merchant_delete",
        tag=TAG,
        summary="Delete a merchant",
        words="Its payments stay. The same answer when it is repeated.",
        path=MERCHANT_PATH,
        answers={200: Deleted},
        refusals=NO_MERCHANT,
    ),
    "PUT /v1/merchants/{merchantId}/logo": Operation(
        id="MerchantLogo_put",
        tag=TAG,
        summary="Send a logo",
        words="The picture itself is the body, at most 2 MiB, best square and of 512 × 512 pixels.",
        path=MERCHANT_PATH,
        body=PICTURES,
        answers={200: LogoAnswer},
        refusals=(*NO_MERCHANT, InvalidParams, UnsupportedMediaType),
    ),
    "DELETE /v1/merchants/{merchantId}/logo": Operation(
        id="MerchantLogo_delete",
        tag=TAG,
        summary="Take the logo away",
        words="Pages show the first letter of the name again. The same answer when it is repeated.",
        path=MERCHANT_PATH,
        answers={200: LogoAnswer},
        refusals=NO_MERCHANT,
    ),
    "GET /v1/merchants/{merchantId}/settlements": Operation(
        id="Settlement_list",
        tag=SETTLEMENTS_TAG,
        summary="List where a merchant is paid",
        words="`fiat` is always empty: payd holds no money.",
        path=MERCHANT_PATH,
        answers={200: merchants.SettlementsOut},
        refusals=NO_MERCHANT,
    ),
    "POST /v1/merchants/{merchantId}/settlements/crypto": Operation(
        id="CryptoSettlement_create",
        tag=SETTLEMENTS_TAG,
        summary="Register where money goes",
        words=(
            "An asset and the account that is paid in it, on the same chain; all of them or none. Live:"
            " assets of a configured chain. Test: every asset."
        ),
        path=MERCHANT_PATH,
        body=settlements.CreateSettlements,
        answers={201: settlements.SettlementsCreated},
        refusals=(*NO_MERCHANT, SettlementAssetConflict, ChainUnavailable),
    ),
    "PUT /v1/merchants/{merchantId}/settlements/crypto/{id}": Operation(
        id="CryptoSettlement_update",
        tag=SETTLEMENTS_TAG,
        summary="Change a destination",
        words="The asset stays. Who was handed a way to pay before still pays the account of then.",
        path=SETTLEMENT_PATH,
        body=settlement_changes.PutSettlement,
        answers={200: SettlementOut},
        refusals=(*NO_MERCHANT, ChainUnavailable),
    ),
    "DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}/pending": Operation(
        id="CryptoSettlement_keep",
        tag=SETTLEMENTS_TAG,
        summary="Call a held change off",
        words="The destination stays as it is. Nothing is held back: 404.",
        path=SETTLEMENT_PATH,
        answers={200: SettlementOut},
        refusals=NO_MERCHANT,
    ),
    "DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}": Operation(
        id="CryptoSettlement_delete",
        tag=SETTLEMENTS_TAG,
        summary="Remove a destination",
        words="Nobody is offered to pay in its asset any more.",
        path=SETTLEMENT_PATH,
        answers={200: Deleted},
        refusals=NO_MERCHANT,
    ),
}
