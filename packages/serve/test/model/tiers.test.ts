// A served model whose tables lie on disk, with a cache of rows in memory, answers like one with
// all rows in memory: bit for bit, before and after deltas, within its memory budget.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { EncodedBatch } from "../../../../src/data/batch-rows.ts";
import type { SampleRecord } from "../../../../src/data/records.ts";
import {
  InvalidOptionError,
  ModelClosedError,
  RecordCorruptError,
  TierDiskFullError,
  TierReadError,
} from "../../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../../src/job/job.ts";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { recordBytesOf } from "../../../../src/kernels/contract/records.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import { type Disk, type DiskFile, realDisk } from "../../../../src/ports/disk.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { servedStateWidth } from "../../../../src/serving/served-memory.ts";
import { scorerOf } from "../../../../storage/model/predictor.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawBatch } from "../../../../test/helpers/models/onnx.ts";
import { startCutModel } from "../../../../test/helpers/stores/cut-model.ts";
import { tierPlacesOf } from "../../model/choose-tiers.ts";
import { exportDelta } from "../../model/export-delta.ts";
import { ServedModel } from "../../model/served-model.ts";
import { TieredTable } from "../../model/tiered-table.ts";

const tables = [
  { name: "a", rows: 3000, dim: 4, rowBlocks: 4 as const },
  { name: "b", rows: 2500, dim: 4, pooling: "mean" as const },
  { name: "c", rows: 4000, dim: 4, precision: "int8" as const },
  { name: "d", rows: 3500, dim: 4, precision: "float16" as const },
  { name: "e", rows: 60, dim: 4 },
];
/** Bytes of the budget: all tables but `e` lie on disk, and no cache holds a tenth of its table. */
const memoryBytes = 150_000;

function jobOf(home: string, more: object = {}): JobOptions {
  return {
    model: { kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] },
    data: { kind: "synthetic", samples: 8, dense: 3, batchSize: 8 },
    checkpoint: { directory: join(home, "checkpoints"), differential: "consecutive" },
    ...more,
  } as JobOptions;
}

/** Trains a run to one cut. */
async function oneCut(t: ExecutionContext) {
  const home = startDirectory(t);
  const trained = startCutModel(jobOf(home));
  await trained.cut(3);
  return { ...trained, tierDirectory: join(home, "tiers") };
}

/** Trains a run to three cuts, and makes the deltas between them. */
async function threeCuts(t: ExecutionContext, more: object = {}) {
  const home = startDirectory(t);
  const trained = startCutModel(jobOf(home, more));
  const { directory, job } = trained;
  const first = await trained.cut(3);
  const deltas: string[] = [];
  for (let since = first; deltas.length < 2; ) {
    const later = await trained.cut(2);
    const delta = join(home, `${deltas.length}.delta`);
    await exportDelta(directory, delta, { since: since.sha256, manifest: later.sha256 });
    deltas.push(delta);
    since = later;
  }
  return { home, directory, job, first, deltas, tierDirectory: join(home, "tiers") };
}

function batchOf(job: ReturnType<typeof resolveJob>, turn: number, samples: number): EncodedBatch {
  const drawn = drawBatch(job, new RandomStream(4, 1, turn), { samples, idsMax: 3 });
  const isWide = job.model.tables.some(({ idBits }) => idBits === 64);
  return isWide ? { ...drawn, highs: new Int32Array(drawn.ids.length).fill(turn & 1) } : drawn;
}

const dynamic = {
  admission: { kind: "all" },
  eviction: { kind: "age", steps: 2 },
  everySteps: 2,
};
const variants: Record<string, object> = {
  "rows of every precision": {},
  "moving averages": {
    optimizer: {
      dense: { kind: "adam", ema: { decay: 0.9 } },
      sparse: { kind: "adagrad", ema: { decay: 0.9 } },
    },
  },
  "dynamic ids": {
    model: {
      ...{ kind: "dlrm", dense: 3, bottom: [5, 4], top: [6, 1] },
      tables: tables.map((table) => ({ ...table, idBits: 64, dynamic })),
    },
  },
};

