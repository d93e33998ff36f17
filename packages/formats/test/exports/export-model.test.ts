// The export of a model as one safetensors file: it has the numbers with which the model computes,
// whatever the sharding of the checkpoint.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { randomPlan } from "../../../../bench/planner/random-plan.ts";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  InputUnusableError,
} from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { type Disk, realDisk } from "../../../../src/ports/disk.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained, type Trained } from "../../../../test/helpers/devices/trained.ts";
import { flipInPart, placeOfPart } from "../../../../test/helpers/stores/checkpoints.ts";
import {
  contentOf,
  dim,
  tables,
  tablesJobOf,
  trainedTables,
} from "../../../../test/helpers/stores/tables.ts";
import { bitsOf, readTensorFile } from "../../../../test/helpers/stores/tensor-file.ts";
import { exportModel } from "../../exports/export-model.ts";
import { exportTable } from "../../tables/export-table.ts";
import { importTable } from "../../tables/import-table.ts";
import { inspectTables } from "../../tables/inspect-tables.ts";

/** The rows of all tables as one device has them in memory, by table. */
function rowsInMemory({ devices, job }: Trained): Map<string, Float32Array> {
  const [state] = devices.states;
  const found = new Map<string, Float32Array>();
  for (const slab of state === undefined ? [] : [state.slab, state.replicas]) {
    for (const [i, { table, rows }] of slab.shards.entries()) {
      const own = slab.rowsOf[i];
      const { name = "" } = job.model.tables[table] ?? {};
      if (own !== undefined) found.set(name, state?.kernels.readRows(own, 0, rows) as Float32Array);
    }
  }
  return found;
}

test("an export has the bits of every parameter and row, from any number of tiles", async (t) => {
  const home = startDirectory(t);
  const single = await startTrained(tablesJobOf(home, "single"));
  await single.train({ cut: 1 });
  const manifest = await single.train({ cut: 2 });
  const path = join(home, "single.safetensors");
  const report = await exportModel(join(home, "single"), path);
  const { tensors, notes } = readTensorFile(path);
  t.like(report, { format: "safetensors", file: path, cut: 2, manifest: manifest.sha256 });
  t.is(report.bytes, statSync(path).size);
  t.is(report.digest, `sha256:${manifest.modelDigest}`);
  t.like(notes, { step: "2", digest: report.digest, manifest: manifest.sha256, format: "pt" });
  t.is(JSON.parse(notes.job ?? "").seed, single.job.seed);

  const memory = rowsInMemory(single);
  t.is(memory.size, tables.length);
  for (const { name } of tables) {
    const tensor = tensors.get(`embedding_bags.${name}.weight`);
    t.like(tensor, { dtype: "F32", shape: [90, dim] });
    const own = new Uint32Array(memory.get(name)?.slice().buffer ?? new ArrayBuffer(0));
    t.deepEqual(bitsOf(tensor), own, name);
  }
  const [state] = single.devices.states;
  const flat = state?.kernels.read(state.network.flat) as Float32Array;
  const names = [...tensors.keys()].filter((name) => !name.startsWith("embedding_bags."));
  t.deepEqual(names.slice(0, 3), ["bottom.0.weight", "bottom.0.bias", "top.0.weight"]);
  t.deepEqual(tensors.get("bottom.0.weight")?.shape, [dim, 3]);
  const dense = names.flatMap((name) => [...(tensors.get(name)?.values ?? [])]);
  t.deepEqual(dense, [...flat]);
  t.is(report.parameters, flat.length);

  const stream = new RandomStream(5, 1, 4);
  for (let i = 0; i < 3; i++) {
    const plan = randomPlan(single.job.model.tables, 3, stream);
    const cut = await startTrained(tablesJobOf(home, `plan-${i}`), { devices: 3, plan });
    await cut.train({ cut: 1 });
    await cut.train({ cut: 2 });
    const other = join(home, `${i}.safetensors`);
    await exportModel(join(home, `plan-${i}`), other);
    const again = readTensorFile(other);
    t.deepEqual([...again.tensors], [...tensors]);
  }
});

