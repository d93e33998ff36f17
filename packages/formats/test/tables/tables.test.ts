// Tables of a checkpoint are exported to files and imported again without a changed bit, for all
// tiles and row formats.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { randomPlan } from "../../../../bench/planner/random-plan.ts";
import { decodeRows } from "../../../../src/embedding/checkpoint/rows-part.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { stateWidth } from "../../../../src/kernels/contract/kernels.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { openCheckpoint } from "../../../../storage/checkpoints/open-checkpoint.ts";
import { openExistingStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startCluster } from "../../../../test/helpers/clusters/either-clusters.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import {
  contentOf,
  csvOf,
  dim,
  endings,
  tables,
  tablesJobOf,
  trainedTables,
} from "../../../../test/helpers/stores/tables.ts";
import { exportTable } from "../../tables/export-table.ts";
import { importTable } from "../../tables/import-table.ts";

/** All values of a whole table part, numbers as bits. */
function contentOfPart(bytes: Uint8Array, part: string) {
  const width = stateWidth("partialRowWiseAdam", dim);
  const content = { ids: [] as number[], vectors: [] as number[], state: [] as number[] };
  for (const { rows, weights, state } of decodeRows(bytes, { dim, width, path: part })) {
    content.ids.push(...rows);
    content.vectors.push(...new Uint32Array(Float32Array.from(weights).buffer));
    content.state.push(...new Uint32Array(Float32Array.from(state).buffer));
  }
  return content;
}

test("a table cut into tiles is exported like the whole table of one device", async (t) => {
  const home = startDirectory(t);
  const single = await startTrained(tablesJobOf(home, "single"));
  await single.train({ cut: 1 });
  const whole = await single.train({ cut: 2 });
  const store = openExistingStore(join(home, "single"));
  const expected = tables.map((_, table) => {
    const part = `table-0000${table}`;
    return contentOfPart(store.readWholePart(whole, part), part);
  });
  t.true(expected.every(({ ids }) => ids.length > 5 && ids.length < 90));
  const stream = new RandomStream(3, 1, 4);
  const names = new Set<string>();
  for (let i = 0; i < 4; i++) {
    const plan = randomPlan(single.job.model.tables, 3, stream);
    const directory = join(home, `plan-${i}`);
    const cut = await startTrained(tablesJobOf(home, `plan-${i}`), { devices: 3, plan });
    await cut.train({ cut: 1 });
    const { parts, modelDigest } = await cut.train({ cut: 2 });
    t.is(modelDigest, whole.modelDigest);
    for (const { name } of parts) names.add(name);
    for (const [table, { name }] of tables.entries()) {
      const path = join(home, `${name}.${endings[(table + i) % 3]}`);
      const { ids, vectors, state } = expected[table] ?? { ids: [], vectors: [], state: [] };
      const report = await exportTable(directory, name, path, { state: true });
      t.like(report, { table: name, rows: ids.length, dim, stateWidth: dim + 1, cut: 2 });
      t.is(report.bytes, readFileSync(path).length);
      t.deepEqual(await contentOf(path), { ids, vectors, state }, path);
      await exportTable(directory, name, path);
      t.deepEqual(await contentOf(path), { ids, vectors, state: [] });
    }
  }
  const cuts = [/-b0\.4-q0\.1$/, /-b1\.1-q0\.2$/, /-b2\.\d-q1\.1$/];
  for (const cut of cuts)
    t.true(
      [...names].some((name) => cut.test(name)),
      `${cut} ${[...names]}`,
    );
  t.deepEqual(
    readdirSync(home).filter((name) => name.endsWith(".temp")),
    [],
  );
});

for (const kind of ["rowWiseAdagrad", "adagrad", "partialRowWiseAdam", "sgd"] as const) {
  test(`a table exported with its state imports as the same model: ${kind}`, async (t) => {
    const options = { optimizer: { sparse: { kind } } };
    const { home, directory, manifest } = await trainedTables(t, options);
    for (const [i, { name }] of tables.entries()) {
      const from = join(home, `${name}.${endings[i % 3]}`);
      const out = join(home, `again-${name}`);
      await exportTable(directory, name, from, { state: true });
      const report = await importTable(directory, name, { from, out });
      t.like(report, { table: name, rounded: 0, cut: 2 });
      t.is(report.digest, `sha256:${manifest.modelDigest}`, name);
      const model = await loadModel(out, { manifest: report.manifest });
      t.is(model.digest, report.digest);
    }
  });
}

