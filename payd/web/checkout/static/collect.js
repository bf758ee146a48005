// Sends the form without losing what was typed, and tells the wallet around this page how it ended.
const PATIENCE_MS = 20_000; // for an answer

const $ = (id) => document.getElementById(id);
const framed = parent !== window;

// Nothing in it is secret: the wallet that hears it may be any page.
function tell(message) {
  const text = JSON.stringify(message);
  if (framed) parent.postMessage(message, '*');
  window.AndroidWallet?.onDataCollectionComplete?.(text);
  window.webkit?.messageHandlers?.payDataCollectionComplete?.postMessage(message);
  window.ReactNativeWebView?.postMessage(text);
}

function arrive() {
  const { state, error } = $('collect').dataset;
  if (state === 'done') tell({ type: 'IC_COMPLETE', success: true });
  if (state === 'closed') tell({ type: 'IC_ERROR', success: false, error });
  // A wallet closes this page by itself.
  const inWallet = framed || window.AndroidWallet || window.ReactNativeWebView || window.webkit?.messageHandlers?.payDataCollectionComplete;
  if ($('back') && inWallet) $('back').hidden = true;
}

function warn(words) {
  const box = $('alert');
  box.replaceChildren(words);
  box.hidden = false;
  box.focus();
}

addEventListener('submit', async (event) => {
  event.preventDefault();
  // A field may have the name of anything that a form has.
  const form = event.target, button = $('collect').querySelector('button');
  if (button.disabled) return;
  button.disabled = true;
  try {
    const answer = await fetch(Element.prototype.getAttribute.call(form, 'action'), {
      method: 'POST', body: new URLSearchParams(new FormData(form)), headers: { Accept: 'text/html' },
      cache: 'no-store', signal: AbortSignal.timeout?.(PATIENCE_MS),
    });
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const main = next.getElementById('collect');
    // What passes, such as too many requests, leaves the form as it is.
    if (!main || answer.status === 429 || answer.status >= 500) return warn($('alert').dataset.refused);
    $('collect').replaceWith(document.adoptNode(main));
    document.title = next.title;
    const alert = $('alert');
    (alert && !alert.hidden ? alert : document.querySelector('h1')).focus();
    arrive();
  } catch {
    warn($('alert').dataset.offline);
  } finally {
    button.disabled = false;
  }
});

arrive();