/** A regression trained for five steps: its rows in memory, and as exported. */
async function regressionOf(
  t: ExecutionContext,
  table: object,
  optimizer: NonNullable<JobOptions["optimizer"]>,
) {
  const home = startDirectory(t);
  const trained = await startTrained({
    model: { kind: "lr", tables: [{ name: "A", rows: 40, dim: 1, ...table }] },
    data: { kind: "synthetic", samples: 64, dense: 0, batchSize: 64, cache: join(home, "cache") },
    optimizer,
    checkpoint: { directory: join(home, "checkpoints") },
  });
  for (let cut = 1; cut <= 5; cut++) await trained.train({ cut });
  const path = join(home, "lr.safetensors");
  await exportModel(join(home, "checkpoints"), path);
  const { tensors } = readTensorFile(path);
  const weights = tensors.get("embedding_bags.A.weight")?.values as Float32Array;
  const bias = Number(tensors.get("bias")?.values[0]);
  await using model = await loadModel(join(home, "checkpoints"));
  const ids = Int32Array.from({ length: 40 }, (_, i) => i);
  const all = await model.predictBatch({
    ...{ samples: 40, dense: new Float32Array(), lengths: ids.map(() => 1), ids },
    ...{ highs: undefined, weights: undefined },
  });
  for (const [row, probability] of all.entries()) {
    const own = 1 / (1 + Math.exp(-(bias + (weights[row] ?? 0))));
    t.true(Math.abs(own - probability) < 1e-6, `row ${row}: ${own}, ${probability}`);
  }
  const [state] = trained.devices.states;
  return {
    home,
    ...{ weights, bias, stored: rowsInMemory(trained).get("A") ?? new Float32Array() },
    storedBias: state?.kernels.read(state.network.flat)[0] ?? 0,
  };
}

test("rows with a shared decay factor are exported as the weights that the model computes with", async (t) => {
  const decayed = { l2: 0.5, l2Scope: "decayed" };
  const optimizer = { sparse: { kind: "sgd", learningRate: 0.3 } } as const;
  const { weights, stored } = await regressionOf(t, decayed, optimizer);
  t.true(weights.every((own, row) => Math.abs(stored[row] ?? 0) > Math.abs(own)));
});

test("a table whose rows decay together is exported, inspected and imported as weights", async (t) => {
  const decayed = { l2: 0.5, l2Scope: "decayed" };
  const optimizer = { sparse: { kind: "sgd", learningRate: 0.3 } } as const;
  const { home, weights } = await regressionOf(t, decayed, optimizer);
  const [directory, from, out] = ["checkpoints", "A.csv", "out"].map((name) => join(home, name));
  if (directory === undefined || from === undefined || out === undefined) return t.fail();
  await exportTable(directory, "A", from);
  const { ids, vectors } = await contentOf(from);
  const bits = new Uint32Array(weights.slice().buffer);
  t.deepEqual(
    vectors,
    ids.map((id) => bits[id]),
  );
  const [table] = (await inspectTables(directory)).tables;
  t.is(table?.norm?.max, Math.max(...ids.map((id) => Math.abs(weights[id] ?? 0))));
  await importTable(directory, "A", { from, out });
  const again = join(home, "again.safetensors");
  await exportModel(out, again);
  const imported = readTensorFile(again).tensors.get("embedding_bags.A.weight")?.values ?? [];
  for (const [row, weight] of weights.entries()) {
    t.true(Math.abs(Number(imported[row]) - weight) <= 2 ** -22 * Math.abs(weight), `${row}`);
  }
});

test("weights with moving averages are exported as the averages, as for predictions", async (t) => {
  const ema = { decay: 0.9 };
  const optimizer = {
    dense: { kind: "sgd", learningRate: 1, ema },
    sparse: { kind: "sgd", learningRate: 1, ema },
  } as const;
  const { weights, stored, bias, storedBias } = await regressionOf(t, {}, optimizer);
  const apart = weights.filter((own, row) => Math.abs(own - (stored[row] ?? 0)) > 1e-4);
  t.true(apart.length > 10 && apart.length < 40, `${apart.length}`);
  t.true(Math.abs(bias - storedBias) > 1e-4);
});

