// A killed export resumes where it stopped, and ends in the same bytes.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { CheckpointCorruptError, InputUnusableError } from "../../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../../src/ports/disk.ts";
import { openCheckpoint } from "../../../../storage/checkpoints/open-checkpoint.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { flipInPart, placeOfPart } from "../../../../test/helpers/stores/checkpoints.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";
import {
  exportModel,
  type ModelExportOptions,
  unfinishedExport,
} from "../../exports/export-model.ts";

/** Tables of many row chunks, most of them never trained; and a small table. */
const tables = [
  { name: "A", rows: 60_000, dim: 32 },
  { name: "B", rows: 40_000, dim: 32, precision: "int8" as const },
  { name: "C", rows: 10, dim: 32 },
];

/** The checkpoint directory of a model with these tables, made once for all tests. */
function startSource(): Promise<string> {
  source ??= makeSource();
  return source;
}

let source: Promise<string> | undefined;

async function makeSource(): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), "osiris-resumed-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));
  const directory = join(home, "checkpoints");
  const trained = await startTrained({
    model: { kind: "dlrm", dense: 2, tables, bottom: [32], top: [1] },
    data: {
      ...{ kind: "synthetic", dense: 2, cache: join(home, "cache") },
      ...{ samples: 4000, batchSize: 4000 },
      idsPerBag: { min: 10, max: 10 },
    },
    optimizer: { sparse: { kind: "adagrad", learningRate: 0.1 } },
    checkpoint: { directory },
  });
  await trained.train({ cut: 1 });
  return directory;
}

/**
 * A disk whose process is killed at write or rename number `operations`: every later change fails.
 */
function dying(operations: number): Disk {
  let left = operations;
  const live = <Result>(body: () => Result): Result => {
    if (left <= 0) throw new Error("killed");
    return body();
  };
  const dies = <Result>(body: () => Result): Result => {
    left--;
    return live(body);
  };
  return {
    ...realDisk,
    writer: "another",
    isGone: () => true,
    remove: (path) => live(() => realDisk.remove(path)),
    rename: (from, to) => dies(() => realDisk.rename(from, to)),
    open(path, mode) {
      const file = live(() => realDisk.open(path, mode));
      return { ...file, write: (bytes, at) => dies(() => file.write(bytes, at)) };
    },
  };
}

/** The disk as another process sees it after the writer died. */
const later: Disk = { ...realDisk, isGone: () => true };
const small = { markBytes: 2 ** 18 };

const formats: readonly (readonly [string, ModelExportOptions])[] = [
  ["safetensors", {}],
  ["onnx", { inlineBytesMax: 1000 }],
  ["osiris", { withOptimizer: true }],
  ["onnx", {}],
  ["osiris", {}],
];
for (const [ending, options] of someOrAll("killed exports", formats.slice(0, 3), formats)) {
  const title = `${ending} ${JSON.stringify(options)}`;
  test.serial(`a killed export resumes, and ends in the same bytes: ${title}`, async (t) => {
    const directory = await startSource();
    const [whole, path] = [1, 2].map((i) => join(startDirectory(t), `${i}`)) as [string, string];
    const own = { ...options, ...small };
    const [first, second] = [`${whole}.${ending}`, `${path}.${ending}`];
    const { bytes, dataFile } = await exportModel(directory, first, { ...options });
    let resumed = 0;
    let kills = 0;
    for (let operations = 1; ; operations = Math.ceil(operations * 1.3)) {
      const disk = dying(operations);
      try {
        const report = await exportModel(directory, second, { ...own, disk });
        resumed = report.resumedAt;
        t.is(report.bytes, bytes);
        break;
      } catch (error) {
        t.is((error as Error).message, "killed");
        kills++;
      }
      t.false(existsSync(second));
    }
    t.true(kills > 3, `${kills}`);
    t.true(resumed > 2 ** 18, `resumed at ${resumed} of ${bytes}`);
    // Each model has the name of its data file, the only difference between the two.
    const named = (file: string) =>
      readFileSync(file, "latin1").replaceAll(/[12]\.onnx\.data/g, "N.onnx.data");
    t.is(named(second), named(first));
    if (dataFile !== undefined) {
      t.true(readFileSync(`${second}.data`).equals(readFileSync(`${first}.data`)));
    }
    const names = readdirSync(join(second, ".."));
    t.deepEqual(
      names.filter((name) => /part|temp/.test(name)),
      [],
    );
  });
}

/** Stops an export between two marks; leaves its unfinished file. */
async function stopped(directory: string, path: string, options: ModelExportOptions = {}) {
  const controller = new AbortController();
  const onProgress = () => {
    const left = unfinishedExport(path);
    if (left !== undefined && left.bytes > 2 ** 19) controller.abort(new Error("stopped"));
  };
  const { signal } = controller;
  await exportModel(directory, path, { ...small, ...options, onProgress, signal });
}

