// What pages do with a script beside what they do without: local times, copying, live parts, a question before harm.

const TICK_MS = 3000;
const TWICE_MS = 5000; // a second click; who waits for longer may try again

const clock = { zone: -new Date().getTimezoneOffset(), place: Intl.DateTimeFormat().resolvedOptions().timeZone };
for (const [name, value] of Object.entries(clock)) {
  document.cookie = `payd-${name}=${value}; Path=/; Max-Age=31536000; SameSite=Lax${location.protocol === 'https:' ? '; Secure' : ''}`;
}

function localTimes(within) {
  for (const one of within.querySelectorAll('time[data-local]')) {
    const at = new Date(one.dateTime);
    if (isNaN(at)) continue;
    one.title = one.textContent;
    one.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
    one.removeAttribute('data-local');
  }
}

localTimes(document);
document.addEventListener('htmx:oobAfterSwap', () => localTimes(document));
document.addEventListener('htmx:afterSettle', () => localTimes(document));

// What a script kept until it was recorded.
for (const one of document.querySelectorAll('[data-forget]')) {
  try {
    localStorage.removeItem(one.dataset.forget);
  } catch { /* nothing is kept */ }
}

document.addEventListener('click', async (event) => {
  const copy = event.target.closest('[data-copy]');
  if (copy) {
    const said = copy.textContent;
    try {
      await navigator.clipboard.writeText(copy.dataset.copy);
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'Select it and copy';
    }
    setTimeout(() => { copy.textContent = said; }, 2000);
  }
  const pause = event.target.closest('[data-pause]');
  if (pause) {
    const paused = pause.getAttribute('aria-pressed') !== 'true';
    pause.setAttribute('aria-pressed', paused);
    pause.textContent = paused ? 'Go on with live updates' : 'Pause live updates';
  }
});

const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

// The browser's own function takes bytes where JSON has text, and gives bytes.
async function passkeyAnswer(kind, options) {
  options.challenge = bytes(options.challenge);
  for (const one of [...(options.allowCredentials ?? []), ...(options.excludeCredentials ?? [])]) one.id = bytes(one.id);
  if (options.user) options.user.id = bytes(options.user.id);
  const made = await navigator.credentials[kind]({ publicKey: options });
  const response = {};
  for (const name of ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']) {
    if (made.response[name]) response[name] = base64(made.response[name]);
  }
  return JSON.stringify({ id: made.id, rawId: base64(made.rawId), type: made.type, response, clientExtensionResults: {} });
}

document.addEventListener('submit', async (event) => {
  const part = event.target.closest('[data-passkey]');
  if (!part || event.target.dataset.answered) return;
  event.preventDefault();
  const said = part.querySelector('[role=alert]');
  said.hidden = true;
  try {
    const answer = await passkeyAnswer(part.dataset.passkey, JSON.parse(part.querySelector('script').textContent));
    const field = document.createElement('input');
    Object.assign(field, { type: 'hidden', name: part.dataset.field ?? 'passkey', value: answer });
    event.target.append(field);
    event.target.dataset.answered = 'yes';
    event.target.requestSubmit();
  } catch (error) {
    console.info('passkey', error);
    said.textContent = 'No passkey was used. Try again, or go another way.';
    said.hidden = false;
  }
});

document.addEventListener('submit', (event) => {
  const question = event.target.dataset?.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// A form on its way is not sent again: only the last answer would be seen, and it may not hold what the first one showed.
const sent = new WeakMap();
document.addEventListener('submit', (event) => {
  if (event.defaultPrevented || event.target.method !== 'post') return;
  if (event.timeStamp - sent.get(event.target) < TWICE_MS) event.preventDefault();
  else sent.set(event.target, event.timeStamp);
});

// An open menu closes with Escape, and when something else is pressed.
document.addEventListener('keydown', (event) => {
  const open = event.key === 'Escape' && document.querySelector('.menu[open]');
  if (open) {
    open.open = false;
    open.querySelector('summary').focus();
  }
});
document.addEventListener('click', (event) => {
  for (const open of document.querySelectorAll('.menu[open]')) if (!open.contains(event.target)) open.open = false;
});

// What keeps itself up to date says when it does not: what is shown may not be so any more.
function stale(event) {
  const live = event.target.closest?.('[data-live]');
  if (!live || live.querySelector('[role=alert]')) return;
  const said = document.createElement('span');
  said.setAttribute('role', 'alert');
  said.textContent = 'No fresh answer from the server: what is shown may have changed.';
  live.append(' ', said);
}
for (const name of ['htmx:sendError', 'htmx:responseError', 'htmx:timeout']) document.addEventListener(name, stale);
document.addEventListener('htmx:afterRequest', (event) => {
  if (event.detail.successful) event.target.closest?.('[data-live]')?.querySelector('[role=alert]')?.remove();
});

setInterval(() => {
  if (document.hidden) return;
  for (const one of document.querySelectorAll('[data-live]')) {
    if (!one.querySelector('[data-pause][aria-pressed=true]')) one.dispatchEvent(new CustomEvent('tick'));
  }
}, TICK_MS);