for (const [name, more] of Object.entries(variants)) {
  test(`answers have the bits of a model in memory, through deltas: ${name}`, async (t) => {
    const { home, directory, job, first, deltas, tierDirectory } = await threeCuts(t, more);
    const { sha256: manifest } = first;
    await using whole = await ServedModel.open(directory, { manifest });
    await using tiered = await ServedModel.open(directory, {
      ...{ manifest, memoryBytes, tierDirectory },
    });
    t.deepEqual(
      tiered.onDisk.map(({ table }) => table),
      ["a", "b", "c", "d"],
    );
    t.true(tiered.onDisk.every(({ rows, cachedRows }) => cachedRows < rows / 3));
    t.deepEqual(readdirSync(tierDirectory), []); // Its files have no names.
    for (const delta of [undefined, ...deltas]) {
      if (delta !== undefined) {
        t.deepEqual(await tiered.applyDelta(delta), await whole.applyDelta(delta));
      }
      // Concurrent requests need more rows than fit into memory, and evict each other's rows.
      const batches = [1, 7, 300, 40].map((samples, turn) => batchOf(job, turn, samples));
      const answers = await Promise.all(batches.map((batch) => tiered.predictBatch(batch)));
      for (const [i, batch] of batches.entries()) {
        t.deepEqual(answers[i], await whole.predictBatch(batch));
      }
      const [own, other] = [join(home, "own.safetensors"), join(home, "other.safetensors")];
      await tiered.export(own);
      await whole.export(other);
      t.true(readFileSync(own).equals(readFileSync(other)));
    }
    const { hits, misses } = tiered.rowCounts;
    t.true(hits > 10 && misses > 10, `${hits} hits, ${misses} misses`);
    t.deepEqual(whole.rowCounts, { hits: 0, misses: 0 });
  });
}

test("a user's candidates are ranked as in memory, and records are scored", async (t) => {
  const { directory, tierDirectory } = await oneCut(t);
  await using whole = await ServedModel.open(directory);
  await using tiered = await ServedModel.open(directory, { memoryBytes, tierDirectory });
  const user: SampleRecord = { I1: 0.25, I2: -1, a: [3, 2999], b: 7 };
  const candidates = Array.from({ length: 1500 }, (_, i): SampleRecord => {
    return { c: (i * 37) % 4000, d: [i, 2 * i], e: i % 60 };
  });
  t.deepEqual(
    await tiered.rank(user, candidates, { top: 9 }),
    await whole.rank(user, candidates, { top: 9 }),
  );
  const records = candidates.map((candidate) => ({ ...user, ...candidate }));
  t.deepEqual(await tiered.predict(records), await whole.predict(records));
  t.deepEqual(await tiered.predict([]), await whole.predict([]));
  const bad = tiered.predict([{ ...user, c: 4000 }]);
  await t.throwsAsync(bad, { message: /4000/ });
  await t.throwsAsync(tiered.rank(user, [{ bb: 1 }]), { instanceOf: InvalidOptionError });
});

test("tiered: requests during a delta are answered, each by the version that it names", async (t) => {
  const { directory, job, first, deltas, tierDirectory } = await threeCuts(t);
  const { sha256: manifest } = first;
  await using tiered = await ServedModel.open(directory, {
    ...{ manifest, memoryBytes, tierDirectory },
  });
  const batch = batchOf(job, 1, 60);
  const right = new Map<string, Float32Array>();
  await using whole = await ServedModel.open(directory, { manifest });
  for (const delta of [undefined, ...deltas]) {
    if (delta !== undefined) await whole.applyDelta(delta);
    right.set(whole.version.digest, (await whole.predictBatch(batch)).scores);
  }
  t.is(right.size, 3);
  const seen = new Set<string>();
  const ask = async () => {
    const some = await Promise.all([tiered.predictBatch(batch), tiered.predictBatch(batch)]);
    for (const { scores, version } of some) {
      seen.add(version.digest);
      t.deepEqual(scores, right.get(version.digest));
    }
    // An answer from memory takes no turn of the event loop, and the deltas need one.
    await new Promise((resolve) => setImmediate(resolve));
  };
  await ask();
  let isOver = false;
  const applied = Promise.all(deltas.map((delta) => tiered.applyDelta(delta)));
  void applied.finally(() => (isOver = true)).catch(() => {});
  while (!isOver) await ask();
  await applied;
  await ask();
  t.true(seen.size > 1, "both the first and the last version answer");
  t.is(tiered.version.digest, whole.version.digest);
  const last = tiered.predictBatch(batch);
  await tiered.close();
  await t.throwsAsync(last, { instanceOf: ModelClosedError });
});

/** Bytes in memory of a table on disk, except for the bitmaps of its copies. */
function heldBytes(kernels: Kernels, { rows, indexes }: TieredTable): number {
  const { weights, state, codes, exponents, touched } = rows;
  const floats = [weights, state].map((tensor) => 4 * kernels.read(tensor).length);
  const arrays = indexes.flatMap((index) => {
    const { rowOf, stamps, pins, counts, spareTable, spareFree } = index;
    return [rowOf, stamps, pins, counts, spareTable, spareFree];
  });
  const lists = [...arrays, codes, exponents, touched].map(({ byteLength }) => byteLength);
  return [...floats, ...lists].reduce((sum, bytes) => sum + bytes, 0);
}

