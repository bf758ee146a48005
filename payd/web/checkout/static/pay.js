// Pays with a wallet of this browser. What a wallet handed out is kept here until the server has it, so that neither a
// reload, a second tab, a dead server nor a lost network makes anyone pay twice.
import { WalletError, buttons, el, problemOf } from './wallets.js';

const VERSION = '2026-02-18'; // of the API: actions are flat
const RETRY_FIRST_MS = 1_000, RETRY_LAST_MS = 15_000; // between two attempts to tell the server
const UNSEEN_MS = 60_000; // then the buyer is told that no node shows the transaction
const ACCOUNTS_MAX = 100; // that the server takes at once
const PATIENCE_MS = 30_000; // for an answer; the server takes 20 s for a check at most

const $ = (id) => document.getElementById(id);
const button = (text, onclick, className = '') => el('button', { type: 'button', textContent: text, onclick, className });
const isSending = (action) => action.method === 'eth_sendTransaction';
const isHash = (text) => /^0x[0-9a-f]{64}$/i.test(text);
const addressOf = (option) => option.account.split(':')[2];
const short = (text) => text.length > 16 ? `${text.slice(0, 6)}…${text.slice(-4)}` : text;

// As the server writes amounts: `1,250.00 USDC`, `0.004125 ETH`.
function money({ value, display: { decimals, assetSymbol } }) {
  const digits = value.padStart(decimals + 1, '0'), end = digits.length - decimals;
  const rest = digits.slice(end).replace(/0+$/, '').padEnd(Math.min(2, decimals), '0');
  return `${digits.slice(0, end).replace(/\B(?=(\d{3})+$)/g, ',')}${rest && `.${rest}`} ${assetSymbol}`;
}

