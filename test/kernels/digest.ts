// Compares addons bit for bit: node dist/test/kernels/digest.js ADDON...
//
// Runs the same kernel calls with each addon, once for each instruction set that it has and this
// processor supports, and prints arithmetic and a hash of all outputs. Fails if sets of one
// arithmetic differ, or if a set of the first addon is not in all others. test/package.sh compares
// the addon of a clone with the shipped one.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createNative, instructionSets } from "../../src/kernels/native/native.ts";
import { type Addon, ofThisVersion } from "../../src/ports/addon.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { blockScenarios } from "./blocks/block-cases.ts";
import { scenarios } from "./scenarios.ts";

/** Seeds of each scenario, with other shapes for each. */
const seeds = [1, 2, 3];

/** Arithmetic and output hash by instruction set. */
function digestsOf(path: string): Map<string, string> {
  const addon = ofThisVersion(createRequire(import.meta.url)(path) as Addon, path);
  const digests = new Map<string, string>();
  for (const isa of instructionSets) {
    if (addon.limitIsa?.(isa) !== true) continue;
    const kernels = createNative(addon) ?? fail("no kernels");
    const hash = createHash("sha256");
    for (const scenario of Object.values({ ...scenarios, ...blockScenarios })) {
      for (const seed of seeds) {
        for (const values of scenario(kernels, new RandomStream(seed, 1))) {
          hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
        }
      }
    }
    digests.set(isa, `${kernels.arithmetic} ${hash.digest("hex").slice(0, 16)}`);
  }
  return digests;
}

function fail(why: string): never {
  throw new Error(why);
}

const paths = process.argv.slice(2).map((path) => resolve(path));
if (paths.length === 0) fail("Expected addons to compare");
const [first = new Map<string, string>(), ...others] = paths.map((path) => {
  const digests = digestsOf(path);
  for (const [isa, digest] of digests) {
    process.stdout.write(`${isa.padEnd(10)} ${digest}  ${path}\n`);
  }
  return digests;
});
if (first.size === 0) fail("The first addon has no kernels for this processor");
const different = new Set(first.values());
const arithmetics = new Set([...different].map((digest) => digest.split(" ")[0]));
if (different.size > arithmetics.size) fail("Sets of one arithmetic differ");
for (const [isa, digest] of first) {
  for (const other of others) {
    if (other.get(isa) !== digest) fail(`The addons differ in ${isa}`);
  }
}
