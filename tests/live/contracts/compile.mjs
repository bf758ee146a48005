// Compiles Test.sol into contracts.json, or Strange.sol into strange.json. Only who changes one of them needs it:
//   npm install --no-save --prefix FOLDER solc@0.8.37 @openzeppelin/contracts@5.7.0
//   node tests/live/contracts/compile.mjs FOLDER Test.sol contracts.json
//   node tests/live/contracts/compile.mjs FOLDER Strange.sol strange.json
// The same source gives the same bytes; the digest says of which source they are.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [folder, file, made] = process.argv.slice(2);
const solc = createRequire(resolve(folder, "package.json"))("solc");
const source = readFileSync(new URL(file, import.meta.url), "utf8");
const input = {
  language: "Solidity",
  sources: { [file]: { content: source } },
  settings: {
    optimizer: { enabled: true, runs: 200 },
    evmVersion: file === "Test.sol" ? "paris" : "cancun",
    viaIR: true,
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
  },
};
const installed = (path) => ({ contents: readFileSync(resolve(folder, "node_modules", path), "utf8") });
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: installed }));
const errors = (output.errors ?? []).filter((one) => one.severity === "error");
if (errors.length) {
  console.error(errors.map((one) => one.formattedMessage).join("\n"));
  process.exit(1);
}
const contracts = Object.entries(output.contracts[file])
  .filter(([, one]) => one.evm.bytecode.object)
  .map(([name, one]) => [
    name,
    { abi: one.abi, bytecode: "0x" + one.evm.bytecode.object, runtime: "0x" + one.evm.deployedBytecode.object },
  ]);
const digest = createHash("sha256").update(source).digest("hex");
const artefact = { solc: solc.version(), source: digest, contracts: Object.fromEntries(contracts) };
writeFileSync(new URL(made, import.meta.url), JSON.stringify(artefact, null, 1) + "\n");
