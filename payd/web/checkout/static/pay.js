// Pays with a wallet of this browser. What a wallet handed out is kept until the server has it, so that nothing makes
// anyone pay twice.
import { accountOf, addressOf, choices, haveOf, isSending, isolated, money, networkOf } from './choices.js';
import { isWhole, once } from './once.js';
import { WalletError, problemOf, talk } from './talk.js';
import { buttons, el } from './wallets.js';

const VERSION = '2026-02-18'; // of the API: actions are flat
const RETRY_FIRST_MS = 1_000, RETRY_LAST_MS = 15_000; // between two attempts to tell the server
const UNSEEN_MS = 60_000; // then the buyer is told that no node shows the transaction
const SETTLED_MS = 250; // a wallet that says several things at once has then said them
const ACCOUNTS_MAX = 100; // that the server takes at once
const RESULT_MAX = 20_000; // characters: the signatures of smart wallets are long
const PATIENCE_MS = 30_000; // for an answer; the server takes 20 s for a check at most

const $ = (id) => document.getElementById(id);
const button = (text, onclick, more) => el('button', { type: 'button', textContent: text, onclick, ...more });
// An approval moves nothing by itself.
const moves = (action) => isSending(action) && !/^0x095ea7b3/i.test(action.params[0].data);
const isSignature = (text) => text.length <= RESULT_MAX && /^0x([0-9a-f]{2})+$/i.test(text);
const isHash = (text) => /^0x[0-9a-f]{64}$/i.test(text);

