// A delta turns the earlier model into the later one: the served model then exports the later model
// byte for byte, for all kinds of tables and checkpoints.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  CheckpointCorruptError,
  DeltaRefusedError,
  InputUnusableError,
  ModelClosedError,
} from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { seal } from "../../../../storage/disk/sealed-json.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawBatch } from "../../../../test/helpers/models/onnx.ts";
import { flipByte } from "../../../../test/helpers/stores/checkpoints.ts";
import { startCutModel } from "../../../../test/helpers/stores/cut-model.ts";
import { exportModel } from "../../../formats/exports/export-model.ts";
import { readDeltaIndex } from "../../model/delta-file.ts";
import { exportDelta } from "../../model/export-delta.ts";
import { ServedModel } from "../../model/served-model.ts";

const tables = [
  { name: "a", rows: 50, dim: 4, rowBlocks: 4 as const },
  { name: "b", rows: 40, dim: 4, pooling: "mean" as const },
  { name: "c", rows: 300, dim: 4, precision: "int8" as const },
  { name: "d", rows: 30, dim: 4, precision: "float16" as const },
  { name: "e", rows: 60, dim: 4 },
];

function jobOf(home: string, differential: string, more: object = {}): JobOptions {
  return {
    model: { kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] },
    data: { kind: "synthetic", samples: 8, dense: 3, batchSize: 8 },
    checkpoint: { directory: join(home, "checkpoints"), differential },
    ...more,
  } as JobOptions;
}

/**
 * Checks over three cuts that a served model with the deltas applied equals the full export;
 * returns the changed rows per delta and table.
 */
async function isTheLater(t: ExecutionContext, options: (home: string) => JobOptions) {
  const home = startDirectory(t);
  const trained = startCutModel(options(home));
  const cuts = [await trained.cut(3), await trained.cut(1), await trained.cut(2)];
  const { directory } = trained;
  const deltas = [join(home, "1.delta"), join(home, "2.delta")];
  const counts: number[] = [];
  for (const [i, delta] of deltas.entries()) {
    const [from, to] = [cuts[i], cuts[i + 1]];
    const since = i === 0 ? (from?.cut ?? 0) : (from?.sha256 ?? "");
    const { tables: changed } = await exportDelta(directory, delta, {
      ...{ since, manifest: to?.sha256 },
    });
    counts.push(...changed.map((table) => table.changed));
    t.true(changed.some((table) => table.changed > 0));
  }
  await using served = await ServedModel.open(directory, { manifest: cuts[0]?.sha256 ?? "" });
  const [before, after, whole] = ["before", "after", "whole"].map((name) => {
    return join(home, `${name}.safetensors`);
  }) as [string, string, string];
  const isWide = trained.job.model.tables.some(({ idBits }) => idBits === 64);
  for (const [i, manifest] of cuts.entries()) {
    const delta = deltas[i - 1];
    if (delta !== undefined) {
      const version = await served.applyDelta(delta);
      t.deepEqual(version, { digest: `sha256:${manifest.modelDigest}`, step: manifest.cut });
      t.deepEqual(served.version, version);
    }
    await served.export(after);
    await exportModel(directory, whole, { manifest: manifest.sha256 });
    t.true(readFileSync(after).equals(readFileSync(whole)), `cut ${manifest.cut}`);
    await using model = await loadModel(directory, { manifest: manifest.sha256 });
    const drawn = drawBatch(trained.job, new RandomStream(4, 1, i), { samples: 40, idsMax: 3 });
    const batch = isWide ? { ...drawn, highs: new Int32Array(drawn.ids.length).fill(1) } : drawn;
    const { scores, version } = await served.predictBatch(batch);
    t.deepEqual(scores, await model.predictBatch(batch));
    t.is(version.digest, model.digest);
  }
  t.false(readFileSync(whole).equals(Buffer.from(before)));
  return counts;
}

test("deltas give the full export byte for byte, and increments name the same rows", async (t) => {
  const compared = await isTheLater(t, (home) => jobOf(home, "none"));
  t.deepEqual(await isTheLater(t, (home) => jobOf(home, "one-shot")), compared);
  // Increments between consecutive cuts also have rows that a step touched but left unchanged.
  const counts = await isTheLater(t, (home) => jobOf(home, "consecutive"));
  for (const [i, count] of counts.entries()) {
    const differ = compared[i] ?? 0;
    t.true(count >= differ && count <= differ + 2, `${counts}, ${compared}`);
  }
});

