// Files of cost networks: they read back unchanged, and other files are refused.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { sameValues } from "../../../../test/helpers/same-values.ts";
import { readCostNetworks, writeCostNetworks } from "../../files/cost-networks-file.ts";
import type { CostNetworks } from "../../search/cost-networks.ts";

function pathOf(t: ExecutionContext): string {
  const directory = startDirectory(t);
  return join(directory, "networks.safetensors");
}

test("networks and their origin read back unchanged; equal networks make equal files", async (t) => {
  const path = pathOf(t);
  const networks = drawnNetworks(4, 1);
  const provenance = { source: "drawn by a test", seed: "1" };
  await writeCostNetworks(path, networks, provenance);
  t.deepEqual(readCostNetworks(path), { networks, provenance });
  const bytes = readFileSync(path);
  await writeCostNetworks(path, networks, provenance);
  sameValues(t, readFileSync(path), bytes);
});

test("a file whose networks read other table features, or that does not name them, is refused", async (t) => {
  const path = pathOf(t);
  const traffic = { ...drawnNetworks(2, 1), features: "traffic" } as const;
  await writeCostNetworks(path, traffic, {});
  const refused = (message: RegExp) => {
    t.throws(() => readCostNetworks(path), { instanceOf: InputUnusableError, message });
  };
  refused(/`table\.0` takes 20, not 18/);
  await writeCostNetworks(path, drawnNetworks(2, 1), {});
  const text = readFileSync(path, "latin1").replace(
    '"features":"published"',
    '"seatures":"published"',
  );
  writeFileSync(path, text, "latin1");
  refused(/its metadata lack `kind: osiris cost networks 1`, or the features of tables/);
});

test("a file that has no valid cost networks is refused, with the command that makes one", async (t) => {
  const path = pathOf(t);
  const refused = (message: RegExp) => {
    t.throws(() => readCostNetworks(path), { instanceOf: InputUnusableError, message });
  };
  refused(/Cannot read .*networks\.safetensors/);
  writeFileSync(path, "not at all");
  refused(/Expected a safetensors file/);
  const networks = drawnNetworks(4, 1);
  const cases: [CostNetworks, RegExp][] = [
    [
      { ...networks, devices: 8 },
      /`forward\.0` takes 8, not 16; `osiris plan --calibrate --learn` makes/,
    ],
    [{ ...networks, head: [] }, /it has no layers `head`/],
    [{ ...networks, head: networks.table.layers }, /`head\.0` takes 20, not 4/],
    [{ ...networks, backward: networks.forward }, /`backward\.0` takes 8, not 4/],
    [
      { ...networks, table: { ...networks.table, standard: { mean: [0], deviation: [1] } } },
      /`table\.mean` has 1 numbers, not 20/,
    ],
    [{ ...networks, head: networks.head.slice(0, 1) }, /`head` gives 5, not 1/],
  ];
  for (const [own, message] of cases) {
    await writeCostNetworks(path, own, {});
    refused(message);
  }
  await writeCostNetworks(path, networks, {});
  const text = readFileSync(path, "latin1").replace("osiris cost networks", "osiris lost networks");
  writeFileSync(path, text, "latin1");
  refused(/its metadata lack `kind: osiris cost networks 1`/);
});
