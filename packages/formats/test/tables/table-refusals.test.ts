// Input that cannot go into a table is refused before anything is written, a stopped export or
// import leaves no files, and table inspection counts initialised rows.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  InputUnusableError,
  InvalidOptionError,
} from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { openCheckpoint } from "../../../../storage/checkpoints/open-checkpoint.ts";
import { openExistingStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { flipInPart } from "../../../../test/helpers/stores/checkpoints.ts";
import { csvOf, dim, tables, trainedTables } from "../../../../test/helpers/stores/tables.ts";
import { exportTable, formatOf } from "../../tables/export-table.ts";
import { importTable } from "../../tables/import-table.ts";
import { inspectTables } from "../../tables/inspect-tables.ts";

test("invalid rows are refused with their line, and nothing is written", async (t) => {
  const { home, directory } = await trainedTables(t);
  const row = (id: number, value: number | string, columns = dim) =>
    `${[id, ...Array(columns).fill(value)].join(",")}\n`;
  const head = csvOf([[5, 1]]);
  const wrong: [string, RegExp][] = [
    [csvOf([[90, 1]]), /Expected a row of `rows`, 0\.\.89, got 90, in line 2 of .*new\.csv/],
    [csvOf([[-1, 1]]), /0\.\.89, got -1, in line 2/],
    [head + row(7, 1) + row(5, 2), /Expected each row once, got 5 again in line 4/],
    [head + row(7, "NaN"), /Expected `v0` of line 3 of .* to be a float32, got `NaN`/],
    [head + row(7, 1, dim - 1), /Expected 41 fields in line 3 of .*, got 40/],
    [head + row(7, 70000), /Expected numbers within the range of float16 in line 3/],
    ["id,v0\n1,2\n", /Expected vectors of 40 columns in .*, got 1/],
    [head.replace("v39", "v39,s0").replace(/1\n$/, "1,0\n"), /41 columns of optimizer state/],
  ];
  const from = join(home, "new.csv");
  for (const [text, reason] of wrong) {
    writeFileSync(from, text);
    const out = join(home, "out");
    const error = await t.throwsAsync(importTable(directory, "rows", { from, out }), {
      instanceOf: InputUnusableError,
    });
    t.regex(error?.message ?? "", reason);
    t.false(realDisk.exists(out));
  }
  const binary = join(home, "new.safetensors");
  const { open } = await formatOf(binary);
  const file = realDisk.open(binary, "write");
  const writer = open(file, { dim, width: 0 }, {}, 2);
  const vectors = new Float32Array(2 * dim).fill(Number.NaN, 2 * dim - 1);
  writer.write({ ids: BigInt64Array.of(4n, 6n), vectors, state: undefined });
  file.close();
  const refusal = importTable(directory, "rows", { from: binary, out: join(home, "out") });
  const error = await t.throwsAsync(refusal, { instanceOf: InputUnusableError });
  t.regex(error?.message ?? "", /finite numbers, got NaN or an infinity in row 1 of .*safetensors/);
});

test("missing, existing and damaged files and checkpoints have distinct errors", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const path = join(home, "rows.csv");
  await exportTable(directory, "rows", path);
  const missing = exportTable(join(home, "nowhere"), "rows", path);
  await t.throwsAsync(missing, { instanceOf: CheckpointMissingError });
  await t.throwsAsync(exportTable(directory, "user", path), {
    instanceOf: InvalidOptionError,
    message: /Expected a table of the model, `columns`, .*, got `user`/,
  });
  await t.throwsAsync(exportTable(directory, "rows", join(home, "none", "rows.csv")), {
    instanceOf: InputUnusableError,
    message: /Cannot write .*rows\.csv: ENOENT/,
  });
  await t.throwsAsync(importTable(directory, "rows", { from: path, out: directory }), {
    instanceOf: InputUnusableError,
    message: /to be new or empty/,
  });
  const other = "f".repeat(64);
  await t.throwsAsync(exportTable(directory, "rows", path, { manifest: other }), {
    instanceOf: CheckpointMissingError,
  });
  const { cut } = await exportTable(directory, "rows", path, {
    manifest: manifest.sha256.slice(0, 12),
  });
  t.is(cut, 2);
  const [older] = openExistingStore(directory).list().manifests.slice(1);
  const first = await exportTable(directory, "rows", path, { manifest: older?.sha256 ?? "" });
  t.is(first.cut, 1);
  await t.throwsAsync(exportTable(directory, "rows", path, { manifest: "" }), {
    instanceOf: InputUnusableError,
    message: /Expected one manifest .* found two/,
  });

  const text = readFileSync(path, "utf8");
  const part = manifest.parts.find(({ name }) => name.startsWith("table-00001"));
  flipInPart(directory, manifest, part?.name ?? "", 41);
  await t.throwsAsync(exportTable(directory, "rows", path), {
    instanceOf: CheckpointCorruptError,
  });
  t.is(readFileSync(path, "utf8"), text, "the former file is unchanged");
  const out = join(home, "out");
  const damaged = importTable(directory, "grid", { from: path, out });
  await t.throwsAsync(damaged, { instanceOf: CheckpointCorruptError });
  t.false(realDisk.exists(out));
});

