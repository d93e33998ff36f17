// Checkpoints of many small tables: time of writing and of restoring a table, and how long the
// coordinator's thread is busy without a pause. All the work of a real checkpoint is done, on the
// disk of the working directory, but without a cluster.

import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { realDisk } from "../../src/ports/disk.ts";
import { createPartTally, digestOf } from "../../src/training/checkpoint/part-names.ts";
import { createCutter, partsNeeded, restorePart } from "../../src/training/checkpoint/parts.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import type {
  CheckpointStore,
  Manifest,
} from "../../storage/checkpoints/store/checkpoint-store.ts";
import { openParts } from "../../storage/checkpoints/store/open-parts.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";
import {
  createSaving,
  type SavedPart,
  type Saving,
} from "../../storage/checkpoints/store/part-writer.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import type { BenchRow } from "../row.ts";
import { quantiles } from "../row.ts";

/** Counts of tables; in the last one the limits of a run are reached. */
export const tableCounts = [100, 1000, 10_000] as const;

const kinds = ["write", "restore", "busy", "manifest"] as const;

/** Names of the rows of `count` tables. */
export function tablesNames(count: number): string[] {
  return kinds.map((kind) => `checkpoint.tables.${count}.${kind}`);
}

/** The checkpoints of a device with `count` tables, a baseline and increments on it. */
export async function tablesRows(
  count: number,
  deviceOf: () => DeviceState,
  rounds: number,
): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-bench-");
  const device = deviceOf();
  const store = openStore({ directory: home.path, jobIdentity: "b", jobText: "{}" });
  const { generation } = store.beginGeneration();
  const about = { generation, owner: "d0", differential: "one-shot", manifest: undefined };
  const saving = createSaving({ ...about, store, differential: "one-shot" });
  const cutter = createCutter(device, { differential: "one-shot", restored: [] });
  const [writes, restores, busy, sizes]: [number[], number[], number[], number[]] = [
    [],
    [],
    [],
    [],
  ];
  let bytes = 0;
  for (let cut = 1; cut <= 1 + rounds; cut++) {
    for (const { touched } of device.slab.rowsOf) touched.fill(1);
    const startMs = performance.now();
    const parts = await save(saving, cutter(cut === 1), cut);
    writes.push((performance.now() - startMs) / count);
    const made = await commit(store, { generation, cut, parts, device });
    busy.push(made.busyMs);
    sizes.push(store.manifestText(made.manifest).length / 1e6);
    const restored = deviceOf();
    restores.push((await restore(home.path, made.manifest, restored)) / count);
    bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
  }
  const bare = bareTimes(home.path, bytes);
  const limitIs = "the same bytes in one file";
  const [writeLimit, readLimit] = [bare.writeMs / count, bare.readMs / count];
  const row = (kind: (typeof kinds)[number], unit: string, values: readonly number[]) => {
    const { median: figure, spread } = quantiles(values);
    return { name: `checkpoint.tables.${count}.${kind}`, figure, unit, spread };
  };
  return [
    { ...row("write", "ms a table", writes), limit: writeLimit, limitIs },
    { ...row("restore", "ms a table", restores), limit: readLimit, limitIs },
    row("busy", "ms", busy),
    row("manifest", "MB", sizes),
  ];
}

/** Saves a checkpoint as a device and its writer do at a cut. */
async function save(
  saving: Saving,
  parts: ReturnType<ReturnType<typeof createCutter>>,
  cut: number,
): Promise<SavedPart[]> {
  for (const part of parts) {
    saving.begin(cut, part.name, part.isWhole);
    for await (const bytes of part.bytes()) saving.write(bytes);
    saving.end(await part.leaves());
  }
  return saving.finish();
}

/** Commits the reported parts as the checkpoint coordinator does, and times its longest turn. */
async function commit(
  store: CheckpointStore,
  made: { generation: number; cut: number; parts: SavedPart[]; device: DeviceState },
): Promise<{ manifest: Manifest; busyMs: number }> {
  const { generation, cut, parts, device } = made;
  const { tables } = device.topology.input.model;
  const turns = watchTurns();
  const tally = createPartTally(tables);
  for (const { name } of parts) tally.add(name);
  if (!tally.isWhole) throw new RangeError(`missing: ${tally.missing().slice(0, 3)}`);
  await setImmediate();
  const modelDigest = digestOf(new Map(parts.map((part) => [part.name, part.leaves])), tables);
  await setImmediate();
  const manifest = store.commit({
    ...{ run: "r", cut, generation, metrics: null, position: null, best: false },
    parts: parts.map(({ leaves: _leaves, ...part }) => part),
    ...{ modelDigest, arithmetic: "any", createdBy: "bench" },
  });
  await setImmediate();
  await store.collect({ generation, keep: 1 });
  return { manifest, busyMs: await turns() };
}

/** Watches the turns of the event loop; the function returns the longest one so far, in ms. */
function watchTurns(): () => Promise<number> {
  let longestMs = 0;
  let isOver = false;
  const watching = (async () => {
    for (let lastMs = performance.now(); !isOver; ) {
      await setImmediate();
      const nowMs = performance.now();
      longestMs = Math.max(longestMs, nowMs - lastMs);
      lastMs = nowMs;
    }
  })();
  return async () => {
    isOver = true;
    await watching;
    return longestMs;
  };
}

/** Milliseconds in which a new device restores the checkpoint. */
async function restore(
  directory: string,
  manifest: Manifest,
  device: DeviceState,
): Promise<number> {
  const startMs = performance.now();
  const parts = openParts(directory, realDisk);
  const names = manifest.parts.map(({ name }) => name);
  for (const name of partsNeeded(device, names)) {
    await restorePart(device, name, parts.readFiles(manifest, name));
  }
  parts.close();
  return performance.now() - startMs;
}

/** Milliseconds in which bytes are written to one file and synced, and read from it. */
function bareTimes(directory: string, bytes: number): { writeMs: number; readMs: number } {
  const all = new Uint8Array(bytes);
  const path = join(directory, "bare");
  const startMs = performance.now();
  const file = realDisk.open(path, "write");
  file.write(all, 0);
  file.sync();
  const writtenMs = performance.now();
  file.read(all, 0);
  const readMs = performance.now() - writtenMs;
  file.close();
  return { writeMs: writtenMs - startMs, readMs };
}
