// The wallets of this browser: EIP-6963 and EIP-1193, and the Wallet Standard for Solana. Each becomes the same calls:
// connect(chains) gives CAIP-10 accounts; ready(action, chain) brings it to the action's network; run(action) its result.
const WALLETS_MAX = 20, NAME_MAX = 40, ICON_MAX = 100_000; // a page of any site's wallets: none may fill it
const LEGACY_AFTER_MS = 400; // for those that announce nothing
const ICON = /^data:image\/(png|webp|gif|jpeg|svg\+xml)[;,]/i;
const CLUSTERS = { '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'mainnet', EtWTRABZaYq6iMfeYKouRu166VU2xqa1: 'devnet',
  '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z': 'testnet' }; // as the Wallet Standard calls them
const UNKNOWN_CHAIN = 4902, INTERNAL = -32603; // wallets on phones say the second of both
// After these nothing was sent; after others a transaction may be on its way.
const NOTHING_SENT = new Set([4001, 4100, 4200, -32002, -32601, -32602]);

export class WalletError extends Error {
  constructor(kind, cause) { super(kind, { cause }); this.kind = kind; }
}
const codeOf = (e) => e?.code ?? e?.data?.originalError?.code ?? e?.cause?.code;

// What went wrong: the kind of words for it, its code, and whether it is certain that nothing was sent.
export function problemOf(e) {
  if (e instanceof WalletError) return { kind: e.kind, code: '', unsent: true };
  const code = codeOf(e), said = String(e?.message ?? e);
  const is = (kind, unsent = true) => ({ kind, code: code ?? '', unsent: unsent || NOTHING_SENT.has(code) });
  if (code === 4001 || code === 'ACTION_REJECTED' || /user (has )?(reject|den|declin|cancel)/i.test(said)) return is('rejected');
  if (code === -32002 || /already pending/i.test(said)) return is('busy');
  if (code === 4100) return is('locked');
  if (code === 4900 || code === 4901) return is('disconnected', false);
  if (/insufficient|exceeds (the )?balance|debit an account|no record of a prior credit/i.test(said)) return is('insufficient');
  return is('wallet', false);
}

const found = new Map();
let changed = () => {}, unnamed = '';

export const el = (tag, props, ...inside) => {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...inside);
  return made;
};
// A button for each wallet, by name.
export const buttons = (choose) => [...found.values()].sort((a, b) => a.name.localeCompare(b.name)).map((one) => el(
  'button', { type: 'button', className: 'wallet', onclick: () => choose(one) },
  ...(one.icon ? [el('img', { src: one.icon, alt: '' })] : []), el('bdi', { textContent: one.name }),
));

// A wallet may announce anything: what cannot be read is left out.
function add(make) {
  try {
    const [key, wallet] = make();
    if (found.has(key) || found.size >= WALLETS_MAX) return;
    found.set(key, wallet);
    changed();
  } catch (e) {
    console.info(e);
  }
}
const named = ({ name, icon }) => ({
  name: (typeof name === 'string' && [...name.trim()].slice(0, NAME_MAX).join('')) || unnamed,
  icon: typeof icon === 'string' && icon.length <= ICON_MAX && ICON.test(icon) ? icon : '',
});

// -- EVM

function evm(info, provider) {
  if (typeof provider.request !== 'function') throw new TypeError('a wallet that cannot be asked');
  const ask = (method, params = []) => provider.request({ method, params });
  const at = async () => BigInt(await ask('eth_chainId'));
  const go = (chainId) => ask('wallet_switchEthereumChain', [{ chainId }]);
  const on = (accounts, chains) => [accounts].flat().filter((one) => /^0x[0-9a-f]{40}$/i.test(one))
    .flatMap((one) => chains.filter((chain) => chain.startsWith('eip155:')).map((chain) => `${chain}:${one}`));
  return {
    ...named(info),
    ask,
    connect: async (chains) => on(await ask('eth_requestAccounts'), chains),
    watch(chains, hear) {
      provider.on?.('accountsChanged', (accounts) => hear(on(accounts, chains)));
      provider.on?.('chainChanged', () => hear());
    },
    async ready(action, chain) {
      const wanted = BigInt(action.chain_id.split(':')[1]), chainId = `0x${wanted.toString(16)}`;
      if (await at() === wanted) return;
      try {
        await go(chainId);
      } catch (e) {
        const unknown = [UNKNOWN_CHAIN, INTERNAL].includes(codeOf(e)) || /unrecognized chain/i.test(e?.message);
        if (!unknown) throw e;
        if (!chain?.rpcUrls) throw new WalletError('chain_missing', e);
        try {
          await ask('wallet_addEthereumChain', [{ chainId, ...chain }]);
          if (await at() !== wanted) await go(chainId); // some add it and stay where they are
        } catch (refusal) {
          throw new WalletError('chain_missing', refusal);
        }
      }
      if (await at() !== wanted) throw new WalletError('wrong_network');
    },
    run: (action) => ask(action.method, action.params),
  };
}
addEventListener('eip6963:announceProvider', ({ detail }) => {
  add(() => [`evm:${detail.info.uuid}`, evm(detail.info, detail.provider)]);
});

// -- Solana

const toBytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const toText = (bytes) => btoa(String.fromCharCode(...bytes));
const clusterOf = (chain) => `solana:${CLUSTERS[chain.split(':')[1]] ?? 'localnet'}`;

function standard(wallet) {
  const { 'standard:connect': connect, 'solana:signTransaction': sign, 'standard:events': events } = wallet.features;
  const on = (accounts, chains) => chains.filter((chain) => chain.startsWith('solana:')).flatMap((chain) =>
    accounts.filter((one) => one.chains.includes(clusterOf(chain))).map((one) => `${chain}:${one.address}`));
  return {
    ...named(wallet),
    connect: async (chains) => on((await connect.connect()).accounts ?? wallet.accounts, chains),
    watch(chains, hear) { events?.on('change', ({ accounts }) => accounts && hear(on(accounts, chains))); },
    async ready() {},
    async run(action, address) {
      const account = wallet.accounts.find((one) => one.address === address);
      if (!account) throw new WalletError('locked');
      const transaction = toBytes(action.params[0].transaction);
      const [{ signedTransaction }] = await sign.signTransaction({ account, transaction, chain: clusterOf(action.chain_id) });
      return toText(signedTransaction);
    },
  };
}
const api = Object.freeze({
  register(...registered) {
    for (const one of registered) {
      if (one?.features?.['solana:signTransaction'] && one.features['standard:connect']) add(() => [`solana:${one.name}`, standard(one)]);
    }
    return () => {};
  },
});
addEventListener('wallet-standard:register-wallet', ({ detail }) => { if (typeof detail === 'function') detail(api); });

// Call `hear` whenever there are other wallets than before. `name` is for those that have none.
export function discover(name, hear) {
  unnamed = name;
  changed = hear;
  dispatchEvent(new Event('eip6963:requestProvider'));
  dispatchEvent(new CustomEvent('wallet-standard:app-ready', { detail: api }));
  setTimeout(() => {
    if (window.ethereum?.request && ![...found.keys()].some((key) => key.startsWith('evm:'))) {
      add(() => ['evm:legacy', evm({}, window.ethereum)]);
    }
  }, LEGACY_AFTER_MS);
}
