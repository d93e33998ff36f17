// Question: what do checkpoints cost? How long a device stalls for a cut; the processor time of
// taking, writing, hashing and reading back, over that of training in the interval; the bytes that
// each policy writes for a Zipf workload; and the time per table with many tables.

import { Option } from "commander";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { createPartQuantiser } from "../../src/embedding/checkpoint/rows-part.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { modelOptions, rowWiseAdagrad } from "../../src/model/options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { CheckpointSpec } from "../../src/training/checkpoint/checkpoint-options.ts";
import { createCutter } from "../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../src/training/loop/inference-device.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import {
  needsBaseline,
  writtenAfter,
} from "../../storage/checkpoints/store/full-or-incremental.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";
import { createSaving } from "../../storage/checkpoints/store/part-writer.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import {
  type Bench,
  type Measurement,
  notNegative,
  positiveOption,
  single,
  together,
} from "../bench.ts";
import { configuration } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { optimizerOf } from "../step/optimizers.ts";
import { tableCounts, tablesNames, tablesRows } from "./many-tables.ts";

interface RecoveryBenchOptions {
  /** Cuts of each kind that are timed. */
  readonly rounds: number;
  /** Share of the rows that change in an interval of the timed cuts. */
  readonly changed: number;
}

export const recoveryBench: Bench<RecoveryBenchOptions> = {
  question: "what checkpoints cost: stalls, processor time, and bytes of each policy",
  options: [
    positiveOption("--rounds <count>", "number of timed cuts", 3),
    new Option("--changed <share>", "share of the rows that change between cuts")
      .argParser(notNegative)
      .default(0.26),
  ],
  measurements(options) {
    const cuts = together(cutNames, 15 + 5 * options.rounds, () => cutRows(options));
    const many = tableCounts.map((count) =>
      together(tablesNames(count), 2 + count / 500, () =>
        tablesRows(count, () => smallTables(count), options.rounds),
      ),
    );
    return [cuts, ...shares.flatMap((share) => bytesMeasurements(share)), ...many];
  },
};

/** Cores that training uses. */
const cores = 2;

/** A device with a whole model as if it were trained; no lookup takes place. */
function deviceOf(model: ReturnType<typeof modelOptions.parse>): DeviceState {
  const optimizer = optimizerOf({ kind: "adam" }, rowWiseAdagrad({ learningRate: 0.05 }));
  const idsMax = model.tables.map(() => 1);
  return createSoloDevice({
    input: { model, slices: 8, idsMax, batchSize: 8 },
    recipe: { optimizer, seed: 1 },
    kernels: openKernels("auto"),
    hasIncrements: true,
  });
}

/** A device with many tables of 4 kB each. */
function smallTables(count: number): DeviceState {
  const tables = Array.from({ length: count }, (_, i) => ({ name: `T${i}`, rows: 16, dim: 64 }));
  const mlp = { bottom: [64], top: [1] };
  return deviceOf(
    modelOptions.parse({ kind: "dlrm", dense: 1, tables, interaction: "cat", ...mlp }),
  );
}

/** Marks some rows of every table as changed, as an update does. */
function touch(device: DeviceState, rowsOf: (rows: number) => Iterable<number>): void {
  for (const { touched } of device.slab.rowsOf)
    for (const row of rowsOf(touched.length)) touched[row] = 1;
}

/** Seconds between two checkpoints. */
const overheadIntervals = [60, 600] as const;
const cutNames = [
  "checkpoint.stall.baseline",
  "checkpoint.stall",
  ...overheadIntervals.flatMap((interval) => {
    const name = `checkpoint.overhead.${interval}s`;
    return [`${name}.baseline`, name];
  }),
];

