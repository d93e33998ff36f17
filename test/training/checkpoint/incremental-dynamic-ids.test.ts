// Incremental checkpoints of tables with evicted ids: rows without an id are not restored, and the
// incrementally updated digest equals the digest of all rows.

import test from "ava";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import type { CheckpointSpec } from "../../../src/training/checkpoint/checkpoint-options.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createCutter, partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import { batches, inputOf, recipe, tables } from "../../helpers/batches/dynamic-scene.ts";
import { type LocalDevices, startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { bytesOf } from "../../helpers/devices/parts.ts";
import { rounds } from "../../helpers/thinned.ts";

type Files = Map<string, readonly Buffer[]>;

interface Place {
  readonly devices: number;
  readonly tier: "memory" | "cached";
}

function start({ devices, tier }: Place): LocalDevices {
  const own = tables.map((table) => ({ ...table, tier, sharding: "row-wise" as const }));
  const input = inputOf(own, { tiers: tiersOptions.parse({ hbmBytes: 1 }) });
  const kernels = () => openKernels("auto");
  return startLocalDevices({ input, recipe, devices, kernels, hasIncrements: true });
}

/** Digests of the reference run after each step. */
const undisturbed = (async () => {
  const local = start({ devices: 1, tier: "memory" });
  const digests = [await local.digest()];
  for (const [step, batch] of batches.entries()) {
    await local.train(batch, step);
    digests.push(await local.digest());
  }
  return digests;
})();

/** Begins a generation that restores from files, newest first, and saves into them. */
async function begin(
  local: LocalDevices,
  files: Files,
  differential: CheckpointSpec["differential"],
) {
  for (const state of local.states) {
    for (const name of partsNeeded(state, [...files.keys()].reverse())) {
      await restorePart(
        state,
        name,
        (files.get(name) ?? []).map((file) => [file][Symbol.iterator]()),
      );
    }
  }
  const restored = [...files.keys()].map((name) => ({ name }));
  const cutters = local.states.map((state) => createCutter(state, { differential, restored }));
  return async () => {
    const saved: Files = new Map();
    const leaves = new Map<string, readonly string[]>();
    for (const part of cutters.flatMap((cutter) => cutter(differential === "none"))) {
      const before = files.get(part.name) ?? [];
      const rest = differential === "consecutive" ? before : before.slice(-1);
      const file = await bytesOf(part.bytes());
      saved.set(part.name, part.isWhole ? [file] : [file, ...rest]);
      leaves.set(part.name, await part.leaves());
    }
    files.clear();
    for (const [name, own] of saved) files.set(name, own);
    return digestOf(leaves, local.topology.input.model.tables);
  };
}

for (const differential of ["none", "one-shot", "consecutive"] as const) {
  test(`evicted rows are in no restore, and in no digest: ${differential}`, async (t) => {
    const expected = await undisturbed;
    let layers = 0;
    for (let seed = 0; seed < rounds("seeds of rows without ids", 2, 6); seed++) {
      const stream = new RandomStream(8, 4, seed);
      const files: Files = new Map();
      const placeOf = (): Place => {
        return { devices: 1 + stream.below(3), tier: stream.below(2) === 0 ? "memory" : "cached" };
      };
      let place = placeOf();
      for (let step = 0; step < batches.length; ) {
        if (stream.below(3) === 0) place = placeOf();
        const local = start(place);
        const save = await begin(local, files, differential);
        t.is(await local.digest(), expected[step] ?? "", `seed ${seed}, restored at ${step}`);
        for (let left = 1 + stream.below(3); left > 0 && step < batches.length; left--) {
          const to = Math.min(batches.length, step + 1 + stream.below(4));
          for (; step < to; step++) {
            const batch = batches[step];
            if (batch !== undefined) await local.train(batch, step);
          }
          t.is(await save(), expected[step] ?? "", `seed ${seed}, cut ${step}`);
          layers = Math.max(layers, ...[...files.values()].map(({ length }) => length));
        }
      }
    }
    t.true(differential === "none" ? layers === 1 : layers > 1, `${layers} layers`);
  });
}
