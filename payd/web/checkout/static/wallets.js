// The wallets of this browser: those that announce themselves by EIP-6963 or the Wallet Standard, and the oldest kind.
// Only what they are; talk.js comes when one is chosen.
const WALLETS_MAX = 20, NAME_MAX = 40, ICON_MAX = 100_000, ID_MAX = 100; // whatever a wallet says, it does not fill the page
const LEGACY_AFTER_MS = 400; // for those that announce nothing
const ICON = /^data:image\/(png|webp|gif|jpeg|svg\+xml)[;,]/i;
const found = new Map();
const LEGACY = 'evm:legacy';
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
    const made = make();
    if (!made) return;
    const [key, wallet] = made;
    if (found.has(key) || found.size >= WALLETS_MAX) return;
    if (key.startsWith('evm:')) found.delete(LEGACY); // there is one that says who it is
    found.set(key, wallet);
    changed();
  } catch (e) {
    console.info(e);
  }
}
const named = ({ name, icon }) => ({ // without characters that nobody sees: some turn the text around them
  name: (typeof name === 'string' && [...name.slice(0, ID_MAX).replace(/\p{C}/gu, '').trim()].slice(0, NAME_MAX).join('')) || unnamed,
  icon: typeof icon === 'string' && icon.length <= ICON_MAX && ICON.test(icon) ? icon : '',
});

const text = (value) => String(value).slice(0, ID_MAX);
function evm(id, info, provider) {
  if (typeof provider.request !== 'function') throw new TypeError('a wallet that cannot be asked');
  return [`evm:${id}`, { ...named(info), provider }];
}
addEventListener('eip6963:announceProvider', ({ detail }) => add(() => evm(text(detail.info.uuid), detail.info, detail.provider)));
// Those that announce nothing, once they are there.
const legacy = () => add(() => {
  const known = [...found.keys()].some((key) => key.startsWith('evm:'));
  return !known && window.ethereum ? evm('legacy', {}, window.ethereum) : null;
});

const api = Object.freeze({
  register(...registered) {
    for (const one of registered) {
      add(() => one?.features?.['solana:signTransaction'] && one.features['standard:connect']
        && [`solana:${text(one.name)}`, { ...named(one), wallet: one }]);
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
  addEventListener('ethereum#initialized', legacy);
  setTimeout(legacy, LEGACY_AFTER_MS);
}
