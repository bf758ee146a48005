// What wallets are asked, over EIP-1193 and the Wallet Standard for Solana. Each becomes the same calls:
// connect(chains) gives CAIP-10 accounts; ready(action, chain, address) brings it to the action's network; run(action) its result.
const PAIRS_MAX = 100; // of account and network: so many the server takes at once
const SAID_MAX = 2_000; // of an error's text is read
const TRANSACTION_MAX = 4_096; // bytes: the network takes 1,232
const UNKNOWN_CHAIN = 4902, INTERNAL = -32603; // wallets on phones say the second of both
const CLUSTERS = { '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'mainnet', EtWTRABZaYq6iMfeYKouRu166VU2xqa1: 'devnet',
  '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z': 'testnet' }; // as the Wallet Standard calls them
// After these nothing was sent; after others a transaction may be on its way.
const NOTHING_SENT = new Set([4001, 4100, 4200, -32601, -32602]);

export class WalletError extends Error {
  constructor(kind, cause) { super(kind, { cause }); this.kind = kind; }
}
const codeOf = (e) => e?.code ?? e?.data?.originalError?.code ?? e?.cause?.code;

const DECLINED = /\b(user|request|signature|approval)\b.{0,30}\b(reject|den[iy]|declin|cancel)|(reject|den[iy]|declin|cancel)\w* by (the )?user/i;
// A node that did not answer in time may have sent it. Its code for that is the one of wallets that are busy.
const LOST = /timed?[ -]?out|deadline/i;

// What went wrong: the kind of words for it, its code, and whether it is certain that nothing was sent.
export function problemOf(e) {
  if (e instanceof WalletError) return { kind: e.kind, code: '', unsent: true };
  let code, said = '';
  try {
    code = codeOf(e);
    said = String(e?.message ?? e).slice(0, SAID_MAX);
  } catch { /* a wallet's error may be anything */ }
  const shown = Number.isSafeInteger(code) ? code : '';
  const is = (kind, unsent = true) => ({ kind, code: shown, unsent: unsent || NOTHING_SENT.has(code) });
  if (code === 4001 || code === 'ACTION_REJECTED') return is('rejected');
  const lost = LOST.test(said);
  if (!lost && (code === -32002 || /already pending/i.test(said))) return is('busy');
  if (code === 4100) return is('locked');
  if (code === 4900 || code === 4901) return is('disconnected', false);
  if (/insufficient|exceeds (the )?balance|debit an account|no record of a prior credit/i.test(said)) return is('insufficient');
  if (!lost && DECLINED.test(said)) return is('rejected');
  return is('wallet', false);
}

// Those that are addresses, on each of the chains: none twice, and no more than the server takes.
function paired(accounts, chains, isOne) {
  const ours = [...new Set((Array.isArray(accounts) ? accounts : [accounts]).slice(0, PAIRS_MAX))].filter(isOne);
  return ours.flatMap((one) => chains.map((chain) => `${chain}:${one}`)).slice(0, PAIRS_MAX);
}

// -- EVM

const isAddress = (one) => typeof one === 'string' && /^0x[0-9a-f]{40}$/i.test(one);

function evm(provider) {
  const ask = async (method, params = []) => provider.request({ method, params });
  const at = async () => BigInt(await ask('eth_chainId'));
  const go = (chainId) => ask('wallet_switchEthereumChain', [{ chainId }]);
  const on = (accounts, chains) => paired(accounts, chains.filter((chain) => chain.startsWith('eip155:')), isAddress);
  return {
    ask,
    connect: async (chains) => on(await ask('eth_requestAccounts'), chains),
    watch(chains, hear) {
      provider.on?.('accountsChanged', (accounts) => hear(on(accounts, chains)));
      provider.on?.('chainChanged', () => hear());
    },
    async ready(action, chain, address) {
      const wanted = BigInt(action.chain_id.split(':')[1]), chainId = `0x${wanted.toString(16)}`;
      if (await at() !== wanted) {
        try {
          await go(chainId);
        } catch (e) {
          const unknown = [UNKNOWN_CHAIN, INTERNAL].includes(codeOf(e)) || /unrecognized chain/i.test(e?.message);
          if (!unknown || problemOf(e).kind === 'rejected') throw e;
          if (!chain?.rpcUrls) throw new WalletError('chain_missing', e);
          try {
            await ask('wallet_addEthereumChain', [{ chainId, ...chain }]);
            if (await at() !== wanted) await go(chainId); // some add it and stay where they are
          } catch (refusal) {
            throw new WalletError('chain_missing', refusal);
          }
        }
        if (await at() !== wanted) throw new WalletError('wrong_network');
      }
      // Nothing is paid from another account than the one that is shown.
      const has = await ask('eth_accounts').catch(() => null);
      if (Array.isArray(has) && !has.some((one) => isAddress(one) && one.toLowerCase() === address.toLowerCase())) {
        throw new WalletError(has.length ? 'moved' : 'locked');
      }
    },
    run: (action) => ask(action.method, action.params),
  };
}

// -- Solana

const toBytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const toText = (bytes) => btoa(String.fromCharCode(...bytes));
const isKey = (one) => typeof one === 'string' && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(one);
const clusterOf = (chain) => `solana:${CLUSTERS[chain.split(':')[1]] ?? 'localnet'}`;

function standard(wallet) {
  const { 'standard:connect': connect, 'solana:signTransaction': sign, 'standard:events': events } = wallet.features;
  const on = (accounts, chains) => chains.filter((chain) => chain.startsWith('solana:')).flatMap((chain) => paired(
    accounts.slice(0, PAIRS_MAX).filter((one) => one?.chains.includes(clusterOf(chain))).map((one) => one.address), [chain], isKey));
  return {
    connect: async (chains) => on((await connect.connect()).accounts ?? wallet.accounts, chains),
    watch(chains, hear) { events?.on('change', (what) => what?.accounts && hear(on(what.accounts, chains))); },
    async ready() {},
    async run(action, address) {
      const account = wallet.accounts.find((one) => one.address === address);
      if (!account) throw new WalletError(wallet.accounts.length ? 'moved' : 'locked');
      const transaction = toBytes(action.params[0].transaction);
      const [{ signedTransaction }] = await sign.signTransaction({ account, transaction, chain: clusterOf(action.chain_id) });
      if (!(signedTransaction?.length <= TRANSACTION_MAX)) throw new TypeError('no transaction');
      return toText(Uint8Array.from(signedTransaction));
    },
  };
}

// How to talk to one that was found.
export const talk = ({ name, icon, provider, wallet }) => ({ name, icon, ...(provider ? evm(provider) : standard(wallet)) });
