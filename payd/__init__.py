"""A crypto payment acceptance server in one process: payments in, signed webhooks out.

The floors. Imports point down only, and the same noun is the same file on every floor: singular in `core`,
where it is the rules of one thing; plural above, where it is the collection.

    cli/         one file a command
    server.py    the composition root: the whole task tree on one screen
    live/        what the live realm is built from, a room for each kind of chain; imported when there is one
    config/      payd.toml and PAYD_* into frozen values, which the rooms below receive
    web/         floor 4  HTTP: decodes, calls one thing, encodes; decides nothing
    actors/      floor 3  long-lived tasks: one for each payment that has something to do, deliveries, feeds;
                          `watcher.py` reads a chain, `relayer.py` brings to it what buyers signed
    chains/      floor 2  blockchains behind one interface: `simulated.py` in the test realm, `evm/` live and
                          `solana/`; `rpc.py` asks their nodes, `market/` what things cost
    store/ net/  floor 1  the only SQL; the only way out to other hosts
    clock.py  entropy.py  logs.py  the only clock; the only randomness; one event a line, never a secret
    core/        floor 0  the rules, pure: time, random bytes and rows are arguments

Every change of a payment ends with the same three lines, in this order: commit, memory, tell. The six
flows:

1. Create. `web/payments.py` decodes; `core/money.py` and `core/payment.py` check and make the payment; one
   step in `store/creations.py` writes the row, its event and the delivery it owes, for all that come at the
   same moment at once, or, for one with a key, also the idempotency record with the answer's bytes. Then the
   feed and the deliveries are told, and the handler answers.
2. Confirm. What the merchant asks of buyers is there first (`actors/collecting.py`), sealed. Then
   `web/gateway.py` asks the payment's actor, which owns the step: turn 1 reserves the option, the
   chain's checks run outside the inbox, turn 2 commits what `core/payment.py: transition` decides, if the
   payment is still open. With `maxPollMs` the handler then waits for the feed's next snapshot. A client
   that goes away cancels its handler and nothing else.
3. Expiry. No request: one heap of deadlines, refilled from the rows' due times, wakes the actor, whose
   trigger is `WindowClosed`. Those that are due at the same moment move in one turn and one step
   (`actors/tending.py`). A restart and a first start are one code path.
4. Webhook. Each endpoint's actor (`actors/lane.py`) takes what it is owed; `actors/poster.py` signs the bytes
   that were frozen with the event (`core/signature.py`) and posts them (`net/http.py`); `store/attempts.py`
   records the attempt in one step, which asks `core/retry.py` when the next one is due and `core/endpoint.py`
   whether to go on. `actors/deliveries.py` holds them together.
5. Feed. `actors/feed.py` hands a page the current snapshot at once and the newest after each change. A slow
   page skips states; it never sees an older one and never delays a payment.
6. A live payment. With its option, `store/watches.py` notes what its transfer will carry. A signature is
   committed together with a job (`store/relays.py`), which `actors/relayer.py` brings to the chain; or the
   wallet sends by itself. Either way `actors/watcher.py` finds the transfer in a block, `store/sightings.py`
   stores what it is in the step that moves the cursor, and the payment is told. Then `chains/evm/look.py`
   has nodes prove it: succeeded once it is deep enough, settled once it is final. What was not found by
   itself, a merchant names (`actors/claims.py`). On Solana a signature becomes a submission
   (`store/submissions.py`), which `actors/submitter.py` brings, and the watcher lists accounts instead of
   blocks (`actors/account_walk.py`); the rooms in `chains/solana/` have the names of their twins.

Where to look first: `core/payment.py` for the one table of transitions, `web/routes.py` for the one table
of routes, `server.py` for who runs what, `store/migrations/` for what is kept, `payd.toml` for every key.
"""

from __future__ import annotations

__version__ = "0.1.0"
