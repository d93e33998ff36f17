// Power is lost at every single operation of a run that commits three checkpoints and collects old
// ones. After each crash the store opens again, its newest checkpoint is the one before or the one
// after the crash point, complete and right byte for byte, nothing counts as damaged, and the run
// can finish.

import test, { type ExecutionContext } from "ava";
import { SimulatedCrash, SimulatedDisk } from "../../../../src/ports/simulated-disk.ts";
import { openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { commitCheckpoint, contentOf, testJob } from "../../../helpers/stores/checkpoints.ts";
import { rounds, someOrAll } from "../../../helpers/thinned.ts";

const cuts = [10, 20, 30];
/** The parts of cut 10 share a pack; at later cuts the first one fills it, and there are two. */
const packBytes = 60;
/** Seeds for the part of unsynced writes that survives a power cut; undefined: nothing survives. */
const seeds = [undefined, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/**
 * Resumes from the newest checkpoint and trains to the last cut; calls `committed` after every
 * commit.
 */
async function train(
  t: ExecutionContext,
  disk: SimulatedDisk,
  committed: (cut: number) => void,
): Promise<number> {
  const store = openStore({ directory: "/home/run", disk, packBytes, ...testJob });
  const { generation, latest, damaged } = store.beginGeneration();
  const chain = store.list();
  t.deepEqual([damaged, chain.damaged], [[], []]);
  for (const manifest of chain.manifests) {
    for (const { name } of manifest.parts) {
      t.deepEqual(store.readWholePart(manifest, name), contentOf(manifest.cut, name));
    }
  }
  const from = latest?.cut ?? 0;
  committed(from);
  await store.collect({ generation, keep: 1 });
  for (const cut of cuts.filter((one) => one > from)) {
    commitCheckpoint(store, { generation, cut, best: cut === 10 });
    committed(cut);
    await store.collect({ generation, keep: 1 });
  }
  t.deepEqual(
    store.list().manifests.map((one) => one.cut),
    [30, 10],
  );
  return from;
}

function joined(pieces: Iterable<Uint8Array>): Uint8Array {
  return Uint8Array.from([...pieces].flatMap((piece) => [...piece]));
}

/** Like `train`, but cuts 20 and 30 are increments on the cut before; 40 is a baseline. */
async function trainInIncrements(
  t: ExecutionContext,
  disk: SimulatedDisk,
  committed: (cut: number) => void,
): Promise<number> {
  const store = openStore({ directory: "/home/run", disk, packBytes, ...testJob });
  let { generation, latest, damaged } = store.beginGeneration();
  const chain = store.list();
  t.deepEqual([damaged, chain.damaged], [[], []]);
  for (const manifest of chain.manifests) {
    for (const { name, base } of manifest.parts) {
      const files = store.readFiles(manifest, name).map(joined);
      const ofCuts = [manifest.cut, ...base.map(({ cut }) => cut).reverse()];
      t.deepEqual(
        files,
        ofCuts.map((cut) => contentOf(cut, name)),
      );
    }
  }
  const from = latest?.cut ?? 0;
  committed(from);
  await store.collect({ generation, keep: 1 });
  for (let cut = from + 10; cut <= 40; cut += 10) {
    const on = cut === 40 ? undefined : latest;
    latest = commitCheckpoint(store, { generation, cut, on });
    committed(cut);
    await store.collect({ generation, keep: 1 });
    const left = store.list().manifests.map((one) => one.cut);
    t.deepEqual(left, cut === 40 ? [40] : [30, 20, 10].filter((one) => one <= cut));
  }
  return from;
}

/** Trains and swallows the simulated crash; returns the newest cut whose commit completed. */
async function trainUntilCrash(
  t: ExecutionContext,
  disk: SimulatedDisk,
  run = train,
): Promise<number> {
  let newest = 0;
  try {
    await run(t, disk, (cut) => {
      t.true(cut >= newest, "a commit is never lost");
      newest = cut;
    });
  } catch (error) {
    if (!(error instanceof SimulatedCrash)) throw error;
  }
  return newest;
}

async function operationsOfARun(t: ExecutionContext, run = train): Promise<number> {
  const disk = new SimulatedDisk();
  await run(t, disk, () => undefined);
  return disk.operations;
}

test("after a crash at any operation the newest checkpoint is the old or the new one", async (t) => {
  const operations = await operationsOfARun(t);
  t.true(operations > 60);
  t.log(`${operations} operations a run`);
  for (const seed of someOrAll("crashes of a store", [undefined, 1], seeds)) {
    for (let at = 1; at <= operations; at++) {
      const disk = new SimulatedDisk(seed === undefined ? {} : { seed: seed * 1000 + at });
      disk.crashAt(at);
      const newest = await trainUntilCrash(t, disk);
      disk.crash();
      const from = await train(t, disk, () => undefined);
      t.true(from === newest || from === newest + 10, `seed ${seed}, operation ${at}: ${from}`);
    }
  }
});

test("after a crash at any operation a checkpoint has all the baselines that it rests on", async (t) => {
  const operations = await operationsOfARun(t, trainInIncrements);
  t.log(`${operations} operations a run`);
  for (const seed of someOrAll("crashes of increments", [1], seeds.slice(0, 5))) {
    for (let at = 1; at <= operations; at++) {
      const disk = new SimulatedDisk(seed === undefined ? {} : { seed: seed * 1000 + at });
      disk.crashAt(at);
      const newest = await trainUntilCrash(t, disk, trainInIncrements);
      disk.crash();
      const from = await trainInIncrements(t, disk, () => undefined);
      t.true(from === newest || from === newest + 10, `seed ${seed}, operation ${at}: ${from}`);
    }
  }
});

test("a run that crashes again and again while it recovers loses no commit", async (t) => {
  for (let seed = 1; seed <= rounds("crashes again and again", 5, 40); seed++) {
    const disk = new SimulatedDisk({ seed });
    let newest = 0;
    for (let crashes = 0; crashes < 12; crashes++) {
      disk.crashAt(1 + ((seed * 31 + crashes * 17) % 45));
      const reached = await trainUntilCrash(t, disk);
      t.true(reached === 0 || reached >= newest, `seed ${seed}: ${reached} after ${newest}`);
      newest = Math.max(newest, reached);
      disk.crash();
    }
    t.true((await train(t, disk, () => undefined)) >= newest);
  }
});

test("after a process dies without a power cut, the next one continues with its store", async (t) => {
  const operations = await operationsOfARun(t);
  for (let at = 1; at <= operations; at++) {
    const disk = new SimulatedDisk();
    disk.failAt(at, "EIO");
    try {
      await train(t, disk, () => undefined);
    } catch (error) {
      t.true(error instanceof Error && error.message.includes("EIO"), String(error));
    }
    await train(t, disk, () => undefined);
  }
});

test("a checkpoint that a generation resumed from survives, though its writer died unsynced", (t) => {
  const disk = new SimulatedDisk();
  const store = openStore({ directory: "/run", disk, ...testJob });
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  // The writer dies between renaming the manifest and syncing its directory entry.
  const rename = disk.rename.bind(disk);
  disk.rename = (from, to) => {
    rename(from, to);
    if (to.endsWith("manifest.json")) disk.failAt(1, "EIO");
  };
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 20 }), { message: /EIO/ });
  t.is(store.beginGeneration().latest?.cut, 20);
  disk.crash();
  const begun = openStore({ directory: "/run", disk, ...testJob }).beginGeneration();
  t.is(begun.latest?.cut, 20);
  t.deepEqual(begun.damaged, []);
});