test("rows imported without state keep their bits, and their state starts fresh", async (t) => {
  const sparse = { kind: "rowWiseAdagrad" as const, initialAccumulator: 0.25 };
  const { home, directory, manifest } = await trainedTables(t, { optimizer: { sparse } });
  const [from, out] = [join(home, "grid.csv"), join(home, "out")];
  await exportTable(directory, "grid", from);
  const report = await importTable(directory, "grid", { from, out });
  t.false(report.hasState);
  t.not(report.digest, `sha256:${manifest.modelDigest}`);
  await exportTable(out, "grid", join(home, "back.csv"), { state: true });
  const { state, ...rows } = await contentOf(join(home, "back.csv"));
  t.deepEqual({ ...rows, state: [] }, await contentOf(from));
  t.deepEqual(
    state,
    rows.ids.map(() => new Uint32Array(Float32Array.of(0.25).buffer)[0] ?? 0),
  );
});

test("rows in any order are imported, and replace all rows or, merged, only the same rows", async (t) => {
  const { home, directory } = await trainedTables(t);
  const exported = async (from: string, table: string) => {
    const path = join(home, `found-${table}.csv`);
    await exportTable(from, table, path, { state: true });
    return contentOf(path);
  };
  const before = await exported(directory, "rows");
  const born = before.ids[3] ?? 0;
  const uninitialised = Array.from({ length: 90 }, (_, row) => row).find((row) => {
    return !before.ids.includes(row);
  });
  if (uninitialised === undefined) return t.fail();
  const from = join(home, "new.csv");
  const given: [number, number][] = [
    [89, 0.5],
    [born, -2],
    [uninitialised, 4],
  ];
  writeFileSync(from, csvOf(given));
  const bits = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0];

  const replaced = await importTable(directory, "rows", { from, out: join(home, "replaced") });
  t.is(replaced.rows, 3);
  const after = await exported(join(home, "replaced"), "rows");
  t.deepEqual(
    after.ids,
    given.map(([row]) => row).sort((a, b) => a - b),
  );
  t.true(after.state.length > 0 && after.state.every((value) => value === 0));

  await importTable(directory, "rows", { from, out: join(home, "merged"), merge: true });
  const merged = await exported(join(home, "merged"), "rows");
  t.deepEqual(
    merged.ids,
    [...new Set([...before.ids, 89, uninitialised])].sort((a, b) => a - b),
  );
  for (const [at, row] of merged.ids.entries()) {
    const [, value] = given.find(([one]) => one === row) ?? [];
    const own = merged.vectors.slice(at * dim, (at + 1) * dim);
    const old = before.ids.indexOf(row);
    const expected =
      value === undefined
        ? before.vectors.slice(old * dim, (old + 1) * dim)
        : Array(dim).fill(bits(value));
    t.deepEqual(own, expected, `row ${row}`);
  }
  // The import leaves the other tables unchanged.
  const others = await exported(join(home, "merged"), "grid");
  t.deepEqual(others, await exported(directory, "grid"));
  t.deepEqual(readdirSync(join(home, "merged")), ["checkpoints", "generations", "job.json"]);
});

test("numbers that a table's precision cannot hold are rounded to nearest, and counted", async (t) => {
  const { home, directory } = await trainedTables(t);
  const from = join(home, "new.csv");
  writeFileSync(
    from,
    csvOf([
      [1, 0.1],
      [2, 0.5],
    ]),
  );
  for (const { name, precision } of tables) {
    const out = join(home, name);
    const { rounded } = await importTable(directory, name, { from, out });
    t.is(rounded, precision === "float32" ? 0 : 1, name);
    const path = join(home, "back.csv");
    await exportTable(out, name, path);
    const { vectors } = await contentOf(path);
    const [first = 0, second] = [0, dim].map((at) => {
      return new Float32Array(Uint32Array.of(vectors[at] ?? 0).buffer)[0];
    });
    t.true(Math.abs(first - 0.1) < 0.001, `${name}: ${first}`);
    t.is(second, 0.5);
  }
});

test("a run resumes from an imported checkpoint and reaches the digest of an unchanged run", async (t) => {
  const home = startDirectory(t);
  const job = (name: string, epochs: number): JobOptions => {
    const { data, ...rest } = tablesJobOf(home, name);
    const checkpoint = { ...rest.checkpoint, everySteps: 1, differential: "consecutive" as const };
    return { ...rest, checkpoint, data: { ...data, batchSize: 16, epochs } };
  };
  await using place = await startCluster();
  const train = async (options: JobOptions) => {
    const run = await place.cluster.submit(options);
    return run.result();
  };
  const expected = await train(job("undisturbed", 2));
  const first = await train(job("first", 1));
  const { parts } = openCheckpoint(first.directory).manifest;
  t.true(
    parts.some(({ base }) => base.length > 1),
    "the checkpoint has increments",
  );
  const from = join(home, "columns.parquet");
  await exportTable(first.directory, "columns", from, { state: true });
  const out = join(home, "imported");
  t.is((await importTable(first.directory, "columns", { from, out })).digest, first.digest);
  const second = await train(job("imported", 2));
  t.like(second, { digest: expected.digest, step: expected.step });
  t.not(second.digest, first.digest);
});