test("a delta updates moving averages, which change without a step on their row", async (t) => {
  const optimizer = {
    dense: { kind: "adam", ema: { decay: 0.9 } },
    sparse: { kind: "adagrad", ema: { decay: 0.9 } },
  };
  await isTheLater(t, (home) => jobOf(home, "consecutive", { optimizer }));
});

test("a delta updates rows with a shared decay factor", async (t) => {
  const decayed = tables.map(({ precision: _, ...table }) => ({
    ...table,
    ...{ l2: 0.1, l2Scope: "decayed" as const },
  }));
  const model = { kind: "dlrm", dense: 3, tables: decayed, bottom: [5, 4], top: [6, 1] };
  const optimizer = { sparse: { kind: "sgd", learningRate: 0.1 } };
  await isTheLater(t, (home) => jobOf(home, "one-shot", { model, optimizer }));
});

for (const differential of ["none", "consecutive"]) {
  test(`a delta handles ids that were added and evicted between cuts: ${differential}`, async (t) => {
    const dynamic = {
      admission: { kind: "all" },
      eviction: { kind: "age", steps: 2 },
      everySteps: 2,
    };
    const own = [16, 64].map((rows, i) => ({
      ...{ name: `t${i}`, rows, dim: 4, idBits: 64, dynamic, rowBlocks: i === 0 ? 1 : 2 },
    }));
    const model = { kind: "dlrm", dense: 3, tables: own, bottom: [5, 4], top: [6, 1] };
    await isTheLater(t, (home) => jobOf(home, differential, { model }));
  });
}

async function twoCuts(t: ExecutionContext) {
  const home = startDirectory(t);
  const trained = startCutModel(jobOf(home, "consecutive"));
  const [first, second] = [await trained.cut(2), await trained.cut(2)];
  const { directory } = trained;
  const delta = join(home, "a.delta");
  await exportDelta(directory, delta, { since: first.cut });
  return { home, trained, directory, first, second, delta };
}

test("a damaged delta is refused at any byte, and the version before stays served", async (t) => {
  const { directory, first, delta, trained } = await twoCuts(t);
  await using served = await ServedModel.open(directory, { manifest: first.sha256 });
  const batch = drawBatch(trained.job, new RandomStream(4, 1, 1), { samples: 30, idsMax: 3 });
  const { scores } = await served.predictBatch(batch);
  const size = readFileSync(delta).length;
  const classes = [CheckpointCorruptError, InputUnusableError];
  for (let at = 0; at < size; at += 97) {
    flipByte(realDisk, delta, at);
    const error = await t.throwsAsync(served.applyDelta(delta));
    t.true(
      classes.some((one) => error instanceof one),
      `${at}: ${error?.message}`,
    );
    flipByte(realDisk, delta, at);
    t.is(served.version.digest, `sha256:${first.modelDigest}`);
  }
  t.deepEqual((await served.predictBatch(batch)).scores, scores);
  const file = realDisk.open(delta, "update");
  file.truncate(size - 1);
  file.close();
  const cut = await t.throwsAsync(served.applyDelta(delta), { instanceOf: CheckpointCorruptError });
  t.regex(cut?.message ?? "", /the file is truncated/);
});

test("a delta of another format version is refused, and not as damaged", async (t) => {
  const path = join(startDirectory(t), "later.delta");
  const index = Buffer.from(seal({ version: 2 }).text);
  const length = Buffer.from(Uint32Array.of(index.length).buffer);
  writeFileSync(
    path,
    Buffer.concat([Buffer.from("OSIRIS-D"), index, length, Buffer.from("OSIRIS-D")]),
  );
  const file = realDisk.open(path, "read");
  const error = await t.throwsAsync(readDeltaIndex(file), { instanceOf: InputUnusableError });
  file.close();
  t.is(error?.message, `Expected version 1 in ${path}, got 2; use the Osiris that wrote it`);
});

test("a delta of another version or job is refused in a sentence", async (t) => {
  const { directory, second, delta } = await twoCuts(t);
  await using served = await ServedModel.open(directory, { manifest: second.sha256 });
  const twice = await t.throwsAsync(served.applyDelta(delta), { instanceOf: DeltaRefusedError });
  t.regex(
    twice?.message ?? "",
    /it starts from step 2 \(sha256:.*\), but the serving version is step 4 \(sha256:.*\)/,
  );
  const home = startDirectory(t);
  const other = startCutModel({ ...jobOf(home, "none"), seed: 8 });
  await other.cut(1);
  await using foreign = await ServedModel.open(other.directory);
  await t.throwsAsync(foreign.applyDelta(delta), {
    instanceOf: DeltaRefusedError,
    message: /it belongs to another job/,
  });
  await t.throwsAsync(exportDelta(directory, delta, { since: 4 }), {
    instanceOf: InputUnusableError,
  });
});

