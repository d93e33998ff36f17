// The bytes that a recovery reads: hosts that live reset the rows in their memory to the
// checkpoint, and only the rows of lost hosts are read.

import test from "ava";
import type { SimulatedCluster } from "../../../chaos/simulation/cluster.ts";
import { addJob, directory, jobs } from "../../../chaos/simulation/jobs.ts";
import { referenceOf } from "../../../chaos/simulation/simulate.ts";
import { loseThread, type StoryOptions, storyOf } from "../../helpers/simulated.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const tables = ["a", "b", "c", "d"].map((name) => ({ name, rows: 200, dim: 16 }));

/** Bytes of the weights of a table. */
const weightBytes = 200 * 16 * 4;

/** One table a device; its bytes are those of weights and state of 200 rows. */
const plain = {
  model: { kind: "dlrm", dense: 2, tables, bottom: [16], top: [1] },
  optimizer: { dense: { kind: "sgd" }, sparse: { kind: "rowWiseAdagrad" } },
  checkpoint: { everySteps: 3, directory, buddyBytes: 0 },
} as const;

const plainJob = addJob(plain);

/** Runs a job while something breaks; returns the bytes of its first recovery. */
async function recoveryOf(number: number, options: StoryOptions) {
  const { events } = await storyOf(number, options);
  const [recovered] = events.filter((event) => event.type === "run.recovered");
  return recovered;
}

/** Bytes that a recovery reads and keeps; `undoBytes` of 0: it keeps no rows. */
async function readWith(options: StoryOptions, more: { readonly undoBytes?: number } = {}) {
  const reference = await referenceOf(plainJob);
  const number = addJob({ ...plain, checkpoint: { ...plain.checkpoint, ...more } });
  const recovered = await recoveryOf(number, { ...options, reference });
  if (recovered?.type !== "run.recovered") throw new Error("No run recovered");
  return { read: recovered.storeBytes, kept: recovered.keptBytes };
}

const lostThread: StoryOptions = {
  devices: [2],
  breakIt: (cluster) => loseThread(cluster, "device-1"),
};
let readAll: number | undefined;

/** Bytes that a recovery without kept rows reads: all rows, whatever the number of devices. */
async function bytesOfAll(): Promise<number> {
  readAll ??= (await readWith(lostThread, { undoBytes: 0 })).read;
  return readAll;
}

test.serial("after a lost thread rows are reset in memory, and no table is read", async (t) => {
  const found = await readWith(lostThread);
  t.log(JSON.stringify(found));
  t.true(found.read < 0.2 * (await bytesOfAll()) && found.kept > 0);
  for (const number of someOrAll("jobs whose thread is lost", [4], [...jobs.keys()])) {
    const reference = await referenceOf(number);
    const recovered = await recoveryOf(number, { ...lostThread, reference });
    t.true(recovered?.type === "run.recovered" && recovered.keptBytes > 0, `job ${number}`);
  }
});

test.serial("after the loss of one of four hosts only its rows are read", async (t) => {
  const ways: readonly [string, NonNullable<StoryOptions["breakIt"]>][] = [
    ["a successor takes its place", (cluster) => cluster.kill(2)],
    ["the others take its rows", (cluster) => cluster.processAt(2)?.stop()],
  ];
  for (const [name, breakIt] of ways) {
    const found = await readWith({ devices: [1, 1, 1, 1], breakIt });
    t.log(name, JSON.stringify(found));
    t.true(found.read < 0.4 * (await bytesOfAll()), name);
  }
});

test.serial("increments of a replicated table continue from its hashed copy", async (t) => {
  const b = { name: "b", rows: 200, dim: 16, sharding: "data-parallel" } as const;
  const model = { ...plain.model, tables: [{ name: "a", rows: 200, dim: 16 }, b] };
  const checkpoint = { ...plain.checkpoint, differential: "one-shot" } as const;
  const number = addJob({ ...plain, checkpoint, model });
  const reference = await referenceOf(number);
  for (const seed of [1, 2, 3]) {
    // Generation 2 reads all rows, because no cut has hashes of the other device's copy.
    const breakIt = (cluster: SimulatedCluster) => {
      cluster.kill(0);
      let isLost = false;
      cluster.onEvent(({ type, generation }) => {
        if (isLost || type !== "run.checkpointed" || generation === 1) return;
        isLost = true;
        loseThread(cluster, "device-1");
      });
    };
    // The seed decides which thread is the first to report its copy.
    const { events } = await storyOf(number, { devices: [2], breakIt, reference, seed });
    const recovered = events.find((event) => event.type === "run.recovered");
    t.true(recovered?.type === "run.recovered" && recovered.keptBytes > 3 * weightBytes);
  }
});

test.serial("a thread that ends in a step that others have left changes no bit", async (t) => {
  const reference = await referenceOf(plainJob);
  for (const devices of [[2], [1, 1]]) {
    let isLost = false;
    const breakIt = (cluster: SimulatedCluster) => {
      /** The last rounds of dense gradients that device 0 has summed and device 1 waits for. */
      let [left, reached] = [0, 0];
      cluster.threads.cellsOver = (cells, thread) => {
        const [isFirst, isLast] = ["0", "1"].map((rank) => thread.name.endsWith(`/device-${rank}`));
        return {
          ...cells,
          async waitUntil(wait, isTrue, of) {
            const [, round = "0"] = /add up the dense gradients \(round (\d+)/.exec(wait()) ?? [];
            if (isLast === true) reached = Math.max(reached, Number(round));
            await cells.waitUntil(wait, isTrue, of);
            if (isFirst === true) left = Math.max(left, Number(round));
            if (isLost || isLast !== true || left <= reached || left < 5) return;
            isLost = true;
            thread.lose("it ended");
          },
        };
      };
    };
    await storyOf(plainJob, { devices, breakIt, reference, at: "run.prepared" });
    t.true(isLost, `${devices}`);
  }
});
