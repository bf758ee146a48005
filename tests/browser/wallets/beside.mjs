// Wallets that others wrote, behind one port of this machine. Arguments: the folder that holds node_modules, a node's
// URL, its chain's id, a private key.
// POST /start {wallet, method, params} -> {job}; GET /job/N -> {state: pending|done|error, result, error};
// POST /fresh: the networks that were added are forgotten; POST /do {name, kind}: authorize or reject what the headless wallet waits for;
// POST /broadcast: the slow wallet gives the node what it signed. It prints its port once it listens.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, rpc, id, key] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { createHeadlessWeb3Provider } = require('@ensdomains/headless-web3-provider');
const { createWallet } = require('@johanneskares/wallet-mock');
const { createWalletClient, defineChain, http, keccak256 } = require('viem');
const { privateKeyToAccount } = require('viem/accounts');

const made = (number, name) => defineChain({
  id: number, name, nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 }, rpcUrls: { default: { http: [rpc] } },
});
const chain = made(Number(id), 'Base'), other = made(1, 'Ethereum');
const account = privateKeyToAccount(key);
const refusal = (code, message) => Object.assign(new Error(message), { code });

// viem's wallet client; it begins on Ethereum, and has the other network only once it was added. One that is slow
// knows the hash of what it signed before any node does.
const late = [];
function clientWallet(unknown, slow = false) {
  const client = createWalletClient({ account, chain, transport: http(rpc) });
  const has = new Set([1]);
  let at = 1;
  const calls = {
    eth_requestAccounts: () => [account.address],
    eth_accounts: () => [account.address],
    eth_chainId: () => `0x${at.toString(16)}`,
    wallet_switchEthereumChain([{ chainId }]) {
      if (!has.has(Number(chainId))) throw refusal(unknown, 'No such network'); // others have other words
      at = Number(chainId);
      return null;
    },
    wallet_addEthereumChain([{ chainId, chainName, nativeCurrency, rpcUrls }]) {
      if (!chainName || nativeCurrency?.decimals !== 18 || !rpcUrls?.[0].startsWith('https://')) throw refusal(-32602, 'Invalid');
      has.add(Number(chainId));
      return null;
    },
    async eth_sendTransaction([{ from, to, value, data }]) {
      if (from.toLowerCase() !== account.address.toLowerCase()) throw refusal(4100, 'Not authorized');
      if (at !== chain.id) throw refusal(-32603, 'wrong network');
      const wanted = { to, data, value: value && BigInt(value) };
      if (!slow) return client.sendTransaction(wanted);
      const serializedTransaction = await client.signTransaction(await client.prepareTransactionRequest(wanted));
      late.push(() => client.sendRawTransaction({ serializedTransaction }));
      return keccak256(serializedTransaction);
    },
    personal_sign: ([raw]) => account.signMessage({ message: { raw } }),
    eth_signTypedData_v4([, text]) {
      const typed = JSON.parse(text);
      if (Number(typed.domain.chainId) !== at) throw refusal(-32603, 'Provided chainId must match the active chainId');
      return account.signTypedData(typed);
    },
  };
  return {
    async request({ method, params }) {
      if (!calls[method]) throw refusal(4200, 'Unsupported method');
      return calls[method](params);
    },
  };
}

const headless = createHeadlessWeb3Provider({
  privateKeys: [key], chains: [chain, other], debug: false, permitted: ['eth_requestAccounts', 'wallet_switchEthereumChain'],
});
const fresh = () => ({ viem: clientWallet(4902), slow: clientWallet(4902, true), metamask: clientWallet(-32603) });
const wallets = {
  ...fresh(),
  headless,
  mock: createWallet(account, { [chain.id]: http(rpc), 1: http(rpc) }, other),
};

const jobs = new Map();
const shape = (e) => ({ code: e?.code ?? e?.cause?.code ?? -32603, message: String(e?.shortMessage ?? e?.message ?? e) });
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : {};
  let told = {};
  if (request.url === '/start') {
    const job = jobs.size + 1;
    jobs.set(job, { state: 'pending' });
    Promise.resolve().then(() => wallets[body.wallet].request({ method: body.method, params: body.params })).then(
      (result) => jobs.set(job, { state: 'done', result: result ?? null }),
      (error) => jobs.set(job, { state: 'error', error: shape(error) }),
    );
    told = { job };
  } else if (request.url.startsWith('/job/')) {
    told = jobs.get(Number(request.url.slice(5)));
  } else if (request.url === '/fresh') {
    Object.assign(wallets, fresh());
    late.length = 0;
  } else if (request.url === '/broadcast') {
    for (const send of late.splice(0)) await send();
  } else {
    headless[body.name](body.kind)?.catch?.(() => {});
  }
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(told));
});
server.listen(0, '127.0.0.1', () => console.log(`Listening on ${server.address().port}`));