test("the caches keep to the memory budget, whatever it is", (t) => {
  const kernels = openKernels("auto");
  const large = tables.map((table) => ({ ...table, rows: 40 * table.rows }));
  const model = { kind: "dlrm", dense: 3, tables: large, bottom: [5, 4], top: [6, 1] };
  const job = resolveJob(jobOf("none", { model }));
  const { lookups } = scorerOf(job, kernels);
  const file = undefined as never; // The file is never read.
  let known = 0;
  for (const bytes of [5e5, 1e6, 2_222_222, 5e6, 9e6]) {
    const { shapes } = tierPlacesOf(job, lookups, realDisk, { memoryBytes: bytes });
    let held = 0;
    for (const [table, spec] of job.model.tables.entries()) {
      const shape = shapes[table];
      const width = servedStateWidth(job.optimizer.sparse, spec.dim);
      if (shape === undefined) {
        held += spec.rows * 2 * (recordBytesOf(spec, width) + 1); // With room for a delta.
        continue;
      }
      const birth = { spec, table, key: [0, 0] as never };
      held += spec.rows / 2; // The bitmaps of two versions' copies.
      held += heldBytes(kernels, new TieredTable(kernels, birth, shape, file, width));
    }
    t.true(held <= bytes, `${held} of ${bytes}`);
    t.true(held > known && held > bytes / 3, `${held} of ${bytes}`);
    known = held;
  }
  const all = tierPlacesOf(job, lookups, realDisk, {}).shapes;
  t.true(all.every((shape) => shape === undefined));
  const enough = tierPlacesOf(job, lookups, realDisk, { memoryBytes: 2 ** 30 }).shapes;
  t.true(enough.every((shape) => shape === undefined));
  for (const bytes of [0, -1, 0.5, 10_000]) {
    t.throws(() => tierPlacesOf(job, lookups, realDisk, { memoryBytes: bytes }), {
      instanceOf: InvalidOptionError,
      message: /^Expected `memoryBytes` to be /,
    });
  }
});

test("a sample with more rows than memory has room for is refused, naming the table", async (t) => {
  const { directory, tierDirectory } = await oneCut(t);
  await using whole = await ServedModel.open(directory);
  await using tiered = await ServedModel.open(directory, { memoryBytes, tierDirectory });
  const many: SampleRecord = { c: Array.from({ length: 3000 }, (_, i) => i) };
  const few: SampleRecord = { c: [1, 2, 3] };
  await t.throwsAsync(tiered.predict([few, many]), {
    instanceOf: InvalidOptionError,
    message: /^Expected `memoryBytes` to be room for the 3000 rows of table `c` that one sample/,
  });
  t.deepEqual(await tiered.predict([few, few]), await whole.predict([few, few]));
});

/** The real disk, with `change` applied to the `.rows` files of tables. */
function diskWith(change: (file: DiskFile) => Partial<DiskFile>): Disk {
  return {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      return path.endsWith(".rows") ? { ...file, ...change(file) } : file;
    },
  };
}

test("a failed read fails one call, and is repeated by the next", async (t) => {
  const { directory, job, tierDirectory } = await oneCut(t);
  let fault: "none" | "EIO" | "flip" = "none";
  const disk = diskWith((file) => ({
    async readLater(bytes, offset) {
      const count = await file.readLater(bytes, offset);
      if (fault === "EIO" && offset % 3 === 0)
        throw Object.assign(new Error("EIO"), { code: "EIO", syscall: "read" });
      if (fault === "flip") bytes[5] = (bytes[5] ?? 0) ^ 1;
      return count;
    },
  }));
  await using whole = await ServedModel.open(directory);
  await using tiered = await ServedModel.open(directory, { memoryBytes, tierDirectory, disk });
  for (const [turn, error] of [
    [1, TierReadError],
    [2, RecordCorruptError],
  ] as const) {
    const batch = batchOf(job, turn, 200);
    fault = turn === 1 ? "EIO" : "flip";
    await t.throwsAsync(tiered.predictBatch(batch), { instanceOf: error });
    fault = "none";
    t.deepEqual(await tiered.predictBatch(batch), await whole.predictBatch(batch));
  }
});

test("opening on a full disk fails, and files of ended processes are removed", async (t) => {
  const { directory, tierDirectory } = await oneCut(t);
  const disk = diskWith(() => ({
    write() {
      throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC", syscall: "write" });
    },
  }));
  const full = ServedModel.open(directory, { memoryBytes, tierDirectory, disk });
  await t.throwsAsync(full, { instanceOf: TierDiskFullError });
  t.deepEqual(readdirSync(tierDirectory), []);
  const gone = realDisk.writer.replace(/-\d+-\d+-\d+$/, "-999999999-1-0");
  const own = `osiris-served-${realDisk.writer}.x.rows`;
  for (const name of [`osiris-served-${gone}.0.rows`, own, "other.rows"]) {
    writeFileSync(join(tierDirectory, name), "");
  }
  await using _ = await ServedModel.open(directory, { memoryBytes, tierDirectory });
  t.deepEqual(readdirSync(tierDirectory), [own, "other.rows"].sort());
});
