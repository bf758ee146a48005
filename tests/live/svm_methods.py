"""What the local Solana node answers to each JSON-RPC method, and how it misbehaves when a test asks for it.

Codes and words are those of Agave's `rpc/src/rpc.rs` and `custom_error.rs`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, from_bytes_versioned
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from payd.chains.solana.keys import MEMO, SYSTEM, TOKEN_PROGRAMS
from tests.live.node_process import Refused
from tests.live.svm_answers import (
    INVALID_PARAMS,
    account_json,
    base64_of,
    fee_of,
    is_signed,
    memo_in,
    read_key,
    read_signature,
    read_transaction,
    transaction_json,
    verify,
    version_of,
    with_slot,
    words_of,
)
from tests.live.svm_ledger import HASH_LIFE, Block, Landing, Ledger, Trial, is_token_account

MAINNET_GENESIS: Final = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
ACCOUNTS_MAX: Final = 100
STATUSES_MAX: Final = 256
LISTED_MAX: Final = 1000
SLOTS_IN_AN_EPOCH: Final = 432_000
# A simulation leaves so many for the way to a leader.
FORWARDING_BLOCKS: Final = 6
RICH: Final = 10**18

PREFLIGHT_FAILED: Final = -32002
OTHER_VERSION: Final = -32015
MIN_SLOT_NOT_REACHED: Final = -32016
CURSOR_NOT_FOUND: Final = -32020

Mode = Literal["normal", "blackhole", "drop"]
Options = Mapping[str, Any]


class SvmNode:
    """A node that answers; `tests/live/svm_node.py` puts it on a port.

    Attributes:
        ledger: The chain; several nodes may be of the same.
        genesis: What it says the chain is.
        mode: What becomes of transactions that are sent: `normal`: the newest block has them at once;
            `blackhole`: none; `drop`: they land, and a fork takes them away `drop_after` blocks later.
        drop_after: Blocks; 1: it was never more than processed.
        censored: Accounts; what names one of them is taken and never lands.
        forgotten: Transactions that it does not know any more, though what they did stays done.
        lag: So many blocks it is behind the chain, in all that it says.
        index_lag: So many slots after it landed a transaction is listed by address.
        first_slot: The oldest that it has the transactions of.
        prices: What `getRecentPrioritizationFees` says of the newest slots, in micro-lamports a unit.
        knows_cursors: Whether `before` and `until` have to be known, as newer releases have it.
        changed: Called whenever there may be news for subscribers.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        *,
        genesis: str = MAINNET_GENESIS,
        confirmed: int = 1,
        finalized: int = 32,
    ) -> None:
        self.ledger = ledger or Ledger(confirmed, finalized)
        self.genesis = genesis
        self.mode: Mode = "normal"
        self.drop_after = 1
        self.censored: set[Pubkey] = set()
        self.forgotten: set[str] = set()
        self.lag = 0
        self.index_lag = 0
        self.first_slot = 0
        self.prices = [0, 0, 0]
        self.knows_cursors = True
        self.changed: Callable[[], None] = lambda: None
        self._faucet = Keypair()
        self._airdrops = 0
        self.ledger.put(self._faucet.pubkey(), Account(RICH, b"", SYSTEM))

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one call, without the network in between.

        Raises:
            Refused: An error of JSON-RPC.
        """
        answer = getattr(self, f"_{method}", None)
        if answer is None:
            raise Refused(-32601, "Method not found")
        try:
            return answer(*params)
        except (ValueError, TypeError, KeyError, binascii.Error) as error:
            raise Refused(INVALID_PARAMS, f"Invalid params: {error}") from error

    async def rpc(self, method: str, *params: Any) -> Any:
        """As `ask`, with the name that other chains have for it."""
        return self.ask(method, *params)

    # What is asked of tests

    def _payd_slot(self, count: int = 1) -> int:
        """So many more blocks; gives the slot."""
        for _ in range(count):
            self.ledger.advance()
        self.changed()
        return self.ledger.tip.slot

    def _payd_skip(self, count: int) -> int:
        """So many slots without a block, and then one."""
        self.ledger.advance(count)
        self.changed()
        return self.ledger.tip.slot

    def _payd_time(self, seconds: int) -> int:
        """The chain's time jumps, and a block shows it; gives it."""
        self.ledger.ahead_s += seconds
        self.ledger.advance()
        self.changed()
        return self.ledger.tip.time_s

    def _payd_fork(self, blocks: int) -> list[str]:
        """The newest blocks lose against others that are empty; gives what was in them."""
        gone = self.ledger.fork(blocks)
        self.changed()
        return gone

    def _payd_put(self, key: str, lamports: int, owner: str, data: str = "") -> None:
        """Make an account something, as if it had always been so."""
        account = Account(lamports, base64.b64decode(data, validate=True), read_key(owner))
        self.ledger.put(read_key(key), account if lamports else None)

    def _payd_mode(self, mode: Mode, after: int = 1) -> str:
        self.mode, self.drop_after = mode, after
        return mode

    # The chain

    def _getHealth(self) -> str:
        return "ok"

    def _getVersion(self) -> dict[str, Any]:
        return {"solana-core": "3.0.0", "feature-set": 0}

    def _getGenesisHash(self) -> str:
        return self.genesis

    def _getSlot(self, options: Options | None = None) -> int:
        return self._bank(options).slot

    def _getFirstAvailableBlock(self) -> int:
        return self.first_slot

    def _getBlockHeight(self, options: Options | None = None) -> int:
        return self._bank(options).height

    def _getEpochInfo(self, options: Options | None = None) -> dict[str, Any]:
        block = self._bank(options)
        epoch, place = divmod(block.slot, 432_000)
        return {
            "absoluteSlot": block.slot,
            "blockHeight": block.height,
            "epoch": epoch,
            "slotIndex": place,
            "slotsInEpoch": 432_000,
            "transactionCount": len(self.ledger.landed),
        }

    def _getBlockTime(self, slot: int) -> int:
        found = next((block for block in self.ledger.blocks if block.slot == slot), None)
        if found is None:
            raise Refused(
                -32007, f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot"
            )
        return found.time_s

    def _getLatestBlockhash(self, options: Options | None = None) -> Any:
        block = self._bank(options)
        return with_slot(block, {"blockhash": block.hash, "lastValidBlockHeight": block.height + HASH_LIFE})

    def _isBlockhashValid(self, blockhash: str, options: Options | None = None) -> Any:
        block = self._bank(options)
        return with_slot(block, self.ledger.is_fresh(blockhash, block))

    def _getFeeForMessage(self, text: str, options: Options | None = None) -> Any:
        message = from_bytes_versioned(base64.b64decode(text, validate=True))
        block = self._bank(options)
        fresh = self.ledger.is_fresh(str(message.recent_blockhash), self.tip())
        return with_slot(block, fee_of(message) if fresh else None)

    def _getMinimumBalanceForRentExemption(self, size: int, options: Options | None = None) -> int:
        return self.ledger.svm.minimum_balance_for_rent_exemption(size)

    def _getRecentPrioritizationFees(self, keys: list[str] | None = None) -> Any:
        slot = self.tip().slot - len(self.prices) + 1
        return [{"slot": slot + n, "prioritizationFee": price} for n, price in enumerate(self.prices)]

    # Accounts

    def _getBalance(self, key: str, options: Options | None = None) -> Any:
        block = self._bank(options)
        account = self.ledger.account(read_key(key), block)
        return with_slot(block, 0 if account is None else account.lamports)

    def _getAccountInfo(self, key: str, options: Options | None = None) -> Any:
        block = self._bank(options)
        return with_slot(block, self._account(read_key(key), block, options))

    def _getMultipleAccounts(self, keys: list[str], options: Options | None = None) -> Any:
        if len(keys) > ACCOUNTS_MAX:
            raise Refused(INVALID_PARAMS, f"Too many inputs provided; max {ACCOUNTS_MAX}")
        block = self._bank(options)
        return with_slot(block, [self._account(read_key(key), block, options) for key in keys])

    def _getTokenAccountBalance(self, key: str, options: Options | None = None) -> Any:
        block = self._bank(options)
        account = self.ledger.account(read_key(key), block)
        if account is None:
            raise Refused(INVALID_PARAMS, "Invalid param: could not find account")
        if not is_token_account(account):
            raise Refused(INVALID_PARAMS, "Invalid param: not a Token account")
        return with_slot(block, self.ledger.holding(account)["tokenAmount"])

    def _getTokenAccountsByOwner(self, owner: str, which: Options, options: Options | None = None) -> Any:
        block = self._bank(options)
        programs = [read_key(which["programId"])] if "programId" in which else TOKEN_PROGRAMS
        found = []
        for program in programs:
            for key, account in self.ledger.owned_by(program, block):
                if not is_token_account(account):
                    continue
                held = self.ledger.holding(account)
                if held["owner"] == owner and which.get("mint", held["mint"]) == held["mint"]:
                    found.append({"pubkey": str(key), "account": self._account(key, block, options)})
        return with_slot(block, found)

    def _account(self, key: Pubkey, block: Block, options: Options | None) -> Any:
        account = self.ledger.account(key, block)
        if account is None:
            return None
        asked = options or {}
        if asked.get("encoding") == "jsonParsed" and is_token_account(account):
            info = self.ledger.holding(account)
            program = "spl-token" if account.owner == TOKEN_PROGRAMS[0] else "spl-token-2022"
            parsed = {
                "parsed": {"info": info, "type": "account"},
                "program": program,
                "space": len(account.data),
            }
            return account_json(account, parsed)
        if asked.get("encoding") not in ("base64", "jsonParsed"):
            raise Refused(INVALID_PARAMS, "this node speaks base64")
        part = asked.get("dataSlice")
        data = bytes(account.data)
        if part is not None:
            data = data[part["offset"] : part["offset"] + part["length"]]
        return account_json(account, base64_of(data))

    # Transactions

    def _sendTransaction(self, text: str, options: Options | None = None) -> str:
        asked = options or {}
        raw, tx = read_transaction(text, asked)
        if not asked.get("skipPreflight"):
            verify(tx)
            commitment = asked.get("preflightCommitment") or "finalized"
            trial = self._trial(tx, self._bank({**asked, "commitment": commitment}))
            if trial.err is not None:
                words = f"Transaction simulation failed: {words_of(trial.err)}"
                raise Refused(PREFLIGHT_FAILED, words, self._simulated(trial))
        tx_id = str(tx.signatures[0])
        if self.mode != "blackhole" and is_signed(tx) and not self.censored & set(tx.message.account_keys):
            leaves_after = self.drop_after if self.mode == "drop" else None
            self.ledger.land(raw, leaves_after=leaves_after)
            self.changed()
        return tx_id

    def _simulateTransaction(self, text: str, options: Options | None = None) -> Any:
        asked = options or {}
        block = self._bank(asked)
        _, tx = read_transaction(text, asked)
        if asked.get("sigVerify") and asked.get("replaceRecentBlockhash"):
            raise Refused(INVALID_PARAMS, "sigVerify may not be used with replaceRecentBlockhash")
        wanted = (asked.get("accounts") or {}).get("addresses")
        if wanted is not None and len(wanted) > len(tx.message.account_keys):
            raise Refused(INVALID_PARAMS, f"Too many accounts provided; max {len(tx.message.account_keys)}")
        replaces = bool(asked.get("replaceRecentBlockhash"))
        unsigned = asked.get("sigVerify") and not is_signed(tx)
        trial = Trial("SignatureFailure") if unsigned else self._trial(tx, block, is_fresh=replaces)
        shown = None if wanted is None else [self._after(read_key(key), trial) for key in wanted]
        replacement = {"blockhash": block.hash, "lastValidBlockHeight": block.height + HASH_LIFE}
        return with_slot(
            block,
            {
                **self._simulated(trial),
                "accounts": shown,
                "replacementBlockhash": replacement if replaces else None,
            },
        )

    def _trial(self, tx: VersionedTransaction, block: Block, *, is_fresh: bool = False) -> Trial:
        """What a bank would make of it, but for accounts: those are the newest."""
        problem = self.problem(tx, block)
        if problem is not None and not (is_fresh and problem == "BlockhashNotFound"):
            return Trial(problem)
        return self.ledger.simulate(tx)

    def problem(self, tx: VersionedTransaction, block: Block) -> str | None:
        """Why a bank refuses it, as the RPC names it."""
        return self.ledger.problem(tx, block, FORWARDING_BLOCKS)

    def _simulated(self, trial: Trial) -> dict[str, Any]:
        return {
            "err": trial.err,
            "logs": trial.logs,
            "accounts": None,
            "unitsConsumed": trial.units,
            "fee": trial.fee,
            "returnData": None,
            "innerInstructions": None,
        }

    def _after(self, key: Pubkey, trial: Trial) -> Any:
        if trial.err is not None:
            return None
        account = trial.accounts.get(key) or self.ledger.account(key)
        return None if account is None else account_json(account, base64_of(bytes(account.data)))

    def _requestAirdrop(self, key: str, lamports: int, options: Options | None = None) -> str:
        faucet = self._faucet.pubkey()
        pay = transfer(TransferParams(from_pubkey=faucet, to_pubkey=read_key(key), lamports=lamports))
        # Two in the same block are two.
        self._airdrops += 1
        memo = Instruction(MEMO, str(self._airdrops).encode(), [])
        blockhash = Hash.from_string(self.ledger.tip.hash)
        tx = VersionedTransaction(Message.new_with_blockhash([memo, pay], faucet, blockhash), [self._faucet])
        self.ledger.land(bytes(tx))
        self.changed()
        return str(tx.signatures[0])

    # What happened

    def _getSignatureStatuses(self, ids: list[str], options: Options | None = None) -> Any:
        if len(ids) > STATUSES_MAX:
            raise Refused(INVALID_PARAMS, f"Too many inputs provided; max {STATUSES_MAX}")
        searches = bool((options or {}).get("searchTransactionHistory"))
        return with_slot(self.tip(), [self._status(read_signature(one), searches) for one in ids])

    def _status(self, tx_id: str, searches: bool) -> Any:
        landing = self.known(tx_id)
        if landing is None:
            return None
        level, above = self.level(landing), self.tip().height - landing.block.height
        if above > HASH_LIFE and not searches:
            return None
        return {
            "slot": landing.block.slot,
            "confirmations": None if level == "finalized" else above,
            "err": landing.err,
            "status": {"Ok": None} if landing.err is None else {"Err": landing.err},
            "confirmationStatus": level,
        }

    def known(self, tx_id: str, commitment: str = "processed") -> Landing | None:
        """A transaction that has at least that commitment, unless the node has forgotten it."""
        found = self.ledger.landed.get(tx_id)
        if found is None or tx_id in self.forgotten:
            return None
        return found if found.block.height <= self.tip(commitment).height else None

    def naming(self, key: str, commitment: str) -> list[Landing]:
        """Transactions of that commitment that name an account, newest first."""
        found = self.ledger.of_address(read_key(key))
        return [one for one in found if self.known(one.tx_id, commitment) is not None]

    def level(self, landing: Landing) -> str:
        """The commitment of its block."""
        levels = ("finalized", "confirmed")
        return next((name for name in levels if self.known(landing.tx_id, name)), "processed")

    def tip(self, commitment: str = "processed") -> Block:
        """The newest block with that commitment that it has seen."""
        return self.ledger.at(commitment, self.lag)

    def _getTransaction(self, tx_id: str, options: Options | None = None) -> Any:
        asked = options or {}
        if asked.get("encoding") != "base64":
            raise Refused(INVALID_PARAMS, "this node speaks base64")
        self._bank(asked, history=True)
        landing = self.known(read_signature(tx_id), asked.get("commitment") or "finalized")
        if landing is None:
            return None
        version, most = version_of(landing.tx.message), asked.get("maxSupportedTransactionVersion", -1)
        if version != "legacy" and version > most:
            raise Refused(
                OTHER_VERSION,
                f"Transaction version ({version}) is not supported by the requesting client. Please try the"
                " request again with the following configuration parameter:"
                f' "maxSupportedTransactionVersion": {version}',
            )
        return {**transaction_json(landing), "version": version}

    def _getSignaturesForAddress(self, key: str, options: Options | None = None) -> Any:
        asked = options or {}
        self._bank(asked, history=True)
        limit = asked.get("limit", LISTED_MAX)
        if not 0 < limit <= LISTED_MAX:
            raise Refused(INVALID_PARAMS, f"Invalid limit; max {LISTED_MAX}")
        before, until = [self._cursor(asked.get(name)) for name in ("before", "until")]
        found: list[Any] = []
        began = before is None
        indexed = self.tip().slot - self.index_lag
        for landing in self.naming(key, asked.get("commitment") or "finalized"):
            if landing.tx_id == until or len(found) == limit:
                break
            if began and landing.block.slot <= indexed:
                found.append(self._listed(landing))
            began = began or landing.tx_id == before
        return found

    def _cursor(self, tx_id: str | None) -> str | None:
        if tx_id is None:
            return None
        if self.knows_cursors and self.known(read_signature(tx_id)) is None:
            raise Refused(CURSOR_NOT_FOUND, f"Transaction {tx_id} not found")
        return tx_id

    def _listed(self, landing: Landing) -> dict[str, Any]:
        return {
            "signature": landing.tx_id,
            "slot": landing.block.slot,
            "err": landing.err,
            "memo": memo_in(landing.tx.message),
            "blockTime": landing.block.time_s,
            "confirmationStatus": self.level(landing),
        }

    def _bank(self, options: Options | None, *, history: bool = False) -> Block:
        """The block that the asked commitment sees."""
        asked = options or {}
        commitment = asked.get("commitment") or "finalized"
        if commitment not in self.ledger.depth:
            raise Refused(INVALID_PARAMS, f"Invalid params: unknown variant `{commitment}`")
        if history and commitment == "processed":
            raise Refused(INVALID_PARAMS, "Method does not support commitment below `confirmed`")
        block = self.tip(commitment)
        if asked.get("minContextSlot", 0) > block.slot:
            words = "Minimum context slot has not been reached"
            raise Refused(MIN_SLOT_NOT_REACHED, words, {"contextSlot": block.slot})
        return block
