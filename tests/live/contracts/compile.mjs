// Compiles Test.sol into contracts.json. Only who changes Test.sol needs it:
//   npm install --no-save --prefix FOLDER solc@0.8.37 && node tests/live/contracts/compile.mjs FOLDER
// The same source gives the same bytes; the digest says of which source they are.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const solc = createRequire(resolve(process.argv[2], "package.json"))("solc");
const source = readFileSync(new URL("Test.sol", import.meta.url), "utf8");
const input = {
  language: "Solidity",
  sources: { "Test.sol": { content: source } },
  settings: {
    optimizer: { enabled: true, runs: 200 },
    evmVersion: "paris",
    viaIR: true,
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
const errors = (output.errors ?? []).filter((one) => one.severity === "error");
if (errors.length) {
  console.error(errors.map((one) => one.formattedMessage).join("\n"));
  process.exit(1);
}
const contracts = Object.entries(output.contracts["Test.sol"])
  .filter(([, one]) => one.evm.bytecode.object)
  .map(([name, one]) => [
    name,
    { abi: one.abi, bytecode: "0x" + one.evm.bytecode.object, runtime: "0x" + one.evm.deployedBytecode.object },
  ]);
const digest = createHash("sha256").update(source).digest("hex");
const artefact = { solc: solc.version(), source: digest, contracts: Object.fromEntries(contracts) };
writeFileSync(new URL("contracts.json", import.meta.url), JSON.stringify(artefact, null, 1) + "\n");
