// Announces the wallets beside the browser, by EIP-6963; window.walletNames says which.
import { ask } from './ask.js';

const listeners = {};
window.walletTells = (name, event, value) => { for (const hear of listeners[name]?.[event] ?? []) hear(value); };

for (const [name, shown] of Object.entries(window.walletNames)) {
  const provider = {
    request: ({ method, params }) => ask(name, method, params),
    on(event, hear) { ((listeners[name] ??= {})[event] ??= []).push(hear); },
    removeListener() {},
  };
  const icon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='4' fill='%23f60'/%3E%3C/svg%3E";
  const info = Object.freeze({ uuid: crypto.randomUUID(), name: shown, icon, rdns: `test.${name}` });
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }));
  addEventListener('eip6963:requestProvider', announce);
  announce();
}
