// What the libraries that wallets read Solana Pay with make of a code. Arguments: the folder that holds node_modules,
// and which library: "web3" (@solana/pay 0.2 on web3.js) or "kit" (@solana/pay 1 on Kit).
// In: {"code", "key", "rpc", "origins"}: the text of a code; a 64-byte key as numbers; a node's URL; what to ask
//     instead of an https origin, which nothing serves here.
// Out: {"signed", "label", "icon", "message"}: a transaction in base64, and what the wallet shows; or {"error"}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, library] = process.argv.slice(2);
const require = createRequire(folder + "/");
const { code, key, rpc: url, origins } = JSON.parse(readFileSync(0, "utf8"));

const reached = (link) => new URL(link.href.replace(link.origin, origins[link.origin] ?? link.origin));

async function shown(link) {
  const found = await fetch(link, { headers: { Accept: "application/json" } });
  if (!found.ok) throw new Error((await found.json()).message);
  return found.json();
}

async function web3() {
  const { Connection, Keypair } = require("@solana/web3.js");
  const pay = require("@solana/pay");
  const keypair = Keypair.fromSecretKey(Uint8Array.from(key));
  const connection = new Connection(url, "confirmed");
  const fields = pay.parseURL(code);
  let transaction;
  let payee = fields;
  if (fields.link) {
    payee = await shown(reached(fields.link));
    transaction = await pay.fetchTransaction(connection, keypair.publicKey, reached(fields.link));
  } else {
    transaction = await pay.createTransfer(connection, keypair.publicKey, fields);
  }
  transaction.partialSign(keypair);
  return { signed: transaction.serialize().toString("base64"), label: payee.label, icon: payee.icon };
}

async function kit() {
  const k = require("@solana/kit");
  const pay = require("@solana/pay");
  const rpc = k.createSolanaRpc(url);
  const signer = await k.createKeyPairSignerFromBytes(Uint8Array.from(key));
  const fields = pay.parseURL(code);
  if (fields.link) {
    const payee = await shown(reached(fields.link));
    const transaction = await pay.fetchTransaction(rpc, signer.address, reached(fields.link));
    const signed = await k.signTransaction([signer.keyPair], transaction);
    return { signed: k.getBase64EncodedWireTransaction(signed), label: payee.label, icon: payee.icon };
  }
  const instructions = await pay.createTransfer(rpc, signer, fields);
  const { value } = await rpc.getLatestBlockhash().send();
  const message = k.pipe(
    k.createTransactionMessage({ version: 0 }),
    (m) => k.setTransactionMessageFeePayerSigner(signer, m),
    (m) => k.setTransactionMessageLifetimeUsingBlockhash(value, m),
    (m) => k.appendTransactionMessageInstructions(instructions, m),
  );
  const signed = await k.signTransactionMessageWithSigners(message);
  return { signed: k.getBase64EncodedWireTransaction(signed), label: fields.label };
}

const libraries = { web3, kit };
try {
  console.log(JSON.stringify(await libraries[library]()));
} catch (error) {
  console.log(JSON.stringify({ error: `${error.name}: ${error.message}` }));
}
process.exit(0);
