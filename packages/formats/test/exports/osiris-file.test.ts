// The export of a model as one file of Osiris's own format, which is read like its checkpoint
// directory; the file's hashes lead from every byte to the digest of the run.

import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { SparseOptimizerOptions } from "../../../../src/embedding/tables/options.ts";
import { CheckpointCorruptError, InputUnusableError } from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { listCheckpoints } from "../../../../storage/checkpoints/list-checkpoints.ts";
import { modelFileAt } from "../../../../storage/checkpoints/store/file-checkpoint-store.ts";
import {
  hashOf,
  type ModelProof,
  pageBytes,
} from "../../../../storage/checkpoints/store/model-file.ts";
import { verifyCheckpoints } from "../../../../storage/checkpoints/verify-checkpoints.ts";
import { seal } from "../../../../storage/disk/sealed-json.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { python3, testIf } from "../../../../test/helpers/needs.ts";
import { tables, trainedTables } from "../../../../test/helpers/stores/tables.ts";
import { unzipped, zipOf } from "../../../../test/helpers/stores/torch-bytes.ts";
import { exportModel } from "../../exports/export-model.ts";
import { exportTable } from "../../tables/export-table.ts";

const adam: JobOptions["optimizer"] = {
  sparse: { kind: "partialRowWiseAdam", learningRate: 0.01 },
};
const rowWise: JobOptions["optimizer"] = { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } };

/** The model's predictions on its own samples, as bits. */
async function predicted(path: string): Promise<number[]> {
  await using model = await loadModel(path, { arithmetic: "same" });
  const { features, dense } = { features: tables.length, dense: 3 };
  const samples = 20;
  const ids = Int32Array.from({ length: samples * features }, (_, i) => (7 * i) % 90);
  const all = await model.predictBatch({
    ...{ samples, ids, lengths: ids.map(() => 1) },
    dense: Float32Array.from({ length: samples * dense }, (_, i) => (i % 11) / 7),
    ...{ highs: undefined, weights: undefined },
  });
  return [...new Uint32Array(all.buffer)];
}

/** The report on a model file, and on its one checkpoint. @throws where the file is damaged */
async function verify(file: string) {
  const { checkpoints, ...report } = await verifyCheckpoints(file);
  const [one] = checkpoints;
  if (one?.reason !== undefined) throw new Error(one.reason);
  return { ...report, ...one };
}

test("a model file is read like the directory that it was made of, bit for bit", async (t) => {
  const { home, directory, manifest } = await trainedTables(t, { optimizer: adam });
  const file = join(home, "model.osiris");
  const report = await exportModel(directory, file);
  t.like(report, { format: "osiris", manifest: manifest.sha256, resumedAt: 0, cut: 2 });
  t.is(report.bytes, statSync(file).size);
  t.is(report.digest, `sha256:${manifest.modelDigest}`);

  t.deepEqual(await predicted(file), await predicted(directory));
  for (const name of ["model.safetensors", "model.onnx", "again.osiris"]) {
    await exportModel(directory, join(home, name));
    await exportModel(file, join(home, `of-file-${name}`));
    const [own, other] = [name, `of-file-${name}`].map((one) => readFileSync(join(home, one)));
    t.true(own?.equals(other ?? Buffer.alloc(0)), name);
  }
  t.true(readFileSync(join(home, "again.osiris")).equals(readFileSync(file)));
  for (const { name } of tables) {
    await exportTable(directory, name, join(home, "directory.safetensors"));
    await exportTable(file, name, join(home, "file.safetensors"));
    const [own, other] = ["directory", "file"].map((one) =>
      readFileSync(join(home, `${one}.safetensors`)),
    );
    t.true(own?.equals(other ?? Buffer.alloc(0)), name);
  }
  t.is(listCheckpoints(file).checkpoints[0]?.manifest, manifest.sha256);
});