test("requests during a delta are answered, each by the version that it names", async (t) => {
  const { directory, first, second, delta, trained } = await twoCuts(t);
  await using served = await ServedModel.open(directory, { manifest: first.sha256 });
  const batch = drawBatch(trained.job, new RandomStream(4, 1, 1), { samples: 9, idsMax: 3 });
  const right = new Map<string, Float32Array>();
  for (const { sha256 } of [first, second]) {
    await using model = await loadModel(directory, { manifest: sha256 });
    right.set(model.digest, await model.predictBatch(batch));
  }
  const seen: string[] = [];
  let isOver = false;
  const applied = served.applyDelta(delta).finally(() => (isOver = true));
  while (!isOver) {
    const { scores, version } = await served.predictBatch(batch);
    seen.push(version.digest);
    t.deepEqual(scores, right.get(version.digest));
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.is((await applied).digest, `sha256:${second.modelDigest}`);
  t.is(seen[0], `sha256:${first.modelDigest}`);
  t.true(seen.length > 10, `${seen.length} answers`);
  const turn = seen.indexOf(`sha256:${second.modelDigest}`);
  t.true(seen.slice(0, turn).every((digest) => digest === seen[0]));
});

test("a stopped delta releases its slots for the next one, which is applied", async (t) => {
  const { directory, first, second, delta } = await twoCuts(t);
  await using served = await ServedModel.open(directory, { manifest: first.sha256 });
  // 40 times, because leaked slots would then run out.
  for (let turn = 0; turn < 40; turn++) {
    const controller = new AbortController();
    const stopped = served.applyDelta(delta, { signal: controller.signal });
    setImmediate(() => controller.abort(new Error("stopped here")));
    await t.throwsAsync(stopped, { message: "stopped here" });
  }
  t.is((await served.applyDelta(delta)).step, second.cut);
  const closing = served.applyDelta(delta);
  await served.close();
  await t.throwsAsync(closing, { instanceOf: ModelClosedError });
});

test("an export is serialised with deltas, and no later one changes its rows", async (t) => {
  const home = startDirectory(t);
  const trained = startCutModel(jobOf(home, "consecutive"));
  const cuts = [await trained.cut(2), await trained.cut(2), await trained.cut(2)];
  const { directory } = trained;
  const deltas = [join(home, "1.delta"), join(home, "2.delta")];
  for (const [i, delta] of deltas.entries()) {
    const [since, manifest] = [cuts[i]?.sha256 ?? "", cuts[i + 1]?.sha256];
    await exportDelta(directory, delta, { since, manifest });
  }
  await using served = await ServedModel.open(directory, { manifest: cuts[0]?.sha256 ?? "" });
  const [own, whole] = [join(home, "own.safetensors"), join(home, "whole.safetensors")];
  const [first = "", second = ""] = deltas;
  await Promise.all([served.applyDelta(first), served.export(own), served.applyDelta(second)]);
  t.is(served.version.step, cuts[2]?.cut ?? 0);
  await exportModel(directory, whole, { manifest: cuts[1]?.sha256 ?? "" });
  t.true(readFileSync(own).equals(readFileSync(whole)));
});

test("a model file is served, and takes deltas of its run", async (t) => {
  for (const optimizer of [{}, { sparse: { kind: "adam" } }]) {
    const home = startDirectory(t);
    const trained = startCutModel(jobOf(home, "consecutive", { optimizer }));
    const [first, second] = [await trained.cut(2), await trained.cut(2)];
    const { directory, job } = trained;
    const [file, delta] = [join(home, "first.osiris"), join(home, "a.delta")];
    await exportModel(directory, file, { manifest: first.sha256 });
    await exportDelta(directory, delta, { since: first.cut });
    await using served = await ServedModel.open(file);
    const batch = drawBatch(job, new RandomStream(4, 1, 1), { samples: 20, idsMax: 3 });
    for (const { sha256 } of [first, second]) {
      if (sha256 === second.sha256) await served.applyDelta(delta);
      await using model = await loadModel(directory, { manifest: sha256 });
      const { scores, version } = await served.predictBatch(batch);
      t.deepEqual(scores, await model.predictBatch(batch));
      t.is(version.digest, model.digest);
    }
    const [own, whole] = [join(home, "own.safetensors"), join(home, "whole.safetensors")];
    await served.export(own);
    await exportModel(directory, whole);
    t.true(readFileSync(own).equals(readFileSync(whole)));
  }
});
