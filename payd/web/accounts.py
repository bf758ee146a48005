"""The buyer's accounts as a wallet or a page lists them: CAIP-10, in the body of a call.

Source: SPEC.md, "POST /v1/gateway/payment/{id}/options".
"""

from __future__ import annotations

import msgspec

from payd.core.caip import AccountId, MalformedCaip, account_problem, canonical_account, parse_account
from payd.core.errors import InvalidParams, Issue, ParamsValidation
from payd.core.option import ACCOUNTS_MAX
from payd.web.call import Call


class AccountsIn(msgspec.Struct):
    """The buyer's accounts; `refresh` is taken and changes nothing: ids are stable."""

    accounts: list[str]
    refresh: list[str] | None = None


def accounts_in(call: Call) -> list[AccountId]:
    """The buyer's accounts: a bare list, or under `accounts`. Unknown chains pass and find no option."""
    bare = call.request.body.lstrip()[:1] == b"["
    texts = call.json(list[str]) if bare else call.json(AccountsIn).accounts
    if len(texts) > ACCOUNTS_MAX:
        raise ParamsValidation.of(Issue("accounts", f"At most {ACCOUNTS_MAX} items."))
    # One account in two spellings is one account; it keeps the first.
    accounts: dict[str, AccountId] = {}
    issues: list[Issue] = []
    for place, text in enumerate(texts):
        try:
            account = parse_account(text)
        except MalformedCaip as malformed:
            issues.append(Issue(f"accounts[{place}]", str(malformed)))
            continue
        problem = account_problem(account)
        if problem is not None:
            raise InvalidParams(f"accounts[{place}]: {problem}", details={"field": f"accounts[{place}]"})
        accounts.setdefault(canonical_account(account), account)
    if issues:
        raise ParamsValidation.of(*issues)
    return list(accounts.values())