test("rows keep their precision, and parts begin at page boundaries", async (t) => {
  const { home, directory, manifest } = await trainedTables(t, { optimizer: rowWise });
  const file = join(home, "model.osiris");
  await exportModel(directory, file);
  const { parts: own } = modelFileAt(file, realDisk);
  t.true(own.every(({ start }) => start % 4096 === 0));
  // Each table is one part of the file, as large as its parts in the checkpoint but for framing.
  t.is(own.length, 1 + tables.length);
  for (const [i, { name }] of tables.entries()) {
    const whole = own.find((one) => one.name === `table-0000${i}`)?.bytes ?? 0;
    const parts = manifest.parts.filter((one) => one.name.startsWith(`table-0000${i}`));
    const all = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    t.true(whole <= all && whole > 0.5 * all, `${name}: ${whole} of ${all}`);
  }
  const bytesOf = (i: number) => own[i + 1]?.bytes ?? 0;
  t.true(bytesOf(1) < 0.6 * bytesOf(4), "float16 beside float32");
  t.true(bytesOf(3) < 0.4 * bytesOf(4), "int8 beside float32");
});

test("per-row optimizer state proves the run's digest; per-element state may be left out", async (t) => {
  for (const [optimizer, options, stated] of [
    [rowWise, {}, []],
    [adam, { withOptimizer: true }, []],
    [adam, {}, tables.map(({ name }) => `table ${name}`)],
  ] as const) {
    const { home, directory, manifest } = await trainedTables(t, { optimizer });
    const file = join(home, "model.osiris");
    await exportModel(directory, file, options);
    const proof = await verify(file);
    t.like(proof, { stated, manifest: manifest.sha256, storedDigest: undefined, cut: 2 });
    t.is(proof.digest, `sha256:${manifest.modelDigest}`);
    const all = ["dense network", ...tables.map(({ name }) => `table ${name}`)];
    t.deepEqual(proof.proven, stated.length > 0 ? ["dense network"] : all);
    if (stated.length === 0) {
      await using model = await loadModel(file);
      await model.save(join(home, "saved"));
      await using saved = await loadModel(join(home, "saved"));
      t.is(proof.digest, saved.digest);
      t.deepEqual(await saved.leaves(), await model.leaves());
      continue;
    }
    const message =
      /without the optimizer's state, which .* needs: export the run with `--with-opt/;
    const refused = { instanceOf: InputUnusableError, message };
    await using model = await loadModel(file);
    await t.throwsAsync(model.save(join(home, "saved")), refused);
    await t.throwsAsync(model.leaves(), refused);
    await t.throwsAsync(
      exportModel(file, join(home, "b.osiris"), { withOptimizer: true }),
      refused,
    );
    const state = exportTable(file, "rows", join(home, "rows.csv"), { state: true });
    await t.throwsAsync(state, refused);
  }
});

/** Rewrites a model file with other contents of its entries, and of its proof. */
function rewrite(
  file: string,
  bytes: Uint8Array,
  proof: Partial<ModelProof>,
  contents: Readonly<Record<string, Uint8Array | string>> = {},
): void {
  const entries = unzipped(bytes);
  const own = JSON.parse(Buffer.from(entries["proof.json"] ?? "").toString());
  const sealed = seal({ ...own, ...proof }).text;
  writeFileSync(file, zipOf({ ...entries, "proof.json": sealed, ...contents }, pageBytes));
}

test("a proof with invalid part names or hashes is damage, even with a valid seal", async (t) => {
  const { home, directory } = await trainedTables(t, { optimizer: adam });
  const file = join(home, "model.osiris");
  await exportModel(directory, file);
  const { proof } = modelFileAt(file, realDisk);
  const bytes = readFileSync(file);
  const isRefused = async (change: Partial<ModelProof>, message: RegExp) => {
    rewrite(file, bytes, change);
    await t.throwsAsync(loadModel(file), { instanceOf: CheckpointCorruptError, message });
  };
  const [one, ...others] = proof.parts;
  if (one === undefined) return t.fail("no part");
  for (const name of ["../../rows", "/etc/passwd", "", "table-00000/.."]) {
    await isRefused({ parts: [{ ...one, name }, ...others] }, /parts\.0\.name: /);
  }
  const digests = { statedDigests: ["12"] };
  await isRefused(digests, /proof\.json is damaged: statedDigests\.0: /);
  await isRefused({ parts: others }, /its entries are not those that its proof lists/);
  await isRefused({ parts: [{ ...one, chunks: [] }, ...others] }, /has 0 hashes of `dense`, which/);
  rewrite(file, bytes, {}, { "manifest.json": "{}" });
  await t.throwsAsync(loadModel(file), { message: /model\.osiris\/manifest\.json is damaged/ });
  const version = { version: 2 } as Partial<ModelProof>;
  rewrite(file, bytes, version);
  const message = /^Expected version 1 in .*proof\.json, got 2; use the Osiris that wrote it$/;
  await t.throwsAsync(loadModel(file), { instanceOf: InputUnusableError, message });
});

