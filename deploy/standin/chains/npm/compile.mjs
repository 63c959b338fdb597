// Compiles the Solidity files that are named as arguments. It writes JSON: the ABI, the creation code
// and the runtime code of each contract. The output depends only on the sources and on the version of
// solc, which package-lock.json pins.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { basename } from "node:path";

const solc = createRequire(import.meta.url)("solc");
const sources = {};
for (const file of process.argv.slice(2)) {
  sources[basename(file)] = { content: readFileSync(file, "utf8") };
}
const output = JSON.parse(solc.compile(JSON.stringify({
  language: "Solidity",
  sources,
  settings: {
    evmVersion: "paris", // no newer instructions: every network runs it
    optimizer: { enabled: true, runs: 200 },
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } },
  },
})));
const faults = (output.errors ?? []).map((e) => e.formattedMessage).join("\n");
if (faults !== "") {
  console.error(faults);
  process.exit(1);
}
const compiled = {};
for (const contracts of Object.values(output.contracts)) {
  for (const [name, { abi, evm }] of Object.entries(contracts)) {
    compiled[name] = {
      abi,
      creation: "0x" + evm.bytecode.object,
      runtime: "0x" + evm.deployedBytecode.object,
    };
  }
}
process.stdout.write(JSON.stringify(compiled));