// `arrange` draws what there is to do into what the server has drawn; `choose` begins with a wallet.
export function payHere({ root, id, key, words, fill, say, warn, calm, refresh, now }) {
  let memory = null; // where there is no storage
  let view = 'choose', wallet, accounts = [], options = [], option, step = '', turn = 0, running = false, telling = false;
  let wake = () => {}, timer;

  // -- what the wallet handed out: { option, results, of, sends, asking, told }

  function kept() {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? memory;
    } catch {
      return memory;
    }
  }
  function keep(what) {
    memory = what;
    try {
      if (what) localStorage.setItem(key, JSON.stringify(what));
      else localStorage.removeItem(key);
    } catch (e) {
      console.info(e);
    }
  }
  const isWhole = (what) => what?.results.length === what?.of;

  async function ask(what, body) {
    const answer = await fetch(`${root}/v1/gateway/payment/${id}/${what}`, {
      method: 'POST', cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS), body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json', 'App-Id': $('checkout').dataset.app, 'Client-Id': 'checkout', 'Service-Version': VERSION },
    }).catch((cause) => { throw Object.assign(new Error('offline', { cause }), { offline: true }); });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw Object.assign(new Error(said.code), { status: answer.status, refused: said.code ?? 'unknown' });
    return said;
  }

  // -- telling the server, until it has it

  async function tell() {
    if (telling) return;
    telling = true;
    for (let wait = RETRY_FIRST_MS; ; wait = Math.min(wait * 2, RETRY_LAST_MS)) {
      const what = kept();
      if (!what || !isWhole(what) || await told(what)) break;
      await new Promise((done) => { wake = done; setTimeout(done, wait); });
    }
    telling = false;
  }

  // Whether there is nothing more to tell.
  async function told(what) {
    let status;
    try {
      const results = what.results.map((one) => ({ type: 'walletRpc', data: [one] }));
      ({ status } = await ask('confirm', { optionId: what.option, results }));
      calm('offline');
    } catch (e) {
      if (e.offline) warn('offline');
      if (e.offline || e.status >= 500 || e.status === 429) return false;
      return refused(what, e);
    }
    if (status === 'requires_action') { // no node shows it yet; the server looks for it by itself
      if (!what.told) keep({ ...what, told: now() });
      arrange();
      return false;
    }
    settle(what);
    return true;
  }

  function settle(what) {
    keep(what.sends ? { ...what, told: now() } : null);
    refresh();
  }

  function refused(what, e) {
    console.info(e);
    const over = [404, 410].includes(e.status) || e.refused === 'invalid_state';
    if (over || what.sends) {
      settle({ ...what, doubted: !over });
      return true;
    }
    keep(null); // a signature that the server does not take moves nothing
    if (['quote_expired', 'route_expired'].includes(e.refused) && wallet) renew().catch(fail);
    else {
      draw(wallet ? 'options' : 'choose', true);
      warn('unsigned');
    }
    return true;
  }

  // -- from the wallet to its options

  async function choose(chosen) {
    const mine = ++turn;
    wallet = chosen;
    hush();
    draw('connecting', true);
    say(fill(words.check, { wallet: wallet.name }));
    try {
      const chains = Object.keys(network());
      const connected = await wallet.connect(chains);
      if (mine !== turn) return;
      accounts = connected;
      if (!wallet.watched) wallet.watch(chains, follow(wallet));
      wallet.watched = true;
      await offer(mine);
    } catch (e) {
      if (mine !== turn) return;
      draw('choose', true);
      fail(e);
    }
  }

  const follow = (whose) => (changed) => {
    if (whose !== wallet || view !== 'options' || running) return;
    if (!changed) return hush(); // another network: it may be the right one now
    accounts = changed;
    if (accounts.length) offer(++turn).catch((e) => { draw('choose', true); fail(e); });
    else draw('choose', true);
  };

  // Some wallets know an account only as they write it; the server takes no address with a wrong checksum.
  async function offered(asked) {
    try {
      return (await ask('options', { accounts: asked })).options;
    } catch (e) {
      const lower = asked.map((one) => (one.startsWith('eip155:') ? one.toLowerCase() : one));
      if (e.refused !== 'invalid_params' || lower.every((one, place) => one === asked[place])) throw e;
      return (await ask('options', { accounts: lower })).options;
    }
  }

  async function offer(mine) {
    const fresh = accounts.length ? await offered(accounts.slice(0, ACCOUNTS_MAX)) : [];
    if (mine !== turn) return;
    if (!fresh) return void refresh();
    if (!fresh.length) throw new WalletError('no_options');
    const gas = (one) => Number(one.actions.some(isSending)); // who signs pays no fee
    options = fresh.sort((a, b) => gas(a) - gas(b));
    option = options.find((one) => one.id === option?.id) ?? options[0];
    draw('options', true);
  }

  // The options anew; whether the chosen one costs something else now, to which the buyer has to say yes.
  async function renew() {
    const before = option;
    await offer(turn);
    if (before.id === option.id && before.amount.value === option.amount.value) return false;
    warn('quote_expired', { old: money(before.amount), new: money(option.amount) });
    return true;
  }

  const network = () => JSON.parse($('pay').dataset.chains);
  const isOld = (one) => one.expiresAt !== null && now() >= one.expiresAt * 1000;

  // -- paying

  async function pay() {
    if (running) return;
    const before = kept();
    if (before && (isWhole(before) || before.asking)) return arrange(); // another tab was faster
    running = true;
    hush();
    try {
      if (isOld(option) && await renew()) return;
      const actions = await calls();
      const resumed = before?.option === option.id && before.of === actions.length;
      await act(actions, resumed ? before.results : []);
    } catch (e) {
      await stopped(e);
    } finally {
      running = false;
      arrange();
    }
  }

  // What the wallet is to do: a build action is asked for when it is needed, as it holds for a minute only.
  async function calls() {
    const found = [];
    step = '';
    draw('approve', true);
    for (const action of option.actions) {
      if (action.type === 'build') found.push(...(await ask('fetch', { optionId: option.id, data: action.data })).actions);
      else found.push(action);
    }
    return found.map((one) => ({ ...one, params: typeof one.params === 'string' ? JSON.parse(one.params) : one.params }));
  }

  async function act(actions, results) {
    const what = { option: option.id, results: [...results], of: actions.length, sends: actions.some(isSending) };
    for (const action of actions.slice(results.length)) {
      step = actions.length > 1 ? `${what.results.length + 1}/${actions.length}` : '';
      draw('approve', true);
      say($('paying')?.textContent ?? '');
      const result = rehearsed() ? await rehearse(action) : await askWallet(action, what);
      what.results.push(result);
      keep({ ...what, asking: false });
    }
  }

  async function askWallet(action, what) {
    await wallet.ready(action, network()[action.chain_id]);
    if (isSending(action)) keep({ ...what, asking: true }); // whatever happens to this page now, the wallet may send
    const result = await wallet.run(action, addressOf(option));
    if (isSending(action) && !isHash(result)) throw new Error('no transaction hash');
    return result;
  }

  // A test payment must move nothing: a wallet of EVM chains signs a text instead of what it would be asked for real.
  const rehearsed = () => $('checkout').dataset.rehearsal && wallet.ask;
  async function rehearse(action) {
    const text = fill(words.rehearsal, { id });
    const hex = [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    const signature = await wallet.ask('personal_sign', [`0x${hex}`, addressOf(option)]);
    return signature.padEnd(132, '0').slice(0, isSending(action) ? 66 : 132);
  }

  async function stopped(e) {
    const what = kept();
    if (e.refused === 'quote_expired' || e.refused === 'route_expired') {
      keep(null);
      running = false;
      await renew().catch(fail);
    } else if (['payment_expired', 'invalid_state'].includes(e.refused)) {
      refresh();
    } else {
      if (what?.asking && problemOf(e).unsent) keep(what.results.length ? { ...what, asking: false } : null);
      draw('options', true);
      fail(e);
    }
  }

  function fail(e) {
    console.info(e);
    if (e.offline || e.refused) return warn(e.offline ? 'offline' : 'refused');
    const { kind, code } = problemOf(e);
    warn(kind, { code: code && `(${code})`, amount: option && money(option.amount), network: option?.amount.display.networkName, list: $('pay')?.dataset.accepted, merchant: $('checkout').dataset.merchant });
  }
  const hush = () => calm($('alert').dataset.kind);

  // -- what is shown

  const title = (text) => el('h2', { id: 'paying', tabIndex: -1, textContent: text });
  const wheel = () => el('span', { className: 'spinner', ariaHidden: 'true' });
  const row = (name, ...value) => el('div', {}, el('dt', { textContent: name }), el('dd', {}, ...value));
  const isolated = (text) => el('bdi', { textContent: text });

  const views = {
    choose: () => buttons(choose),
    connecting: () => [
      wheel(), title(fill(words.check, { wallet: wallet.name })),
      button(words.stop, () => { turn++; hush(); draw('choose', true); }),
    ],
    options: () => [
      title(words.paying),
      el('dl', {},
        row(words.pays, options.length > 1 ? picker() : isolated(money(option.amount))),
        row(words.network, isolated(option.amount.display.networkName ?? option.account.split(':').slice(0, 2).join(':'))),
        row(words.fee, option.actions.some(isSending) ? words['fee.wallet'] : words['fee.none']),
        row(words.from, el('bdi', { className: 'mono', textContent: short(addressOf(option)), title: addressOf(option) }))),
      option.collectData // the shop asks for something first: nothing is signed or sent before it has it
        ? el('a', { className: 'button primary', href: option.collectData.url, target: '_blank', rel: 'noopener', textContent: words.collect })
        : Object.assign(button(fill(words.pay, { amount: money(option.amount), wallet: wallet.name }), pay, 'primary'), { id: 'pay-now' }),
      button(words.another, () => { turn++; hush(); draw('choose', true); }, 'plain'),
    ],
    approve: () => [wheel(), title(fill(step ? words['approve.step'] : words.approve, { wallet: wallet.name, step }))],
    sent: () => {
      const what = kept(), unseen = what.doubted || (what.told && now() - what.told >= UNSEEN_MS);
      const body = unseen ? words['unseen.body'] : what.told ? words['sent.looking'] : words['sent.body'];
      return [
        ...(unseen ? [] : [wheel()]), title(unseen ? words.unseen : words.sent), el('p', { textContent: body }),
        ...(what.sends ? [hashOf(what)] : []), ...(unseen && what.sends ? [...repair(what), again()] : []),
      ];
    },
    maybe: () => [title(words.maybe), el('p', { textContent: words['maybe.body'] }), again()],
  };

  const hashOf = (what) => el('p', { className: 'mono' }, isolated(what.results.at(-1)));
  const again = () => button(words.again, () => { keep(null); hush(); draw('choose', true); });

  function picker() {
    const made = el('select', { ariaLabel: words.pays, onchange: () => { option = options[made.selectedIndex]; hush(); draw('options'); $('pay').querySelector('select').focus(); } });
    for (const one of options) {
      const { networkName } = one.amount.display;
      made.add(new Option(`${money(one.amount)} · ${networkName ?? ''} · ${short(addressOf(one))}`, one.id, false, one === option));
    }
    return made;
  }

  // A wallet that replaces a transaction, as for a higher fee, gives it another id.
  function repair(what) {
    const input = el('input', { id: 'replaced', autocomplete: 'off', spellcheck: false });
    const send = button(words.replace, () => {
      const hash = input.value.trim();
      if (!isHash(hash)) return warn('no_hash');
      hush();
      keep({ ...what, results: [...what.results.slice(0, -1), hash], told: undefined, doubted: undefined });
      draw('sent', true);
      arrange();
      wake();
    });
    return [el('label', { htmlFor: 'replaced', textContent: words.replaced }), input, send];
  }

  function draw(next, moved) {
    const box = $('pay');
    if (!box) return;
    clearTimeout(timer);
    view = next;
    $('status').dataset.pay = view;
    box.replaceChildren(...views[view]());
    box.hidden = !box.childElementCount;
    if (moved) (view === 'choose' ? $('heading') : $('paying')).focus();
    if (view === 'options' && option.expiresAt !== null) {
      timer = setTimeout(() => { if (!running) renew().catch(fail); }, Math.max(0, option.expiresAt * 1000 - now()));
    }
    const left = view === 'sent' ? kept().told + UNSEEN_MS - now() : 0;
    if (left > 0) timer = setTimeout(arrange, left);
  }

  // Draws what there is to do now: after a status that the server drew, after what another tab has kept.
  function arrange() {
    const what = kept();
    if (isWhole(what) && what && !(what.told && !$('pay')) && !what.doubted) tell();
    if (!$('pay')) return note(what);
        if (what && isWhole(what)) {
      const same = view === 'sent' && $('paying');
      if (!same || $('replaced') === null) draw('sent', !same);
      if (!same) say(`${words.sent} ${words['sent.body']}`);
    } else if (what?.asking) draw('maybe', view !== 'maybe');
    else draw(['sent', 'maybe', 'approve'].includes(view) ? (wallet ? 'options' : 'choose') : view);
  }

  // A payment that ended unpaid: the buyer will need the id of what the wallet sent.
  function note(what) {
    if ($('status').dataset.status === 'succeeded') return keep(null);
    const ended = ['failed', 'expired', 'cancelled'].includes($('status').dataset.status);
    if (!ended || !what?.sends || !isWhole(what) || $('kept')) return;
    $('status').firstElementChild.append(el('p', { className: 'note', id: 'kept' }, `${words.kept} `, hashOf(what).firstChild));
  }

  addEventListener('online', () => wake());
  addEventListener('visibilitychange', () => { // back from the form
    if (!document.hidden && view === 'options' && option.collectData && !running) offer(++turn).catch(fail);
  });
  return { arrange: () => (running ? draw(view) : arrange()), choose };
}
