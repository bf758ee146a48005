// Follows a payment: the server draws every status, this fetches the newest drawing when it hears of one.
import { buttons, discover } from './wallets.js';

const RETRY_FIRST_MS = 500, RETRY_LAST_MS = 30_000; // between two websockets, with jitter
const POLL_MS = 2_000; // while there is no websocket and the server names no other time
const QUIET_MS = 60_000; // with one: a network that changed may have left it half open
const PATIENCE_MS = 10_000; // for an answer
const LEAVE_S = 5;
const SPOKEN_S = [300, 60, 0];

const $ = (id) => document.getElementById(id);
const { root, id } = $('checkout').dataset;
const words = JSON.parse($('words').textContent);
const page = `${root}/pay/${id}`;

const shown = () => $('status').dataset;
let newest = Number(shown().version); // heard of; what is shown may still be behind
let expires = Number(shown().expires);
let skew = Number(shown().now) - Date.now(); // the server's clock counts, not the buyer's

const say = (text) => { $('live').textContent = text; };
const fill = (text, values) => text.replace(/{(\w+)}/g, (_, name) => values[name] ?? '');
function warn(kind, values = {}) {
  const box = $('alert'), text = ` ${fill(words[`${kind}.body`], values)}`;
  if (box.dataset.kind === kind && !box.hidden && box.lastChild.data === text) return;
  const strong = document.createElement('strong');
  strong.textContent = fill(words[kind], values);
  box.replaceChildren(strong, text);
  box.dataset.kind = kind;
  box.hidden = false;
}
function calm(kind) {
  if ($('alert').dataset.kind === kind) $('alert').hidden = true;
}

async function load(url, options) {
  const answer = await fetch(url, {
    headers: { Accept: 'text/html' }, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS), ...options,
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
  $('status').replaceWith(document.adoptNode(next));
  document.title = fresh.title;
  calm('refused');
  if (moved) {
    say($('heading').textContent);
    $('heading').focus();
  }
  arrange();
}

// A price that moves: the same version with another code.
function renew(fresh) {
  const next = fresh.getElementById('way');
  const same = fresh.getElementById('status')?.dataset.version === shown().version;
  if (same && next?.dataset.renew) $('way')?.replaceWith(document.adoptNode(next));
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
  skew = snapshot.serverTime - Date.now();
  pollMs = snapshot.pollInMs ?? POLL_MS;
  newest = Math.max(newest, snapshot.version);
  if (newest > Number(shown().version)) refresh();
}

// -- hearing: a websocket, and polls while there is none

const done = () => shown().final === 'true' && Number(shown().version) >= newest;
let socket, failures = 0, pollMs = POLL_MS, timer, due = Infinity;

function connect() {
  if (done()) return;
  const url = new URL(`${root}/v1/payments/${id}/feed`, location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  socket = new WebSocket(url);
  socket.onopen = () => { failures = 0; unschedule(); schedule(); };
  socket.onmessage = (message) => heard(JSON.parse(message.data));
  socket.onclose = () => {
    const wait = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** failures++);
    setTimeout(connect, wait * (0.5 + Math.random() / 2));
    schedule();
  };
}

function unschedule() {
  clearTimeout(timer);
  due = Infinity;
}

// A poll that comes earlier stays: a websocket that keeps failing must not put it off.
function schedule() {
  const well = socket?.readyState === WebSocket.OPEN && newest <= Number(shown().version);
  const at = Date.now() + (well ? QUIET_MS : pollMs);
  if (done() || at >= due) return;
  unschedule();
  due = at;
  timer = setTimeout(poll, at - Date.now());
}

async function poll() {
  unschedule();
  if (done()) return;
  try {
    heard(await (await load(`${page}/status`, { headers: { Accept: 'application/json' } })).json());
  } catch {
    warn('offline');
  }
  schedule();
}

addEventListener('online', poll);
addEventListener('offline', () => done() || warn('offline'));
addEventListener('visibilitychange', () => document.hidden || poll());

// -- the time left, by the server's clock; only the server says that it is over

let before = Infinity;
function tick() {
  const way = $('way')?.dataset, now = Date.now() + skew;
  if (way?.renew && now >= way.renew) {
    way.renew = now + PATIENCE_MS;
    refresh();
  }
  const out = $('left');
  if (!out) return;
  const left = Math.max(0, Math.floor((expires - Date.now() - skew) / 1000));
  const [h, m, s] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
  const two = (n) => String(n).padStart(2, '0');
  out.textContent = !left ? words.checking : h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  if ($('pay-now')) $('pay-now').disabled = !left;
  for (const at of SPOKEN_S) if (before !== Infinity && before > at && left <= at) say(words[`left.${at}`]);
  if (!left && before) poll();
  before = left;
}

// -- leaving: after a while, unless the buyer would rather stay

function arrange() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    time.textContent = at.toLocaleString(document.documentElement.lang, { dateStyle: 'medium', timeStyle: 'short' });
  }
  drawn();
  // Who comes back from the shop by the browser's button came to look. A frame is told of, and never leaves alone.
  if (self === top && $('back') && performance.getEntriesByType('navigation')[0]?.type !== 'back_forward') leave();
}

function leave() {
  const box = $('leaving'), text = box.querySelector('span');
  let left = LEAVE_S;
  const step = () => {
    if (!left) return location.assign($('back').href);
    text.textContent = words.redirect.replace('{s}', left--);
    stop = setTimeout(step, 1000);
  };
  let stop;
  box.hidden = false;
  box.querySelector('button').onclick = () => {
    clearTimeout(stop);
    box.hidden = true;
    $('back').focus();
  };
  step();
}

// -- paying with a wallet of this browser; the module that does it comes when it is needed

const key = `payd:${id}`; // where it keeps what a wallet handed out
let payer, attempts = 0;
async function loadPayer() {
  const { payHere } = await import(`./pay.js${attempts++ ? `?${attempts}` : ''}`); // one that failed is not loaded again
  payer ??= payHere({ root, id, key, words, fill, say, warn, calm, refresh, now: () => Date.now() + skew });
  payer.arrange();
}

function drawn() {
  if (payer) return payer.arrange();
  let kept;
  try {
    kept = localStorage.getItem(key);
  } catch { /* no storage: nothing is kept */ }
  if (kept) return loadPayer().catch(() => { $('pay')?.replaceChildren(); setTimeout(drawn, POLL_MS); });
  $('pay')?.replaceChildren(...buttons(begin));
  if ($('pay')) $('pay').hidden = !$('pay').childElementCount;
}

async function begin(wallet) {
  try {
    await loadPayer();
  } catch {
    return warn('offline');
  }
  payer.choose(wallet);
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
    warn(error.status ? 'refused' : 'offline');
    poll();
  }
  for (const button of buttons) button.disabled = false;
});

addEventListener('click', async (event) => {
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
