// A refund from a wallet of this browser. Wallets of EVM chains send it; those of Solana sign it, and the server brings it
// to the chain. What a wallet was asked for or gave stays here over reloads and for other tabs, so that nothing is sent
// twice unknowingly. The server checks the chain, whatever is said here.
import { short } from './choices.js';
import { isWhole, once } from './once.js';
import { WalletError, problemOf, talk } from './talk.js';
import { buttons, discover, el } from './wallets.js';

const PATIENCE_MS = 30_000; // for an answer of the server, which asks the chain
const AGAIN_MS = 1_500; // between two times that a signed refund is brought

const part = document.getElementById('wallet');
const list = document.getElementById('wallets');
const said = document.getElementById('said');
const field = document.getElementById('tx');
const none = list.firstElementChild;
const { key, network, chain, paid, to, value, data } = part.dataset;
const sends = chain.startsWith('eip155:');
const { kept, keep, alone } = once(key);
const isHash = (text) => typeof text === 'string' && /^0x[0-9a-f]{64}$/i.test(text);
const isPaid = (address) => (sends ? address.toLowerCase() === paid.toLowerCase() : address === paid);
const SAYS = {
  rejected: 'You said no in the wallet.',
  busy: 'Your wallet is asking you something already. Finish that first.',
  locked: 'Your wallet is locked, or shares no account.',
  moved: 'Your wallet has another account now.',
  insufficient: 'Your wallet has not enough funds.',
  wrong_network: `Your wallet is not on ${network}.`,
  chain_missing: `Your wallet does not have ${network}.`,
  foreign: `This wallet does not send on ${network}.`,
  offline: 'The server does not answer. Nothing was sent.',
  elsewhere: 'Another tab is asking a wallet.',
};
const ENDS = {
  landed: 'The chain shows it.',
  failed: 'The chain refused it: nothing was paid back. Look whether your account has enough, and choose a wallet again.',
  nowhere: 'It did not come to the chain in time, and cannot any more: nothing was paid back. Choose a wallet again.',
};
// Of what is kept, as text; for which of it the merchant has said to go on all the same.
const mark = () => JSON.stringify(kept());
let dismissed = 'null', busy = false, bringing = false;

// As a link is followed: a form that was sent is not sent again.
const anew = () => location.assign(location.pathname);

// Somebody may have recorded it since this page was drawn, or be signed in no more: then the page says so.
async function stillOpen() {
  const answer = await fetch(location.pathname, { cache: 'no-store' }).catch((cause) => { throw new WalletError('offline', cause); });
  if (answer.ok && (await answer.text()).includes(`data-key="${key}"`)) return true;
  anew();
  return false;
}

// What the server says to what it is told; a refusal has its words.
async function post(what, fields) {
  const body = new URLSearchParams({ ...fields, form_token: field.form.elements.form_token.value });
  const answer = await fetch(`${location.pathname}/${what}`, {
    method: 'POST', cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS), body, headers: { Accept: 'application/json' },
  }).catch((cause) => { throw new WalletError('offline', cause); });
  const answered = await answer.json().catch(() => null);
  if (answer.ok && answered && !answer.redirected) return answered;
  if (answer.redirected || [403, 404, 409].includes(answer.status)) anew();
  const kind = answer.status === 400 || answer.status === 422 ? 'refused' : 'offline';
  throw Object.assign(new WalletError(kind), { said: answered?.message });
}

async function ask(chosen) {
  if (Boolean(chosen.provider) !== sends) throw new WalletError('foreign');
  const wallet = talk(chosen);
  const accounts = (await wallet.connect([chain])).map((one) => one.slice(chain.length + 1));
  const from = accounts.find(isPaid) ?? accounts[0];
  if (!from) throw new WalletError('locked');
  if (paid && !isPaid(from)) {
    said.textContent = `Look at your wallet. It pays from ${short(from)}, which is not the account that was paid, ${short(paid)}.`;
  }
  await (sends ? askToSend : askToSign)(wallet, from);
}

