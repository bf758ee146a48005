// A shop's pay button: the checkout over its page or in a tab, and how that ends.
(() => {
const BASE = Reflect.get(Document.prototype, 'currentScript', document) // strangers' markup on the page may have that name
  .src.split('/static/payd')[0], { origin } = new URL(BASE),
  SILENT_MS = 2000, // what is refused never answers
  RETRY_MS = 500, TRIES = 40;
const words = {}; // those of the shop's buyer, put in by the server
const html = document.documentElement, sheet = document.adoptedStyleSheets && new CSSStyleSheet();
sheet?.replaceSync(`dialog{min-width:min(30rem,100vw);min-height:min(52rem,96dvh);padding:0;border:0;outline:1px solid #0000;
border-radius:1rem;overflow:hidden;color-scheme:light dark;font:1rem system-ui}
::backdrop{background:#000a}
[open]{display:flex;flex-flow:column}
button{align-self:end;width:44px;height:44px;border:0;background:none;font-size:1.5rem}
iframe{flex:1;border:0}
p{margin:auto}
iframe:not([hidden])+p{display:none}
@media(width<=30rem){dialog{min-height:100dvh;border-radius:0}}`);
const make = (to, name, values) => to.appendChild(Object.assign(document.createElement(name), values)),
  stops = {}, held = {}; // closed, but a wallet may be asked in it
let close;

// With no frame: the feed.
function follow(id, report) {
  let tries = 0, over, socket;
  (function connect() {
    if (over) return;
    socket = new WebSocket(`ws${BASE.slice(4)}/v1/payments/${id}/feed`);
    socket.onmessage = ({ data }) => {
      tries = 0;
      if (over ||= report(JSON.parse(data))) socket.close();
    };
    socket.onclose = () => setTimeout(connect, RETRY_MS * Math.min(++tries, TRIES) * (1 + Math.random()));
  })();
  stops[id] = () => {
    over = true;
    if (socket.readyState) socket.close(); // else with its first message: browsers complain of one that never opened
  };
}

function open(target, { mode, onStatus, from = document, lang = html.lang } = {}) {
  const id = /pay_\w+/.exec(target)?.[0] ?? 0, url = `${BASE}/pay/${id}?lang=${lang}`; // of this payd only
  let version = -1, isFinal, timer;
  const report = (news) => {
    if (news.version > version) {
      ({ version, isFinal } = news);
      const detail = { paymentId: id, status: news.status, isFinal, version };
      (from.isConnected ? from : document).dispatchEvent(new CustomEvent('payd:status', { detail, bubbles: true }));
      onStatus?.(detail);
    }
    return isFinal;
  };
  close?.();
  stops[id]?.();
  if (mode === 'tab' || !sheet) { // an old browser
    window.open(url) || (location = url);
    return follow(id, report);
  }

  if (!held[id]?.isConnected) held[id] = make(document.body, 'div').attachShadow({ mode: 'open' }); // a shop may change its body
  const root = held[id], { style } = html, { overflow } = style, old = root.firstChild,
    dialog = old ?? make(root, 'dialog', { ariaLabel: words.title });
  if (!old) {
    root.adoptedStyleSheets = [sheet];
    make(dialog, 'button', { innerText: '×', ariaLabel: words.close, onclick: () => close() });
    make(dialog, 'iframe', { title: words.title, allow: 'clipboard-write', src: url });
    make(make(dialog, 'p', { role: 'alert', innerText: words.refused + ' ' }), 'a', { href: url, text: words.tab });
  }
  const [, frame, note] = dialog.children;
  note.lastChild.onclick = () => !!open(id, { mode: 'tab', onStatus, from, lang });
  frame.onload = () => {
    clearTimeout(timer);
    frame.contentWindow.postMessage({ payd: id }, origin);
    timer = setTimeout(() => frame.hidden = true, SILENT_MS);
  };
  if (old) frame.onload();
  const hear = ({ source, origin: by, data }) => {
    if (source !== frame.contentWindow || by !== origin || data?.payd !== id) return;
    if (data.close) return close();
    clearTimeout(timer);
    frame.hidden = false;
    report(data);
  };
  addEventListener('message', hear);
  const mine = close = () => {
    close = null;
    removeEventListener('message', hear);
    style.overflow = overflow;
    dialog.close();
    if (isFinal || frame.hidden) {
      root.host.remove();
      delete held[id];
    }
    if (!isFinal) follow(id, report);
  };
  dialog.onclose = () => dialog.open || close === mine && close();
  dialog.onclick = (e) => e.target === dialog && close();
  style.overflow = 'hidden';
  dialog.showModal();
}

addEventListener('click', ({ target }) => {
  const from = target.closest?.('[data-payd]'), data = from?.dataset;
  if (data) open(data.payd, { mode: data.paydMode, lang: data.paydLang, from });
});
window.Payd = { open, close: () => close?.(), words };
})();
