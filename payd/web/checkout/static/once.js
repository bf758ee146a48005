// Paying once: what a wallet handed out stays here over reloads and for other tabs, and only one tab pays at a time.
import { WalletError } from './talk.js';

export const isWhole = (what) => Boolean(what) && what.results.length === what.of;

// Of one payment: { option, amount, results, of, sends, asking, told, doubted }.
export function once(key) {
  let memory = null, letGo = () => {}; // memory is for where there is no storage

  function kept() {
    try {
      const what = memory ?? JSON.parse(localStorage.getItem(key));
      return Array.isArray(what?.results) ? what : null;
    } catch {
      return null;
    }
  }
  function keep(what) {
    memory = null;
    try {
      if (what) localStorage.setItem(key, JSON.stringify(what));
      else localStorage.removeItem(key);
    } catch (e) {
      console.info(e);
      memory = what;
    }
  }

  // Without storage, as frames of shops are in some browsers, what is known is lost with the page.
  addEventListener('beforeunload', (event) => { if (memory) event.preventDefault(); });

  // While a tab pays no other one begins to; also where both buttons are pressed at once.
  async function alone(work) {
    let begun = false;
    const only = (lock) => {
      begun = true;
      if (!lock) throw new WalletError('elsewhere');
      return Promise.race([work(), new Promise((done) => { letGo = done; })]);
    };
    try {
      await (navigator.locks ? navigator.locks.request(key, { ifAvailable: true }, only) : only(true));
    } catch (e) {
      if (begun) throw e;
      await only(true); // a browser that keeps nothing here has no locks either
    }
  }

  return { kept, keep, alone, letGo: () => letGo() };
}
