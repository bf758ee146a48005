"""Who is calling: one function for every door.

Source: SPEC.md, "Authentication"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from payd.core.errors import (
    ConflictingAuthHeaders,
    Forbidden,
    InvalidApiKey,
    InvalidAppId,
    MissingApiKey,
    MissingAppId,
    MissingClientId,
)
from payd.core.ids import api_key_realm, hash_api_key, realm_of
from payd.store.apps import find_app
from payd.store.keys import find_key
from payd.web.house import House, Realm

# Longer than any credential that was ever made.
CREDENTIAL_MAX = 256


@dataclass(slots=True, frozen=True)
class Caller:
    """Who calls, and what they may do.

    Attributes:
        realm: The realm that the credential opens.
        account_id: Whose data; None for an app of the server itself.
        actor: The key's or app's id, for the audit.
        scopes: What a key may do; an app may only use the gateway.
        merchants: The merchants a key is limited to; None for all.
    """

    realm: Realm
    account_id: str | None
    actor: str
    scopes: frozenset[str]
    merchants: frozenset[str] | None

    def check_scope(self, scope: str) -> None:
        """Raise Forbidden unless the caller has the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"This key lacks the scope {scope}.", details={"scope": scope})

    def check_merchant(self, merchant_id: str) -> None:
        """Raise Forbidden when the key is limited to other merchants."""
        if self.merchants is not None and merchant_id not in self.merchants:
            raise Forbidden("This key is not for this merchant.", details={"merchantId": merchant_id})


GATEWAY_SCOPES = frozenset({"gateway"})


def authenticate(house: House, headers: Mapping[str, str], *, gateway: bool) -> Caller:
    """The caller behind a request's credentials.

    Args:
        house: The house.
        headers: By lower-case name.
        gateway: Whether apps are let in beside keys.

    Raises:
        ConflictingAuthHeaders: Both kinds of credential.
        MissingApiKey, MissingClientId, MissingAppId: None, or half of one.
        InvalidApiKey, InvalidAppId: Unknown, revoked, or of a realm that is not running.
    """
    # An empty header is what an unset variable leaves: no credential.
    api_key = headers.get("api-key") or None
    app_id, client_id = headers.get("app-id") or None, headers.get("client-id") or None
    if api_key is not None and (app_id is not None or client_id is not None):
        raise ConflictingAuthHeaders("Send either Api-Key, or App-Id with Client-Id, not both.")
    if api_key is not None:
        return _by_key(house, api_key)
    if not gateway or (app_id is None and client_id is None):
        wrong = next((name for name in ("Authorization", "X-Api-Key") if name.lower() in headers), None)
        elsewhere = f", not in {wrong}" if wrong else ""
        raise MissingApiKey(f"Send your API key in the Api-Key header{elsewhere}.")
    if app_id is None:
        raise MissingAppId("Client-Id needs an App-Id beside it.")
    if client_id is None:
        raise MissingClientId("App-Id needs a Client-Id beside it.")
    return _by_app(house, app_id)


def _by_key(house: House, api_key: str) -> Caller:
    name = api_key_realm(api_key)
    realm = None if name is None or len(api_key) > CREDENTIAL_MAX else house.realms.get(name)
    key = None if realm is None else realm.db.remember(find_key, hash_api_key(api_key))
    if realm is None or key is None:
        raise InvalidApiKey("This API key is unknown or was revoked.")
    return Caller(realm, key.account_id, key.id, key.scopes, key.merchants)


def _by_app(house: House, app_id: str) -> Caller:
    name = realm_of(app_id)
    realm = None if name is None or len(app_id) > CREDENTIAL_MAX else house.realms.get(name)
    app = None if realm is None else realm.db.remember(find_app, app_id)
    if realm is None or app is None:
        raise InvalidAppId("This app id is unknown or was revoked.")
    return Caller(realm, app.account_id, app.id, GATEWAY_SCOPES, None)
