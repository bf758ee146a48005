// What MetaMask puts into pages, from its makers; behind it a stand-in for its background process asks a signer.
import { initializeProvider } from '@metamask/providers';
import { Duplex } from 'readable-stream';
import { ask } from './ask.js';

const STATE = { accounts: [], chainId: '0x1', isUnlocked: true, networkVersion: '1', isConnected: true };

async function answer({ id, method, params }) {
  const base = { jsonrpc: '2.0', id };
  try {
    if (method === 'metamask_getProviderState') return { ...base, result: STATE };
    return { ...base, result: await ask('metamask', method, params) };
  } catch ({ code, message }) {
    return { ...base, error: { code, message } };
  }
}

const connectionStream = new Duplex({
  objectMode: true,
  read() {},
  write(message, _encoding, done) {
    done();
    if (message?.method && message.id !== undefined) answer(message).then((one) => this.push(one));
  },
});
const icon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Cpath d='M0 0h8v8z' fill='%23e2761b'/%3E%3C/svg%3E";
const providerInfo = { uuid: crypto.randomUUID(), name: 'MetaMask', rdns: 'io.metamask', icon };
initializeProvider({ connectionStream, shouldSendMetadata: false, shouldAnnounceCaip294: false, providerInfo });
