"""Finding what a path names, for this caller and no other, or for whoever has the link."""

from __future__ import annotations

from payd.core.errors import NotFound, PaymentNotFound
from payd.core.payment import Payment
from payd.store.merchants import Merchant, find_merchant, named_merchants
from payd.web.call import Call
from payd.web.house import Realm


def own_merchant(call: Call) -> Merchant:
    """The merchant in the path.

    Raises:
        NotFound: No merchant of the account.
        Forbidden: The key is limited to others.
    """
    merchant = call.realm.db.point(find_merchant, call.params["merchantId"])
    if merchant is None or merchant.account_id != call.account_id:
        raise NotFound("There is no such merchant.")
    call.check_merchant(merchant.id)
    return merchant


def own_payment(call: Call) -> Payment:
    """The payment in the path.

    Raises:
        PaymentNotFound: Not of the account, or not of the merchant that `Merchant-Id` names.
        Forbidden: The key is limited to other merchants.
    """
    payment = call.realm.payments.find(call.params["id"])
    other_merchant = call.merchant_id is not None and payment.merchant_id != call.merchant_id
    if payment.account_id != call.account_id or other_merchant:
        raise PaymentNotFound("There is no such payment.")
    call.check_merchant(payment.merchant_id)
    return payment


def who_is_paid(realm: Realm, payment: Payment) -> tuple[str, str | None]:
    """The name of a payment's merchant, also of one that was deleted, and the address of its icon."""
    return realm.db.point(named_merchants, [payment.merchant_id]).get(payment.merchant_id, ("", None))


def linked_payment(call: Call) -> tuple[Realm, Payment]:
    """The payment in a path that needs no key: its id is the capability.

    Raises:
        PaymentNotFound: There is none.
    """
    realm = call.house.realm_of_payment(call.params["id"])
    return realm, realm.payments.find(call.params["id"])