testIf(python3)("Python's zipfile lists, tests and extracts a model file", async (t) => {
  const run = (...args: string[]) => execFileSync("python3", args, { encoding: "utf8" });
  // An Adagrad row, whose state is not exported, has no state at all.
  const adagrad: JobOptions["optimizer"] = { sparse: { kind: "adagrad", learningRate: 0.1 } };
  for (const optimizer of [adam, adagrad]) {
    const { home, directory } = await trainedTables(t, { optimizer });
    const file = join(home, "model.osiris");
    await exportModel(directory, file);
    t.is(run("-m", "zipfile", "-t", file), "Done testing\n");
    run("-m", "zipfile", "-e", file, join(home, "extracted"));
    const entries = Object.entries(unzipped(readFileSync(file)));
    const parts = tables.map((_, i) => `table-0000${i}`);
    const records = ["job.json", "manifest.json", "proof.json"];
    t.deepEqual(
      entries.map(([name]) => name),
      ["dense", ...parts, ...records],
    );
    for (const [name, bytes] of entries) {
      t.true(readFileSync(join(home, "extracted", name)).equals(bytes), name);
    }
    const own = readFileSync(join(directory, "job.json"));
    t.true(own.equals(readFileSync(join(home, "extracted", "job.json"))));
    // A file that such a program has compressed is refused.
    const again = "z = zipfile.ZipFile(sys.argv[1], 'w', 8); z.writestr('dense', 'a' * 99)";
    run("-c", `import zipfile, sys; ${again}`, file);
    await t.throwsAsync(loadModel(file), { message: /`dense` is compressed, expected it stored/ });
  }
});

test("a changed byte is found anywhere in the file", async (t) => {
  const { home, directory } = await trainedTables(t, { optimizer: adam });
  const file = join(home, "model.osiris");
  await exportModel(directory, file);
  const bytes = readFileSync(file);
  const { parts } = modelFileAt(file, realDisk);
  const end = bytes.length;
  const places = new Set([0, 3, 11, 14, 15, 2000, 4095, end - 1, end - 9, end - 17, end - 24]);
  for (const { header, start, bytes: own } of parts) {
    for (const at of [0, 1, own >> 1, own - 1, own]) places.add(start + at);
    for (const at of [6, 14, 18, 26, 31, 60]) places.add(header + at);
  }
  const { start, bytes: own } = parts.at(-1) ?? { start: 0, bytes: 0 };
  for (let at = 0; at < bytes.length; at += 1009) places.add(at);
  for (let at = start + own - 2; at < bytes.length; at += 211) places.add(at);
  t.true(places.size > 100, `${places.size} of ${bytes.length}`);
  const descriptor = openSync(file, "r+");
  try {
    for (const at of places) {
      const own = bytes[at] ?? 0;
      writeSync(descriptor, Uint8Array.of(own ^ 0x10), 0, 1, at);
      const error = await t.throwsAsync(verify(file));
      t.true(error?.message.includes("model.osiris"), `${at}: ${error?.message}`);
      const part = parts.find((one) => at >= one.start && at < one.start + one.bytes);
      const named = `bytes ${part?.start} to `;
      t.true(part === undefined || error?.message.includes(named), `${at}: ${error?.message}`);
      writeSync(descriptor, Uint8Array.of(own), 0, 1, at);
    }
  } finally {
    closeSync(descriptor);
  }
  t.true((await verify(file)).isIntact);
  for (const length of [0, 5, 4096, bytes.length - 1, bytes.length - 4096]) {
    writeFileSync(file, bytes.subarray(0, length));
    const message = /model\.osiris/;
    await t.throwsAsync(verify(file), { message }, `${length}`);
    await t.throwsAsync(loadModel(file), { message }, `${length}`);
  }
  writeFileSync(file, Buffer.concat([bytes, bytes.subarray(0, 9)]));
  await t.throwsAsync(verify(file), { message: /model\.osiris/ });
});