async function askToSend(wallet, from) {
  const action = { chain_id: chain, method: 'eth_sendTransaction', params: [{ from, to, value, data }] };
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

// A signature that the server never had moves nothing, whatever happens to this page while the wallet asks.
async function askToSign(wallet, from) {
  const { transaction, sealed } = await post('transaction', { account: from });
  if (mark() !== dismissed) return;
  const signed = await wallet.run({ chain_id: chain, params: [{ transaction }] }, from);
  if (mark() === dismissed) keep({ results: [signed], of: 1, sealed });
}

// As often as it takes until the chain shows it, or it cannot come there any more.
async function bring() {
  if (bringing) return;
  bringing = true;
  for (let what = kept(); what?.sealed && !what.landed; what = kept()) {
    await brought(what);
    await new Promise((done) => { setTimeout(done, AGAIN_MS); });
  }
  bringing = false;
}

async function brought(what) {
  let now = what, words = '';
  try {
    const { txId, state } = await post('send', { signed: what.results[0], sealed: what.sealed });
    now = { sent: { ...what, tx: txId }, landed: { ...what, tx: txId, landed: true } }[state] ?? null;
    words = ENDS[state] ?? '';
  } catch (e) {
    console.info(e);
    words = e.said ?? 'The server does not answer. It is told again as soon as it does.';
    if (e.kind === 'refused' && !what.tx) now = null; // it was never brought
  }
  if (kept()?.results[0] !== what.results[0]) return; // another tab has gone on
  if (JSON.stringify(now) !== mark()) {
    const inside = list.contains(document.activeElement);
    keep(now);
    if (!now && field.value === what.tx) field.value = '';
    arrange();
    if (inside) (document.getElementById('first') ?? list.querySelector('button'))?.focus();
  }
  if (said.textContent !== words) said.textContent = words;
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
    if (!kept()?.asking || problemOf(e).unsent) words = e?.said ?? SAYS[problemOf(e).kind] ?? 'Your wallet reported a problem. Nothing was sent.';
  }
  busy = false;
  dismissed = 'null';
  arrange();
  said.textContent = words;
  document.getElementById('first')?.focus();
}

// What the merchant is told of what was asked for already, and whether there is a way on all the same.
function telling(what) {
  if (what.landed) return ['The chain shows it', 'Press Record refund.'];
  if (what.sealed) {
    return ['Your wallet signed it', 'It is brought to the chain now. Leave this page open until the chain shows it. If it does not get there within some two minutes, you can choose a wallet again.'];
  }
  return what.asking
    ? ['Look into your wallet first', 'It was asked for this refund, and did not say whether it sent it. If it did, record its transaction id below.', 'It sent nothing: choose a wallet']
    : ['Your wallet sent it', 'Once the chain shows it, press Record refund. Send it again only if it failed.', 'It failed: choose a wallet'];
}

// A way on is one that nobody takes by mistake.
function warning(what) {
  const [title, body, label] = telling(what);
  const onclick = () => {
    dismissed = mark();
    said.textContent = '';
    arrange();
    list.querySelector('button')?.focus();
  };
  return el('div', { className: 'note wait' }, el('p', { id: 'first', tabIndex: -1 }, el('strong', { textContent: title })),
    el('p', { textContent: body }), ...(label ? [el('button', { type: 'button', className: 'plain', textContent: label, onclick })] : []));
}

function arrange() {
  if (busy) return;
  const what = kept(), id = what?.sealed ? what.tx : what?.results.find(isHash);
  if (id && !field.value) field.value = id;
  if (what?.sealed) bring();
  if (what && mark() !== dismissed) return list.replaceChildren(warning(what));
  const found = buttons(send);
  list.replaceChildren(...(found.length ? found : [none]));
}

// Where nothing is kept, the address or the form knows the id: leaving to record it needs no question.
field.form.addEventListener('submit', () => {
  try {
    if (localStorage.getItem(key)) return;
  } catch { /* nothing is kept */ }
  if (isWhole(kept())) keep(null);
});
addEventListener('storage', arrange);
discover('Wallet', arrange);
arrange();