test("a table of dynamic ids is exported with its ids and their rows", async (t) => {
  const home = startDirectory(t);
  const job: JobOptions = {
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "A", rows: 64, dim: 4, rowBlocks: 4, idBits: 64, dynamic: {} }],
      bottom: [4],
      top: [1],
    },
    data: { kind: "synthetic", samples: 40, dense: 2, batchSize: 40, cache: join(home, "cache") },
    checkpoint: { directory: join(home, "checkpoints") },
  };
  const trained = await startTrained(job);
  await trained.train({ cut: 1 });
  const path = join(home, "model.safetensors");
  await exportModel(join(home, "checkpoints"), path);
  const { tensors } = readTensorFile(path);
  const rows = join(home, "A.safetensors");
  const { rows: born } = await exportTable(join(home, "checkpoints"), "A", rows);
  const table = readTensorFile(rows).tensors;
  t.true(born > 5);
  const [ids, idRows] = ["ids", "id_rows"].map((name) => tensors.get(`embedding_bags.A.${name}`));
  t.deepEqual(ids?.values, table.get("ids")?.values);
  const weights = tensors.get("embedding_bags.A.weight")?.values as Float32Array;
  const own = Array.from(idRows?.values ?? [], Number);
  t.is(new Set(own).size, born);
  const vectors = own.flatMap((row) => [...weights.subarray(4 * row, 4 * row + 4)]);
  t.deepEqual(vectors, [...(table.get("vectors")?.values ?? [])] as number[]);
});

test("a large table is exported in pieces of a MiB", async (t) => {
  const home = startDirectory(t);
  const table = { name: "A", rows: 100_000, dim: 16 };
  const trained = await startTrained({
    model: { kind: "dlrm", dense: 2, tables: [table], bottom: [16], top: [1] },
    data: { kind: "synthetic", samples: 40, dense: 2, batchSize: 40, cache: join(home, "cache") },
    checkpoint: { directory: join(home, "checkpoints") },
  });
  await trained.train({ cut: 1 });
  let [most, writes] = [0, 0];
  const disk: Disk = {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      return {
        ...file,
        write(bytes, at) {
          most = Math.max(most, bytes.length);
          writes++;
          file.write(bytes, at);
        },
      };
    },
  };
  const done: number[] = [];
  const path = join(home, "model.safetensors");
  const onProgress = (at: number, total: number) => done.push(at / total);
  const { bytes } = await exportModel(join(home, "checkpoints"), path, { disk, onProgress });
  t.true(bytes > 6.4e6 && bytes < 6.5e6);
  t.true(most <= 2 ** 20, `${most}`);
  t.true(writes > 6);
  t.deepEqual(
    done,
    done.toSorted((a, b) => a - b),
  );
  const { tensors } = readTensorFile(path);
  const own = rowsInMemory(trained).get("A") ?? new Float32Array();
  const weights = tensors.get("embedding_bags.A.weight")?.values as Float32Array;
  t.is(Buffer.compare(Buffer.from(own.buffer), Buffer.from(weights.buffer)), 0);
});

test("an export that is stopped, or finds a damaged part, leaves no file", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const before = readdirSync(home);
  const path = join(home, "model.safetensors");
  const controller = new AbortController();
  const onProgress = (done: number) => done > 0 && controller.abort(new Error("stopped here"));
  const stopped = exportModel(directory, path, { onProgress, signal: controller.signal });
  await t.throwsAsync(stopped, { message: "stopped here" });
  t.deepEqual(readdirSync(home), before);

  const name = manifest.parts.find((part) => part.name.startsWith("table-00001"))?.name ?? "";
  const { bytes } = placeOfPart(directory, manifest, name);
  flipInPart(directory, manifest, name, bytes - 9);
  await t.throwsAsync(exportModel(directory, path), { instanceOf: CheckpointCorruptError });
  t.deepEqual(readdirSync(home), before);
});

test("a model that cannot be exported is refused in one sentence", async (t) => {
  const { home, directory } = await trainedTables(t);
  const wrong = exportModel(directory, join(home, "model.npz"));
  const ending =
    /^Expected a file ending in `\.safetensors`, `\.onnx`, `\.osiris` or `\.pt`, got .*model\.npz$/;
  await t.throwsAsync(wrong, { instanceOf: InputUnusableError, message: ending });
  const nowhere = exportModel(directory, join(home, "no", "model.safetensors"));
  const message = /^Cannot write .*no\/model\.safetensors: ENOENT/;
  await t.throwsAsync(nowhere, { instanceOf: InputUnusableError, message });
  const other = exportModel(directory, join(home, "a.safetensors"), { manifest: "ffff" });
  await t.throwsAsync(other, { instanceOf: CheckpointMissingError });
});
