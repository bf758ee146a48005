// Follows a payment: the server draws every status, this fetches the newest drawing when it hears of one.
import { buttons, discover } from './wallets.js';

const RETRY_FIRST_MS = 500, RETRY_LAST_MS = 30_000; // between two websockets, with jitter
const POLL_MS = 2_000; // while there is no websocket and the server names no other time
const QUIET_MS = 60_000; // with one: a network that changed may have left it half open
const OVER_MS = 5_000; // with one, once the time is over
const JUMP_MS = 2_000; // of the machine's clock: it slept, or somebody set it
const PATIENCE_MS = 10_000; // for an answer
const SPOKEN_S = [300, 60, 0];

const $ = (id) => document.getElementById(id);
const { root, id } = $('checkout').dataset;
const words = JSON.parse($('words').textContent);
const page = `${root}/pay/${id}`;

const shown = () => $('status').dataset;
let newest = Number(shown().version); // heard of; what is shown may still be behind
let expires = Number(shown().expires);
// The server's clock counts; the buyer's can be wrong, and be set while the page is open.
let skew = Number(shown().now) - performance.now();
const now = () => performance.now() + skew;

const say = (text) => { $('live').textContent = text; };
// A value that may run the other way than the text around it is isolated, as the server does.
const turns = (text) => document.dir === 'rtl' || /[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(text);
const isolated = (text) => (text && turns(text) ? `\u2068${text}\u2069` : text);
const fill = (text, values) => text.replace(/{(\w+)}/g, (_, name) => isolated(values[name] ?? ''));
function warn(kind, values = {}) {
  const box = $('alert'), text = ` ${fill(words[`${kind}.body`], values)}`;
  if (box.dataset.kind === kind && !box.hidden && box.lastChild.data === text) return;
  const strong = document.createElement('strong');
  strong.textContent = fill(words[kind], values);
  box.replaceChildren(strong, text);
  box.dataset.kind = kind;
  box.hidden = false;
  if (kind !== 'offline') say(''); // what was said before is no longer so
}
function calm(kind) {
  if ($('alert').dataset.kind === kind) $('alert').hidden = true;
}

async function load(url, options) {
  const answer = await fetch(url, {
    headers: { Accept: 'text/html' }, cache: 'no-store', signal: AbortSignal.timeout?.(PATIENCE_MS), ...options,
  });
  if (!answer.ok) throw Object.assign(new Error(`${answer.status}`), { status: answer.status });
  return answer;
}

// -- what is shown

function show(html) {
  const fresh = new DOMParser().parseFromString(html, 'text/html');
  const next = fresh.getElementById('status');
  // An older version never takes the place of a newer one, however late it comes.
  if (!next || Number(next.dataset.version) <= Number(shown().version)) return renew(fresh);
  const moved = next.dataset.status !== shown().status;
  newest = Math.max(newest, Number(next.dataset.version));
  swap($('status'), next);
  document.title = fresh.title;
  calm('refused');
  if (moved) {
    say($('heading').textContent);
    $('heading').focus();
  }
  arrange();
}

// What stands there keeps the focus, if it is still there.
function swap(old, next) {
  const { id: held } = document.activeElement;
  old.replaceWith(document.adoptNode(next));
  if (held) $(held)?.focus();
}

// A price that moves, or one more block: the same version with another code or count.
function renew(fresh) {
  const next = fresh.getElementById('way'), old = $('way');
  const same = fresh.getElementById('status')?.dataset.version === shown().version;
  if (!same || !old || !next?.dataset.renew) return;
  if (old.textContent === next.textContent) old.dataset.renew = next.dataset.renew;
  else swap(old, next);
}

let loading = false;
async function refresh() {
  if (loading) return;
  loading = true;
  try {
    show(await (await load(page + location.search)).text());
    calm('offline');
  } catch {
    warn('offline');
  } finally {
    loading = false;
  }
  schedule();
}

function heard(snapshot) {
  calm('offline');
  expires = snapshot.expiresAt * 1000;
  skew = snapshot.serverTime - performance.now();
  pollMs = snapshot.pollInMs ?? POLL_MS;
  newest = Math.max(newest, snapshot.version);
  if (newest > Number(shown().version)) refresh();
}

// -- hearing: a websocket, and polls while there is none

const done = () => shown().final === 'true' && Number(shown().version) >= newest;
let socket, told = false, failures = 0, misses = 0, pollMs = POLL_MS, timer, due = Infinity;

const waitFor = (first, times) => Math.min(RETRY_LAST_MS, first * 2 ** times) * (0.5 + Math.random() / 2);

function connect() {
  told = false;
  if (done()) return;
  const url = new URL(`${root}/v1/payments/${id}/feed`, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  try {
    socket = new WebSocket(url);
  } catch {
    return; // where there is none, polls do
  }
  socket.onmessage = (message) => { // only now it is known to work
    [told, failures] = [true, 0];
    unschedule();
    heard(JSON.parse(message.data));
    schedule();
  };
  socket.onclose = () => {
    told = false;
    setTimeout(connect, waitFor(RETRY_FIRST_MS, failures++));
    schedule();
  };
}

function unschedule() {
  clearTimeout(timer);
  due = Infinity;
}

// A poll that comes earlier stays: a websocket that keeps failing must not put it off.
function schedule() {
  const well = told && newest <= Number(shown().version);
  const at = Date.now() + (well ? (before ? QUIET_MS : OVER_MS) : misses ? waitFor(pollMs, misses) : pollMs);
  if (done() || at >= due) return;
  unschedule();
  due = at;
  timer = setTimeout(poll, at - Date.now());
}

async function poll() {
  unschedule();
  if (done()) return;
  try {
    const snapshot = await (await load(`${page}/status`, { headers: { Accept: 'application/json' } })).json();
    if (!('version' in snapshot)) throw snapshot; // some proxy's
    misses = 0;
    if (told && snapshot.version > newest) { // of which the websocket should have told: it is half open
      socket.onclose = null;
      socket.close();
      connect();
    }
    heard(snapshot);
  } catch {
    misses++;
    warn('offline');
  }
  schedule();
}

function wake() {
  misses = 0;
  poll();
}
addEventListener('online', wake);
addEventListener('offline', () => done() || warn('offline'));
addEventListener('visibilitychange', () => document.hidden || wake());

// -- the time left, by the server's clock; only the server says that it is over

let before = Infinity, drift = Date.now() - performance.now();
function tick() {
  const way = $('way')?.dataset, apart = Date.now() - performance.now();
  if (Math.abs(apart - drift) > JUMP_MS) wake();
  drift = apart;
  if (way?.renew && now() >= way.renew) {
    way.renew = now() + PATIENCE_MS;
    refresh();
  }
  const out = $('left');
  if (!out) return void (before = Infinity);
  const left = Math.max(0, Math.floor((expires - now()) / 1000));
  const [h, m, s] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
  const two = (n) => String(n).padStart(2, '0');
  out.textContent = !left ? words.checking : h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  $('status').toggleAttribute('data-over', !left);
  if (!left || !before) for (const one of document.querySelectorAll('#pay-now, .wallet')) one.disabled = !left;
  for (const at of SPOKEN_S) if (before !== Infinity && before > at && left <= at) say(words[`left.${at}`]);
  const ends = !left && before;
  before = left;
  if (ends) poll();
}

// -- what there is to do in what the server has drawn

function arrange() {
  drawn();
  if (shown().final !== 'true') return;
  // Who comes back from the shop by the browser's button came to look, and who has sent money that did not pay
  // needs what is said here. A frame is told of, and never leaves alone.
  const looks = performance.getEntriesByType('navigation')[0]?.type === 'back_forward';
  const takes = self === top && !looks && !kept() && !$('kept');
  import('./ended.js').then(({ ended }) => ended(words, takes), () => {}); // the link is there all the same
}

// -- paying with a wallet of this browser; the module that does it comes when it is needed

const key = `payd:${id}`; // where it keeps what a wallet handed out
let payer, attempts = 0, coming;
const loadPayer = () => coming ??= loadOnce().finally(() => { coming = null; });
async function loadOnce() {
  const said = load($('checkout').dataset.words, { headers: {}, cache: 'default' }).then((answer) => answer.json());
  const { payHere } = await import(`./pay.js${attempts++ ? `?${attempts}` : ''}`); // one that failed is not loaded again
  Object.assign(words, await said);
  payer ??= payHere({ root, id, key, words, fill, say, warn, calm, heard, refresh, now });
  calm('offline');
  arrange();
}

function kept() {
  try {
    return localStorage.getItem(key);
  } catch { /* no storage: nothing is kept */ }
}

function drawn() {
  if (payer) return payer.arrange();
  const box = $('pay'), sent = kept();
  if (box) {
    box.replaceChildren(...(sent ? [] : buttons(begin)));
    box.hidden = !box.childElementCount;
    shown().pay = sent ? 'sent' : 'choose'; // who has paid is not told to, while it is loaded what to say
  }
  if (sent) loadPayer().catch(() => { warn('offline'); setTimeout(drawn, POLL_MS); });
}

let wanted; // chosen while that is loaded
async function begin(wallet) {
  wanted = wallet;
  try {
    await loadPayer();
  } catch {
    return warn('offline');
  }
  if (wanted) payer.choose(wanted);
  wanted = null;
}

addEventListener('storage', (event) => { if (event.key === key) drawn(); });

// -- forms and copying

addEventListener('submit', async (event) => {
  event.preventDefault();
  const { target: form, submitter } = event;
  const body = new URLSearchParams(new FormData(form));
  if (submitter?.name) body.set(submitter.name, submitter.value);
  const buttons = [...form.querySelectorAll('button:enabled')];
  for (const button of buttons) button.disabled = true;
  try {
    show(await (await load(form.action, { method: 'POST', body })).text());
  } catch (error) {
    warn('refused'); // without an answer, too: nobody sends it again
    if (error.status) poll();
  }
  for (const button of buttons) button.disabled = false;
});

addEventListener('click', async (event) => {
  if (event.target.closest?.('[data-print]')) print();
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  const source = $(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
  } catch { // no permission, or no clipboard: only https and loopback have one
    getSelection().selectAllChildren(source);
    if (!document.execCommand('copy')) return;
  }
  const label = button.textContent;
  if (label === words.copied) return;
  button.textContent = words.copied;
  say(words.copied);
  setTimeout(() => { button.textContent = label; }, 1500);
});

discover(words.unnamed, drawn);
setInterval(tick, 500);
tick();
arrange();
connect();
schedule();