test("a file whose table digests do not prove the run's digest fails verification", async (t) => {
  const { home, directory } = await trainedTables(t, { optimizer: rowWise });
  const file = join(home, "model.osiris");
  await exportModel(directory, file);
  // Every hash of the file matches, but its digests belong to other rows.
  const { proof } = modelFileAt(file, realDisk);
  const bytes = readFileSync(file);
  const entries = unzipped(bytes);
  const record = (name: string) => JSON.parse(Buffer.from(entries[name] ?? "").toString());
  const wrong = "0".repeat(64);
  const rows = Uint8Array.from(entries["table-00000"] ?? []);
  const last = rows.length - 5; // The last float of state, before the end of the chunks.
  rows[last] = (rows[last] ?? 0) ^ 1;
  const rehashed = proof.parts.map((part) => {
    return part.name === "table-00000" ? { ...part, chunks: [hashOf(rows)] } : part;
  });
  const cases: readonly (readonly [Partial<ModelProof>, Record<string, string | Uint8Array>?])[] = [
    [{ parts: rehashed }, { "table-00000": rows }],
    [{ statedDigests: tables.map(() => wrong) }],
    [{ parts: proof.parts.toReversed() }],
    [{}, { "job.json": seal({ ...record("job.json"), jobIdentity: "another" }).text }],
    [{}, { "manifest.json": JSON.stringify({ ...record("manifest.json"), best: true }) }],
    [{}, { "manifest.json": seal({ ...record("manifest.json"), modelDigest: wrong }).text }],
  ];
  for (const [changed, contents] of cases) {
    rewrite(file, bytes, changed, contents);
    const message = /is damaged: |its parts have the digest sha256:\w{64}, expected sha256:/;
    const title = JSON.stringify(Object.keys({ ...changed, ...contents }));
    await t.throwsAsync(verify(file), { message }, title);
  }
  rewrite(file, bytes, {});
  t.true(readFileSync(file).equals(bytes));
  t.deepEqual((await verify(file)).stated, []);
});

/**
 * Trains a model with one table for three steps and exports it; returns the directory and the file.
 */
async function smallModel(t: ExecutionContext, table: object, options: Partial<JobOptions> = {}) {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "A", rows: 64, dim: 4, rowBlocks: 4, ...table }],
      bottom: [4],
      top: [1],
    },
    data: { kind: "synthetic", samples: 40, dense: 2, batchSize: 40, cache: join(home, "cache") },
    ...options,
    checkpoint: { directory, ...options.checkpoint },
  });
  for (let cut = 1; cut <= 3; cut++) await trained.train({ cut });
  const file = join(home, "model.osiris");
  await exportModel(directory, file);
  return { home, directory, file };
}

test("dynamic ids, moving averages and shared row decay are stored in the file", async (t) => {
  const ema = { decay: 0.9 };
  const averaged = {
    dense: { kind: "adam", ema },
    sparse: { kind: "adagrad", learningRate: 0.1, ema } satisfies SparseOptimizerOptions,
  } as const;
  for (const [table, options] of [
    [{ idBits: 64, dynamic: {} }, {}],
    [{}, { optimizer: averaged }],
    [
      { l2: 0.5, l2Scope: "decayed" },
      { optimizer: { sparse: { kind: "sgd", learningRate: 0.3 } } },
    ],
  ] as const) {
    const { home, directory, file } = await smallModel(t, table, options as Partial<JobOptions>);
    const { stated, proven } = await verify(file);
    t.deepEqual(stated, []);
    t.is(proven.includes("ids of table A"), "dynamic" in table);
    for (const [from, to] of [
      [directory, "a.safetensors"],
      [file, "b.safetensors"],
    ] as const) {
      await exportModel(from, join(home, to));
    }
    t.true(
      readFileSync(join(home, "a.safetensors")).equals(readFileSync(join(home, "b.safetensors"))),
    );
  }
});

test("a foreign `.osiris` file is refused, and a directory named so loads as a directory", async (t) => {
  const { home, directory } = await smallModel(t, {});
  const other = join(home, "other.osiris");
  writeFileSync(other, "id,label\n".repeat(2000));
  const message =
    /^Expected a model that `osiris export --to FILE\.osiris` wrote, but .*: export it again$/;
  await t.throwsAsync(loadModel(other), { instanceOf: InputUnusableError, message });
  const named = join(home, "directory.osiris");
  mkdirSync(named);
  await using model = await loadModel(directory);
  await model.save(named);
  await using again = await loadModel(named);
  t.is(again.digest, model.digest);
});