/** Measures cuts of configuration b on one device. */
async function cutRows(options: RecoveryBenchOptions): Promise<BenchRow[]> {
  const device = deviceOf(configuration("b").model);
  const stream = new RandomStream(5, 6, 7);
  using home = temporaryHome("cuts-");
  const store = openStore({ directory: home.path, jobIdentity: "b", jobText: "{}" });
  const { generation } = store.beginGeneration();
  const differential = "one-shot";
  const about = { generation, owner: "d0", differential, manifest: undefined } as const;
  const saving = createSaving({ ...about, store });
  const cutter = createCutter(device, { differential, restored: [] });
  const rows: BenchRow[] = [];
  const memory = new Uint8Array(64 * 1024 * 1024);
  let cut = 0;
  /** Takes a cut into memory, as into a pipe, and then writes and commits it. */
  const take = async (isBaseline: boolean) => {
    const startMs = performance.now();
    const start = process.cpuUsage();
    const parts: { part: ReturnType<typeof cutter>[number]; pieces: Uint8Array[] }[] = [];
    let at = 0;
    for (const part of cutter(isBaseline)) {
      const pieces: Uint8Array[] = [];
      for await (const bytes of part.bytes()) {
        at = at + bytes.length > memory.length ? 0 : at;
        memory.set(bytes, at);
        at += bytes.length;
        pieces.push(bytes);
      }
      parts.push({ part, pieces });
    }
    const stallMs = performance.now() - startMs;
    cut++;
    for (const { part, pieces } of parts) {
      saving.begin(cut, part.name, part.isWhole);
      for (const bytes of pieces) saving.write(bytes);
      saving.end(await part.leaves());
    }
    store.commit({
      ...{ run: "r", cut, generation, metrics: null, position: null, best: false },
      parts: saving.finish().map(({ leaves: _leaves, ...part }) => part),
      ...{ modelDigest: "d", arithmetic: "any", createdBy: "bench" },
    });
    await store.collect({ generation, keep: 1 });
    const { user, system } = process.cpuUsage(start);
    return { stallMs, cpuSeconds: (user + system) / 1e6 };
  };
  touch(device, (count) => Array(count).keys());
  const [stalls, seconds]: [number[], number[]] = [[], []];
  const whole = await take(true);
  for (let round = 0; round < options.rounds; round++) {
    touch(device, function* (count) {
      for (let row = 0; row < count; row++) if (stream.uniform() < options.changed) yield row;
    });
    const { stallMs, cpuSeconds } = await take(false);
    stalls.push(stallMs);
    seconds.push(cpuSeconds);
  }
  const row = (name: string, unit: string, values: readonly number[]) => {
    const { median, spread } = quantiles(values);
    rows.push({ name, figure: median, unit, spread });
  };
  row("checkpoint.stall.baseline", "ms", [whole.stallMs]);
  row("checkpoint.stall", "ms", stalls);
  for (const interval of overheadIntervals) {
    const share = (one: number) => (100 * one) / (interval * cores);
    row(`checkpoint.overhead.${interval}s.baseline`, "%", [share(whole.cpuSeconds)]);
    row(`checkpoint.overhead.${interval}s`, "%", seconds.map(share));
  }
  return rows;
}

/** Intervals of a run, and the approximate share of the rows that each changes. */
const intervals = 12;
const shares = [0.1, 0.35] as const;

/** `checkpoint.bytes`: the bytes of each policy, against all rows in float32 at every cut. */
function bytesMeasurements(share: number): Measurement[] {
  let full: Promise<number[]> | undefined;
  return (["one-shot", "consecutive", "intermittent"] as const).flatMap((differential) =>
    ([32, 4] as const).map((bits) => {
      const name = `checkpoint.bytes.${100 * share}.${differential}.${bits}`;
      return single(name, 5, async () => {
        full ??= writtenBytes("none", 32, share);
        const whole = await full;
        const own = await writtenBytes(differential, bits, share);
        const times = whole.map((bytes, i) => bytes / (own[i] ?? bytes));
        const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0);
        const { spread } = quantiles(times);
        return { name, figure: sum(whole) / sum(own), unit: "times fewer bytes", spread };
      });
    }),
  );
}

/** Bytes of each checkpoint after the first, which has all rows of the run. */
export async function writtenBytes(
  differential: CheckpointSpec["differential"],
  bits: 32 | 4,
  share: number,
  count = 20_000,
): Promise<number[]> {
  const tables = [{ name: "T0", rows: count, dim: 64 }];
  const device = deviceOf(
    modelOptions.parse({ kind: "dlrm", dense: 1, tables, bottom: [64], top: [1] }),
  );
  const zipf = new Zipf(count, 1.05);
  const stream = new RandomStream(2, 4, 6);
  const cutter = createCutter(device, { differential, restored: [] });
  let latest: Pick<Manifest, "written" | "parts"> | undefined;
  const all: number[] = [];
  touch(device, (rows) => Array(rows).keys());
  for (let interval = 0; interval <= intervals; interval++) {
    const isBaseline = needsBaseline(differential, latest);
    let bytes = 0;
    for (const part of cutter(isBaseline)) {
      const stored = bits === 32 ? (piece: Uint8Array) => piece : createPartQuantiser(bits);
      for await (const piece of part.bytes()) bytes += stored(piece).length;
    }
    const place = { file: "all", at: 0, sha256: "" };
    const base = isBaseline ? [] : [{ ...place, cut: 0, generation: 1, bytes: 0 }];
    const parts = [{ ...place, name: "all", bytes, base }];
    latest = { written: writtenAfter(latest?.written, parts), parts };
    if (interval > 0) all.push(bytes);
    const drawn = new Set<number>();
    while (drawn.size < share * count) drawn.add(zipf.draw(() => stream.uniform()));
    touch(device, () => drawn);
  }
  return all;
}