// `arrange` draws what there is to do into what the server has drawn; `choose` begins with a wallet.
export function payHere({ root, id, key, words, fill, say, warn, calm, heard, refresh, now }) {
  const { kept, keep, alone, letGo } = once(key);
  let view = 'choose', wallet, accounts = [], offered = accounts, options = [], funds = [], option, open = false;
  // Each thing that the buyer begins is a turn; what an older one still hears is not shown any more.
  let turn = 0, running = false, telling = false, step = '', wake = () => {}, renewing = {}, timer, soon;

  // After the end a wallet is asked for nothing any more.
  const isOpen = () => $('pay') && !$('status').hasAttribute('data-over');
  const over = () => Object.assign(new Error('over'), { refused: 'invalid_state' });
  const unasked = (what) => keep(what?.results.length ? { ...what, asking: false } : null);

  // What lacks `has`, or an error its code, some proxy said.
  async function call(path, has, body) {
    const lost = (cause) => { throw Object.assign(new Error('offline', { cause }), { offline: true }); };
    const answer = await fetch(root + path, {
      method: body ? 'POST' : 'GET', cache: 'no-store', signal: AbortSignal.timeout?.(PATIENCE_MS), body: body && JSON.stringify(body),
      headers: { 'Content-Type': 'application/json', 'App-Id': $('checkout').dataset.app, 'Client-Id': 'checkout', 'Service-Version': VERSION },
    }).catch(lost), said = await answer.json().catch(lost);
    if (!((answer.ok ? has : 'code') in Object(said))) lost(said);
    if (!answer.ok) throw Object.assign(new Error(said.code), { status: answer.status, refused: said.details?.reason ?? said.code });
    calm('offline');
    return said;
  }
  const ask = (what, has, body) => call(`/v1/gateway/payment/${id}/${what}`, has, body);
  const rest = () => (option ? 'options' : 'choose');

  async function until(done) {
    let said;
    for (let wait = RETRY_FIRST_MS; !(said = await done()); wait = Math.min(wait * 2, RETRY_LAST_MS)) {
      await new Promise((next) => { wake = next; setTimeout(next, wait); });
    }
    return said;
  }

  // For as long as the buyer waits for it.
  const insist = (mine, work) => until(async () => {
    if (mine !== turn) throw new WalletError('gone');
    try {
      return await work();
    } catch (e) {
      if (!e.offline || mine !== turn) throw e;
      return warn('offline');
    }
  });

  // -- telling the server, until it has it

  async function tell() {
    if (telling) return;
    telling = true;
    await until(() => !isWhole(kept()) || told(kept()));
    telling = false;
  }

  // Whether there is nothing more to tell.
  async function told(what) {
    let status;
    try {
      const results = what.results.map((one) => ({ type: 'walletRpc', data: [one] }));
      ({ status } = await ask('confirm', 'isFinal', { optionId: what.option, results }));
    } catch (e) {
      if (e.offline) return warn('offline');
      if (e.status >= 500 || e.status === 429) return false;
      refused(what, e);
      return true;
    }
    if (status === 'requires_action') { // no node shows it yet; the server looks for it
      if (!what.told) keep({ ...what, told: now() });
      arrange();
      return false;
    }
    settle(what);
    if (!$('pay')) arrange();
    return true;
  }

  function settle(what) {
    keep(what.sends ? { ...what, told: now() } : null);
    refresh();
  }

  function refused(what, e) {
    console.info(e);
    const over = [404, 410].includes(e.status) || e.refused === 'invalid_state', reverted = e.refused === 'reverted';
    if (over || (what.sends && !reverted)) {
      settle({ ...what, doubted: !over });
      return arrange();
    }
    keep(null); // a signature that is not taken moves nothing, nor what was reverted
    draw(rest(), true);
    warn(reverted ? 'reverted' : 'unsigned');
    if (option) attempt(renew()); // too old, or the shop asks for more now
  }

  // -- from the wallet to its options

  function choose(chosen) {
    if (!isOpen()) return;
    stop();
    wallet = chosen.talk ??= talk(chosen);
    options = [];
    draw('connecting', true);
    say($('paying')?.textContent ?? '');
    attempt(connect());
  }
  async function connect() {
    const mine = turn, connected = await wallet.connect(Object.keys(network()));
    if (mine !== turn) return;
    accounts = connected;
    heed(wallet);
    await offer();
  }
  function back(e) {
    draw('choose', true);
    fail(e);
  }
  const attempt = (work, mine = turn) => work.catch((e) => mine === turn && back(e));
  function stop() {
    turn++;
    running = false;
    letGo();
    hush();
  }
  function leave() {
    stop();
    if (kept()?.asking) arrange();
    else draw(view === 'approve' ? 'options' : 'choose', true);
  }

  function heed(whose) {
    if (whose.heeded) return;
    whose.heeded = true;
    try {
      whose.watch(Object.keys(network()), (changed) => {
        if (whose !== wallet) return;
        if (!changed && view === 'options' && !running) hush(); // another network: it may be the right one now
        if (!changed || String(changed) === String(accounts)) return;
        accounts = changed;
        clearTimeout(soon);
        soon = setTimeout(follow, SETTLED_MS);
      });
    } catch (e) {
      console.info(e);
    }
  }
  function follow() {
    if (running || !['options', 'none'].includes(view)) return;
    turn++;
    if (accounts.length) attempt(offer());
    else back(new WalletError('gone'));
  }

  // Some wallets write an account in their own way; the server takes no wrong checksum.
  async function asked(mine, pairs) {
    try {
      return (await insist(mine, () => ask('options', 'options', { accounts: pairs }))).options;
    } catch (e) {
      const lower = pairs.map((one) => (one.startsWith('eip155:') ? one.toLowerCase() : one));
      if (e.refused !== 'invalid_params' || String(lower) === String(pairs)) throw e;
      return asked(mine, lower);
    }
  }

  async function offer() {
    const mine = turn, whose = accounts, pairs = whose.slice(0, ACCOUNTS_MAX), fresh = pairs.length ? await asked(mine, pairs) : [];
    if (mine !== turn) return;
    if (whose !== accounts) return offer();
    if (!fresh) throw over();
    offered = whose;
    const gas = (one) => one.actions.some(isSending); // who signs pays no fee
    options = fresh.sort((a, b) => gas(a) - gas(b));
    option = options.find((one) => one.id === (option?.id ?? kept()?.option))
      ?? options.find((one) => one.amount.unit === option?.amount.unit) ?? options[0]; // of another account
    if (!option) return look(pairs);
    draw('options', view !== 'options');
    attempt(look(pairs));
  }
  async function look(pairs) {
    const mine = turn, seen = await call(`/pay/${id}/funds`, 'funds', { accounts: pairs }).catch(() => {});
    if (mine !== turn) return;
    funds = seen?.funds ?? [];
    if (option) return view === 'options' && !running && draw('options');
    draw(funds.length ? 'none' : 'choose', true);
    fail(new WalletError('no_options'));
  }

  // The options anew; whether the chosen one costs something else now: the buyer has to say yes.
  const renew = (mine = turn) => renewing[mine] ??= renewed().finally(() => delete renewing[mine]);
  async function renewed() {
    const before = option;
    await offer();
    if (!option) return true;
    if (before.id !== option.id) warn('changed');
    else if (before.amount.value === option.amount.value) return false;
    else warn('quote_expired', { old: money(before.amount), new: money(option.amount) });
    return true;
  }

  const network = () => JSON.parse($('pay')?.dataset.chains ?? '{}');
  const isOld = (one) => one.expiresAt !== null && now() >= one.expiresAt * 1000;

  // -- paying

  async function pay() {
    if (running) return;
    const mine = ++turn;
    running = true;
    open = false;
    hush();
    try {
      await alone(() => go(mine).catch((e) => {
        if (mine === turn) throw e;
        console.info(e);
      }));
    } catch (e) {
      await stopped(e);
    } finally {
      if (mine === turn) running = false;
      arrange();
      if (offered !== accounts) follow();
    }
  }

  async function go(mine) {
    const before = kept();
    if (isWhole(before) || before?.asking) return; // another tab was faster
    if (isOld(option) && await renew() || mine !== turn) return;
    const actions = await calls(mine);
    const same = before?.option === option.id && before.of === actions.length && before.amount === option.amount.value;
    await act(mine, actions, same ? before.results : []);
  }

  // What the wallet is to do: a build action holds for a minute only.
  async function calls(mine) {
    const found = [];
    step = '';
    draw('approve', true);
    for (const action of option.actions) {
      if (action.type === 'build') found.push(...(await insist(mine, () => ask('fetch', 'actions', { optionId: option.id, data: action.data }))).actions);
      else found.push(action);
    }
    return found.map((one) => ({ ...one, params: typeof one.params === 'string' ? JSON.parse(one.params) : one.params }));
  }

  async function act(mine, actions, results) {
    const job = { mine, payer: wallet, address: addressOf(option) };
    const what = { option: option.id, from: job.address, amount: option.amount.value, results: [...results], of: actions.length, sends: actions.some(moves) };
    for (const action of actions.slice(results.length)) {
      step = actions.length > 1 ? `${what.results.length + 1}/${actions.length}` : '';
      draw('approve', true);
      say($('paying')?.textContent ?? '');
      const result = rehearsed() ? await rehearse(action) : await askWallet(job, action, what);
      // Who did not wait for a signature may have begun something else: one that nobody is told moves nothing. A hash is never lost.
      if (!result || isWhole(kept()) || (mine !== turn && !isSending(action))) return;
      what.results.push(result);
      keep({ ...what, asking: false });
      if (mine !== turn) return arrange();
    }
  }

  async function askWallet({ mine, payer, address }, action, what) {
    const ready = async () => {
      await payer.ready(action, network()[action.chain_id], address);
      if (mine !== turn || isWhole(kept())) throw new WalletError('gone');
      if (!isOpen()) throw over();
    };
    await ready();
    if (isSending(action)) {
      if (!await isWanted(mine)) return '';
      await ready();
    }
    const asking = isSending(action) && Math.random();
    if (asking) keep({ ...what, asking }); // whatever happens to this page now, the wallet may send
    try {
      const result = await payer.run(action, address);
      const isGood = isSending(action) ? isHash : action.chain_id.startsWith('eip155:') ? isSignature : String;
      if (typeof result !== 'string' || !isGood(result)) throw new Error('no result');
      return result;
    } catch (e) {
      if (asking && kept()?.asking === asking && problemOf(e).unsent) unasked(kept());
      if (mine !== turn) arrange();
      throw e;
    }
  }

  // This page may have slept, or not heard that somebody paid; the wallet may have taken its time.
  async function isWanted(mine) {
    const said = await insist(mine, () => call(`/pay/${id}/status`, 'version'));
    heard(said);
    if (mine !== turn || said.status !== 'requires_action' || isOld(said)) throw over();
    if (!isOld(option)) return true;
    if (await renew() || mine !== turn || isOld(option)) return false;
    draw('approve', true);
    return true;
  }

  // A test payment must move nothing: a wallet of EVM chains signs a text instead.
  const rehearsed = () => $('checkout').dataset.rehearsal && wallet.ask;
  async function rehearse(action) {
    const text = fill(words.rehearsal, { id });
    const hex = [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    const signature = await wallet.ask('personal_sign', [`0x${hex}`, addressOf(option)]);
    if (typeof signature !== 'string' || !isSignature(signature)) throw new Error('no signature');
    return signature.padEnd(132, '0').slice(0, isSending(action) ? 66 : 132);
  }

  async function stopped(e) {
    try {
      if (['quote_expired', 'route_expired', 'invalid_params'].includes(e?.refused) && await renew()) return;
      if (problemOf(e).kind === 'moved') await connect();
      else draw('options', true);
      if (option) fail(e);
    } catch (again) {
      back(again);
    }
  }

  function fail(e) {
    console.info(e);
    if (['payment_expired', 'invalid_state'].includes(e?.refused)) refresh(); // a wallet may fail with anything, or with nothing
    if (!$('pay')) return; // what the server has drawn since says all there is to say
    const { merchant } = $('checkout').dataset;
    if (e?.refused === 'payment_expired') return warn('expired', { merchant });
    if (e?.offline || e?.refused) return warn(e.offline ? 'offline' : 'refused');
    const { kind, code } = problemOf(e), row = option && offers().fundsOf(option);
    const values = { code: code && `(${code})`, amount: option && money(option.amount), network: option && networkOf(option), list: $('pay').dataset.accepted, merchant };
    if (kind !== 'insufficient' || !row) return warn(kind, values);
    warn('short', { ...values, fee: money(row.fee), have: haveOf(row) });
  }
  const hush = (kind = $('alert').dataset.kind) => kind !== 'offline' && calm(kind);

  // -- what is shown

  const title = (text) => el('h2', { id: 'paying', tabIndex: -1, textContent: text });
  const wheel = () => el('span', { className: 'spinner', ariaHidden: 'true' });
  const row = (name, ...value) => el('div', {}, el('dt', { textContent: name }), el('dd', {}, ...value));
  const another = () => button(words.another, leave, { className: 'plain' });

  // Nothing is signed or sent before the shop has what it asks for.
  const onward = () => (option.collectData
    ? el('a', { id: 'collect', className: 'button primary', href: `${option.collectData.url}&lang=${document.documentElement.lang}`, target: '_blank', rel: 'noopener', textContent: words.collect })
    : button(fill(words.pay, { amount: money(option.amount), wallet: wallet.name }), pay, { id: 'pay-now', className: 'primary' }));

  const offers = () => choices({ options, funds, words, fill });

  const views = {
    choose: () => buttons(choose),
    connecting: () => [wheel(), title(fill(words.check, { wallet: wallet.name })), button(words.stop, leave)],
    options: () => [
      title(words.paying),
      open ? offers().list(option, pick) : el('dl', {},
        row(words.pays, isolated(money(option.amount)), ...(options.length + offers().lacking.length > 1 ? [change()] : [])),
        row(words.network, isolated(networkOf(option))),
        row(words.fee, isolated(offers().feeOf(option))),
        row(words.from, accountOf(option))),
      onward(),
      another(),
    ],
    none: () => [title(words.lacking), offers().list(), another()],
    approve: () => [
      wheel(), title(fill(step ? words['approve.step'] : words.approve, { wallet: wallet.name, step })),
      el('p', { textContent: fill(words['approve.body'], { amount: money(option.amount), network: networkOf(option) }) }), button(words.stop, leave),
    ],
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

  const hashOf = (what) => el('p', { className: 'mono' }, isolated(what.results.findLast(isHash)));
  const again = () => button(words.again, () => {
    unasked(isWhole(kept()) ? null : kept());
    hush();
    draw(rest(), true);
  });
  const change = () => button(words.change, () => {
    open = true;
    draw('options');
    $('pay').querySelector('input:checked').focus();
  }, { id: 'change' });

  function pick(one, done) {
    option = one;
    hush();
    if (!done) return ($('pay-now') ?? $('collect')).replaceWith(onward());
    open = false;
    draw('options');
    $('change').focus();
  }

  // A wallet that replaces a transaction, as for a higher fee, gives it another id.
  function repair(what) {
    const input = el('input', { id: 'replaced', autocomplete: 'off', spellcheck: false });
    const send = button(words.replace, () => {
      const hash = input.value.trim(), at = what.results.findLastIndex(isHash);
      if (!isHash(hash)) return warn('no_hash');
      hush();
      what.results[at] = hash;
      keep({ ...what, told: undefined, doubted: undefined });
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
    const at = box.contains(document.activeElement) ? document.activeElement.id || 'paying' : '';
    view = next;
    $('status').dataset.pay = view;
    box.replaceChildren(...views[view]());
    box.hidden = !box.childElementCount;
    if (moved) (view === 'choose' ? $('heading') : $('paying')).focus();
    else if (at) ($(at) ?? $('paying') ?? $('heading')).focus();
    if (view === 'options' && option.expiresAt !== null) {
      timer = setTimeout(() => { if (!running) attempt(renew()); }, option.expiresAt * 1000 - now());
    }
    const left = view === 'sent' ? kept().told + UNSEEN_MS - now() : 0;
    if (left > 0) timer = setTimeout(arrange, left);
  }

  // Draws what there is to do now, after what the server drew or another tab has kept.
  function arrange() {
    const what = kept(), whole = isWhole(what);
    if (whole && !(what.told && !$('pay')) && !what.doubted) tell();
    if (running && !whole) return $('pay')?.childElementCount || draw(view);
    if (!$('pay')) return note(what);
    if (view !== (whole ? 'sent' : what?.asking ? 'maybe' : view)) stop();
    if (whole) {
      const same = view === 'sent' && $('paying');
      if (!same || $('replaced') === null) draw('sent', !same);
      if (!same) say(`${words.sent} ${words['sent.body']}`);
    } else if (what?.asking) draw('maybe', view !== 'maybe');
    else if (['sent', 'maybe', 'approve'].includes(view)) draw(rest());
    else if (view === 'choose' || !$('pay').childElementCount) draw(view);
  }

  // A payment that ended unpaid, or paid by another: the buyer will need the id of what the wallet sent.
  function note(what) {
    hush(); // it told the buyer to pay
    const { status, final } = $('status').dataset, isSent = isWhole(what) && what.sends;
    if (status === 'succeeded' && (!isSent || RegExp($('from')?.title, 'i').test(what.from))) return keep(null);
    if (final !== 'true' || !isSent || $('kept')) return;
    $('status').firstElementChild.append(el('p', { className: 'note', id: 'kept' }, `${words.kept} `, hashOf(what).firstChild));
  }

  addEventListener('online', () => wake());
  addEventListener('visibilitychange', () => { // back from the form
    if (!document.hidden && option?.collectData) follow();
  });
  return { arrange, choose };
}