test("an export or import stopped at any point leaves no partial file", async (t) => {
  const { home, directory } = await trainedTables(t);
  const path = join(home, "rows.parquet");
  const states: number[] = [];
  const ended = (after: number) => {
    const controller = new AbortController();
    let reports = 0;
    return {
      signal: controller.signal,
      onProgress: (done: number, total: number) => {
        states.push(done / total);
        if (++reports === after) controller.abort(new Error("enough"));
      },
    };
  };
  await t.throwsAsync(exportTable(directory, "rows", path, ended(1)), { message: "enough" });
  t.deepEqual(readdirSync(home).sort(), ["cache", "checkpoints"]);
  await exportTable(directory, "rows", path);
  const out = join(home, "out");
  let chunks = 0;
  const count = { onProgress: () => void chunks++ };
  await importTable(directory, "rows", { from: path, out, ...count });
  realDisk.remove(out);
  t.true(chunks > 0);
  for (let after = 1; after <= chunks; after++) {
    await t.throwsAsync(importTable(directory, "rows", { from: path, out, ...ended(after) }), {
      message: "enough",
    });
    t.deepEqual(readdirSync(home).sort(), ["cache", "checkpoints", "rows.parquet"]);
  }
  t.true(states.every((share) => share >= 0 && share <= 1));
});

test("inspecting tables counts rows, parts and norms", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const found = await inspectTables(directory);
  t.like(found, { cut: 2, manifest: manifest.sha256, digest: `sha256:${manifest.modelDigest}` });
  t.deepEqual(
    found.tables.map(({ name, precision }) => ({ name, precision })),
    tables.map(({ name, precision }) => ({ name, precision })),
  );
  const parts = found.tables.flatMap((table) => table.parts);
  t.deepEqual(["dense", ...parts].sort(), manifest.parts.map(({ name }) => name).sort());
  const bytes = found.tables.reduce((sum, table) => sum + table.bytes, 0);
  const dense = manifest.parts.find(({ name }) => name === "dense")?.bytes ?? 0;
  t.is(
    bytes + dense,
    manifest.parts.reduce((sum, part) => sum + part.bytes, 0),
  );

  const from = join(home, "new.csv");
  writeFileSync(
    from,
    csvOf([
      [0, 0],
      [3, 0.5],
      [8, 4],
      [9, -4],
    ]),
  );
  const out = join(home, "out");
  await importTable(directory, "columns", { from, out });
  const { tables: own } = await inspectTables(out, { table: "columns" });
  const [table] = own;
  t.is(own.length, 1);
  const root = Math.sqrt(dim);
  t.like(table, { rows: 90, dim, born: 4, zeros: 1, parts: ["table-00000"] });
  t.deepEqual(table?.norm, { min: 0, max: 4 * root, mean: (8.5 * root) / 4 });
  t.deepEqual(table?.histogram, [
    { from: 2, rows: 1 },
    { from: 4, rows: 0 },
    { from: 8, rows: 0 },
    { from: 16, rows: 2 },
  ]);
  await importTable(directory, "columns", { from: emptyCsv(home), out: join(home, "none") });
  const { tables: none } = await inspectTables(join(home, "none"), { table: "columns" });
  t.like(none[0], { born: 0, zeros: 0, norm: undefined, histogram: [] });
  t.is(openCheckpoint(join(home, "none")).manifest.cut, 2);
});

function emptyCsv(home: string): string {
  const path = join(home, "empty.csv");
  writeFileSync(path, csvOf([]));
  return path;
}
