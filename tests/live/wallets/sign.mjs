// What the code of wallets makes of transactions that payd hands out. Argument: the folder that holds node_modules.
// In: {"key", "transactions", "guard"}: a 64-byte key as numbers; transactions in base64; an instruction
//     {"program", "account", "data"} that a wallet which guards its user would add.
// Out: for each wallet, what it gives back for each transaction: {"signed"} in base64, or {"error"}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { Keypair, PublicKey, Transaction, TransactionInstruction, VersionedTransaction } = require("@solana/web3.js");
const { UnsafeBurnerWalletAdapter } = require("@solana/wallet-adapter-unsafe-burner");
const { SolanaWalletAdapterWallet } = require("@solana/wallet-standard-wallet-adapter-base");

console.warn = () => {};
const { key, transactions, guard } = JSON.parse(readFileSync(0, "utf8"));
const keypair = Keypair.fromSecretKey(Uint8Array.from(key));
const incomplete = { requireAllSignatures: false, verifySignatures: false };

async function standard(versions) {
  const adapter = new UnsafeBurnerWalletAdapter();
  if (versions) adapter.supportedTransactionVersions = versions;
  await adapter.connect();
  adapter._keypair = keypair;
  const wallet = new SolanaWalletAdapterWallet(adapter, "solana:localnet", "http://127.0.0.1:1");
  const { accounts } = await wallet.features["standard:connect"].connect();
  return async (raw) => {
    const feature = wallet.features["solana:signTransaction"];
    const [{ signedTransaction }] = await feature.signTransaction({ account: accounts[0], transaction: raw });
    return signedTransaction;
  };
}

const wallets = {
  // A wallet on web3.js that reads every form.
  async versioned(raw) {
    const transaction = VersionedTransaction.deserialize(raw);
    transaction.sign([keypair]);
    return transaction.serialize();
  },
  // One that knows the legacy form, and checks all signatures before it gives them out of hand.
  async partial(raw) {
    const transaction = Transaction.from(raw);
    transaction.partialSign(keypair);
    return transaction.serialize();
  },
  // One that leaves that to whoever asked.
  async incomplete(raw) {
    const transaction = Transaction.from(raw);
    transaction.partialSign(keypair);
    return transaction.serialize(incomplete);
  },
  // The sample of an old integration: it signs alone, as if nobody else had.
  async alone(raw) {
    const transaction = Transaction.from(raw);
    transaction.sign(keypair);
    return transaction.serialize();
  },
  // One that puts a guard behind what it was given, and so compiles the message anew.
  async guarding(raw) {
    const transaction = Transaction.from(raw);
    transaction.add(
      new TransactionInstruction({
        programId: new PublicKey(guard.program),
        keys: [{ pubkey: new PublicKey(guard.account), isSigner: false, isWritable: false }],
        data: Buffer.from(guard.data, "base64"),
      }),
    );
    transaction.partialSign(keypair);
    return transaction.serialize(incomplete);
  },
  // A Wallet Standard wallet, by its feature solana:signTransaction; and one of those that take legacy alone.
  standard: await standard(),
  standardLegacy: await standard(new Set(["legacy"])),
};

const made = {};
for (const [name, sign] of Object.entries(wallets)) {
  made[name] = [];
  for (const text of transactions) {
    try {
      made[name].push({ signed: Buffer.from(await sign(Buffer.from(text, "base64"))).toString("base64") });
    } catch (error) {
      made[name].push({ error: String(error) });
    }
  }
}
console.log(JSON.stringify(made));