test.serial("Ctrl-C leaves a file that the same command resumes, and no lock", async (t) => {
  const directory = await startSource();
  const path = join(startDirectory(t), "model.safetensors");
  await t.throwsAsync(stopped(directory, path), { message: "stopped" });
  const left = unfinishedExport(path);
  t.is(left?.file, `${path}.part`);
  t.true((left?.bytes ?? 0) > 2 ** 19);
  const { resumedAt } = await exportModel(directory, path, small);
  t.is(resumedAt, left?.bytes ?? 0);
  t.is(unfinishedExport(path), undefined);
  t.deepEqual(readdirSync(join(path, "..")), ["model.safetensors"]);
});

test.serial("other options, damage or `restart` begin the export anew", async (t) => {
  const directory = await startSource();
  const whole = join(startDirectory(t), "model.osiris");
  await exportModel(directory, whole);
  const expected = readFileSync(whole);
  for (const change of ["options", "restart", "record", "cut off"]) {
    const path = join(startDirectory(t), "model.osiris");
    const options = change === "options" ? { withOptimizer: true } : {};
    await t.throwsAsync(stopped(directory, path, options), { message: "stopped" }, change);
    const record = `${path}.part.json`;
    if (change === "record") {
      writeFileSync(record, readFileSync(record, "utf8").replace(/"after": \d/, '"after": 9'));
    }
    if (change === "cut off") writeFileSync(`${path}.part`, "short");
    const { resumedAt } = await exportModel(directory, path, { restart: change === "restart" });
    t.is(resumedAt, 0, change);
    t.true(readFileSync(path).equals(expected), change);
  }
});

test.serial("a stopped export is not resumed with raw ids, nor in another format", async (t) => {
  const directory = await startSource();
  const others: readonly ModelExportOptions[] = [{ ids: "raw" }, { format: "safetensors" }];
  for (const other of others) {
    const [path, whole] = ["a", "b"].map((name) => join(startDirectory(t), `${name}.onnx`));
    if (path === undefined || whole === undefined) return t.fail();
    await t.throwsAsync(stopped(directory, path), { message: "stopped" });
    const { resumedAt } = await exportModel(directory, path, other);
    t.is(resumedAt, 0);
    await exportModel(directory, whole, other);
    t.true(readFileSync(path).equals(readFileSync(whole)));
  }
});

test.serial("a file that another live process writes is left alone", async (t) => {
  const directory = await startSource();
  const path = join(startDirectory(t), "model.safetensors");
  const disk = dying(30);
  await t.throwsAsync(exportModel(directory, path, { ...small, disk }), { message: "killed" });
  const alive: Disk = { ...realDisk, isGone: () => false };
  const before = readFileSync(`${path}.part`);
  const message = /is being written by another process \(another\): wait .* `--restart`/;
  const refused = exportModel(directory, path, { disk: alive });
  await t.throwsAsync(refused, { instanceOf: InputUnusableError, message });
  t.true(readFileSync(`${path}.part`).equals(before));
  const { resumedAt } = await exportModel(directory, path, { ...small, disk: later });
  t.true(resumedAt > 0);
});

test.serial("a full disk leaves the marked part; source damage leaves nothing", async (t) => {
  const directory = await startSource();
  const path = join(startDirectory(t), "model.safetensors");
  let left = 12;
  const full: Disk = {
    ...realDisk,
    open(name, mode) {
      const file = realDisk.open(name, mode);
      if (!name.endsWith(".part")) return file;
      const write = (bytes: Uint8Array, at: number) => {
        if (left-- > 0) return file.write(bytes, at);
        throw Object.assign(new Error("ENOSPC: no space left"), {
          code: "ENOSPC",
          syscall: "write",
        });
      };
      return { ...file, write };
    },
  };
  const message = /^Cannot write .*model\.safetensors: ENOSPC: no space left$/;
  await t.throwsAsync(exportModel(directory, path, { ...small, disk: full }), { message });
  const kept = unfinishedExport(path)?.bytes ?? 0;
  t.true(kept > 0);

  const { manifest } = openCheckpoint(directory);
  const { bytes } = placeOfPart(directory, manifest, "table-00001");
  flipInPart(directory, manifest, "table-00001", bytes - 9);
  await t.throwsAsync(exportModel(directory, path, small), { instanceOf: CheckpointCorruptError });
  t.deepEqual(readdirSync(join(path, "..")), []);
  flipInPart(directory, manifest, "table-00001", bytes - 9);
});
