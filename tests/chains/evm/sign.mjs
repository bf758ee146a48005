// What wallets' own libraries make of what payd hands out. Argument: the folder that holds node_modules.
// In: {"key", "typed", "raw"}: a private key, typed data for eth_signTypedData_v4, a signed transaction.
// Out: {"metamask", "metamaskWithoutDomain", "ethers", "compact", "calldata", "transaction"}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { signTypedData } = require("@metamask/eth-sig-util");
const { Interface, Signature, Transaction, Wallet } = require("ethers");

const { key, typed, raw } = JSON.parse(readFileSync(0, "utf8"));
const privateKey = Buffer.from(key.slice(2), "hex");
// A wallet that is built on ethers takes the domain's own type out, as ethers wants it.
const { EIP712Domain, ...types } = typed.types;

const metamask = signTypedData({ privateKey, data: typed, version: "V4" });
const metamaskWithoutDomain = signTypedData({ privateKey, data: { ...typed, types }, version: "V4" });
const ethers = await new Wallet(key).signTypedData(typed.domain, types, typed.message);

const token = new Interface([
  "function transferWithAuthorization(address from,address to,uint256 value,uint256 validAfter," +
    "uint256 validBefore,bytes32 nonce,uint8 v,bytes32 r,bytes32 s)",
]);
const { v, r, s, compactSerialized } = Signature.from(metamask);
const { from, to, value, validAfter, validBefore, nonce } = typed.message;
const calldata = token.encodeFunctionData("transferWithAuthorization", [
  from, to, value, validAfter, validBefore, nonce, v, r, s,
]);

const read = Transaction.from(raw);
const transaction = {
  hash: read.hash,
  from: read.from,
  to: read.to,
  data: read.data,
  type: read.type,
  nonce: read.nonce,
  chainId: read.chainId.toString(),
  gas: read.gasLimit.toString(),
  maxFee: read.maxFeePerGas.toString(),
  tip: read.maxPriorityFeePerGas.toString(),
};
console.log(
  JSON.stringify({ metamask, metamaskWithoutDomain, ethers, compact: compactSerialized, calldata, transaction }),
);
