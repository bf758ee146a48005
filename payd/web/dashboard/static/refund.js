// A refund from a wallet of this browser. That a wallet was asked stays here over reloads and for other tabs, so that
// nothing is sent twice unknowingly. The server checks the chain, whatever is said here.
import { isWhole, once } from './once.js';
import { WalletError, problemOf, talk } from './talk.js';
import { buttons, discover, el } from './wallets.js';

const part = document.getElementById('wallet');
const list = document.getElementById('wallets');
const said = document.getElementById('said');
const field = document.getElementById('tx');
const none = list.firstElementChild;
const { key, network, chain, to, value, data } = part.dataset;
const chainId = `eip155:${BigInt(chain)}`;
const { kept, keep, alone } = once(key);
const isHash = (text) => typeof text === 'string' && /^0x[0-9a-f]{64}$/i.test(text);
const SAYS = {
  rejected: 'You said no in the wallet.',
  busy: 'Your wallet is asking you something already. Finish that first.',
  locked: 'Your wallet is locked, or shares no account.',
  moved: 'Your wallet has another account now.',
  insufficient: 'Your wallet has not enough funds.',
  wrong_network: `Your wallet is not on ${network}.`,
  chain_missing: `Your wallet does not have ${network}.`,
  solana: `This wallet does not send on ${network}.`,
  offline: 'The server does not answer. Nothing was sent.',
  elsewhere: 'Another tab is asking a wallet.',
};
// Of what is kept, as text; for which of it the merchant has said to go on all the same.
const mark = () => JSON.stringify(kept());
let dismissed = 'null', busy = false;

// Somebody may have recorded it since this page was drawn, or be signed in no more: then the page says so.
async function stillOpen() {
  const answer = await fetch(location.pathname, { cache: 'no-store' }).catch((cause) => { throw new WalletError('offline', cause); });
  if (answer.ok && (await answer.text()).includes(`data-key="${key}"`)) return true;
  location.reload();
  return false;
}

async function ask(chosen) {
  if (!chosen.provider) throw new WalletError('solana');
  const wallet = talk(chosen);
  const [account] = await wallet.connect([chainId]);
  if (!account) throw new WalletError('locked');
  const from = account.slice(chainId.length + 1);
  const action = { chain_id: chainId, method: 'eth_sendTransaction', params: [{ from, to, value, data }] };
  await wallet.ready(action, null, from);
  if (!await stillOpen() || mark() !== dismissed) return; // another tab was faster
  const before = kept(), asking = Math.random();
  keep({ results: before?.results ?? [], of: 1, asking }); // whatever happens to this page now, the wallet may send
  try {
    const hash = await wallet.run(action);
    if (!isHash(hash)) throw new Error('no transaction id');
    keep({ results: [hash], of: 1 });
    field.value = hash;
    history.replaceState(null, '', `?tx=${hash}`); // where nothing is kept, a page that is loaded again knows it by this
  } catch (e) {
    // What was unclear before is so still.
    if (kept()?.asking === asking && problemOf(e).unsent) keep(before);
    throw e;
  }
}

async function send(chosen) {
  if (busy) return;
  busy = true;
  said.textContent = 'Look at your wallet.';
  let words = '';
  try {
    await alone(() => ask(chosen));
  } catch (e) {
    console.info(e);
    if (!kept()?.asking || problemOf(e).unsent) words = SAYS[problemOf(e).kind] ?? 'Your wallet reported a problem. Nothing was sent.';
  }
  busy = false;
  dismissed = 'null';
  arrange();
  said.textContent = words;
  document.getElementById('first')?.focus();
}

// What was asked for already, and a way on that nobody takes by mistake.
function warning(what) {
  const [title, body, label] = what.asking
    ? ['Look into your wallet first', 'It was asked for this refund, and did not say whether it sent it. If it did, record its transaction id below.', 'It sent nothing: choose a wallet']
    : ['Your wallet sent it', 'Once the chain shows it, press Record refund. Send it again only if it failed.', 'It failed: choose a wallet'];
  const onclick = () => {
    dismissed = mark();
    said.textContent = '';
    arrange();
    list.querySelector('button')?.focus();
  };
  return el('div', { className: 'note wait' }, el('p', { id: 'first', tabIndex: -1 }, el('strong', { textContent: title })),
    el('p', { textContent: body }), el('button', { type: 'button', className: 'plain', textContent: label, onclick }));
}

function arrange() {
  if (busy) return;
  const what = kept();
  if (isHash(what?.results[0]) && !field.value) [field.value] = what.results;
  if (what && mark() !== dismissed) return list.replaceChildren(warning(what));
  const found = buttons(send);
  list.replaceChildren(...(found.length ? found : [none]));
}

// Where nothing is kept, the address knows the hash: leaving to record it needs no question.
field.form.addEventListener('submit', () => {
  try {
    if (localStorage.getItem(key)) return;
  } catch { /* nothing is kept */ }
  if (isWhole(kept())) keep(null);
});
addEventListener('storage', arrange);
discover('Wallet', arrange);
arrange();
