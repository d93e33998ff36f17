// Damage that a job allows: unreadable row groups and files are left out and counted, the same ones
// with a cache and without. Any other fault of a file ends the run.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf } from "../../../src/data/contents.ts";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { isDamage } from "../../../src/data/tables/damage.ts";
import { DataRejectedError, InputUnusableError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { damageColumn, readPlain, startDirectory } from "../data-files.ts";

const rowsOfFile = 30_000;
const rowsOfGroup = 10_000;
const tables = [{ name: "item", rows: 1000 }];

/** Writes three files of three row groups, whose columns have pages of about a thousand rows. */
function threeFiles(t: ExecutionContext): { readonly home: string; readonly paths: string[] } {
  const home = startDirectory(t);
  const folder = join(home, "clicks");
  mkdirSync(folder);
  const paths = ["a", "b", "c"].map((name, file) => {
    const rows = Array.from({ length: rowsOfFile }, (_, row) => row);
    const columnData = [
      { name: "label", data: rows.map((row) => (row * 7 + file) % 2), type: "INT32" as const },
      { name: "item", data: rows.map((row) => (row * 7919) % 100_003), type: "INT32" as const },
    ];
    const options = { columnData, rowGroupSize: rowsOfGroup, pageSize: 4096 };
    const path = join(folder, `${name}.parquet`);
    writeFileSync(path, new Uint8Array(parquetWriteBuffer(options)));
    return path;
  });
  return { home, paths };
}

function optionsOf(home: string, rest: object) {
  const data = checkOptions(dataOptions, {
    ...{ kind: "parquet", paths: [join(home, "clicks")], cache: join(home, "cache") },
    ...{ batchSize: 32, label: "label", categorical: ["item"], rejectedMax: 0.9, ...rest },
  });
  if (data.kind !== "parquet") throw new Error("Parquet");
  const paths = ["a", "b", "c"].map((name) => join(home, "clicks", `${name}.parquet`));
  return { ...data, paths };
}

test("damaged row groups and files are left out and counted, up to `damagedMax`", async (t) => {
  const { home, paths } = threeFiles(t);
  const [a = "", b = ""] = paths;
  await damageColumn(a, 1, "item", 0.85); // Only the last pages of `item`.
  await damageColumn(b, 0, "label", 0);
  writeFileSync(join(home, "clicks/c.parquet"), readFileSync(a).subarray(0, 5000));
  const prepared = (rest: object) => prepareCache(optionsOf(home, rest), tables, realDisk);

  await t.throwsAsync(prepared({}), {
    instanceOf: InputUnusableError,
    message: /^Cannot read the Parquet file .*a\.parquet, row group 1, column `item`: /,
  });
  await t.throwsAsync(prepared({ damagedMax: 2 }), {
    instanceOf: InputUnusableError,
    message:
      /^Expected at most 2 damaged row groups and files \(`damagedMax`\), and found another one: .*c\.parquet: .*or raise `damagedMax`$/,
  });

  const cached = await prepared({ damagedMax: 3 });
  const { samples, quarantine } = cached;
  const [ofA, ofB, ofC] = quarantine.kept;
  t.is(quarantine.kept.length, 3);
  t.like(ofA, { file: a, rowGroup: 1 });
  const lost = 2 * rowsOfGroup - ((ofA?.line ?? 0) - 1);
  t.true(lost > 0 && lost < rowsOfGroup, `rows before the damage are read: ${lost}`);
  t.regex(ofA?.reason ?? "", /^expected a row group that can be read, got column `item`: /);
  t.like(ofB, { file: b, rowGroup: 0, line: 1 });
  t.like(ofC, { file: join(home, "clicks/c.parquet"), line: 1 });
  t.regex(ofC?.reason ?? "", /^expected a file that can be read, got .*does not end in PAR1/);
  t.is(samples, 2 * rowsOfFile - rowsOfGroup - lost);
  t.is(quarantine.count, rowsOfGroup + lost + 1);

  const options = optionsOf(home, { damagedMax: 3, streamed: true });
  const streamed = await prepareCache(options, tables, realDisk);
  t.is(contentsOf(streamed).text, contentsOf(cached).text);
  t.deepEqual(streamed.quarantine, cached.quarantine);
  const origin = { options, tables };
  const again = await openSamples(streamed.path, realDisk, origin);
  const whole = await openSamples(cached.path, realDisk, {
    options: optionsOf(home, { damagedMax: 3 }),
    tables,
  });
  const edge = rowsOfGroup + (rowsOfGroup - lost) - 20; // 64 samples from here span the lost rows.
  const places = Array.from({ length: 64 }, (_, i) => edge + i);
  await holdAt(again, edge, 64);
  sameValues(t, readPlain(again, places), readPlain(whole, places));
  again.close();
  whole.close();
});

test("rows that are left out count as bad rows", async (t) => {
  const { home, paths } = threeFiles(t);
  await damageColumn(paths[1] ?? "", 2, "item", 0);
  const options = optionsOf(home, { damagedMax: 1, rejectedMax: 0.1 });
  await t.throwsAsync(prepareCache(options, tables, realDisk), {
    instanceOf: DataRejectedError,
    message:
      /at most 10 % of the rows .* got 10,000 of 90,000, 11\.1 %: 10,000 × expected a row group that can be read \(.*b\.parquet, row group 2, row 20001/,
  });
  const look = await lookAtFiles(options, tables, 90_000);
  t.deepEqual([look.problems, look.samples, look.rejected.count], [[], 80_000, 10_000]);
});

test("a missing file, or a file that lacks a column, is an error and no damage", async (t) => {
  const { home, paths } = threeFiles(t);
  rmSync(paths[1] ?? "");
  const options = optionsOf(home, { damagedMax: 100 });
  const error = await t.throwsAsync(prepareCache(options, tables, realDisk), {
    instanceOf: InputUnusableError,
    message: /b\.parquet/,
  });
  t.false(isDamage(error));
  const gone = Object.assign(new Error("read failed"), { code: "EIO", syscall: "read" });
  t.false(isDamage(new InputUnusableError("a", "x", { cause: gone })));
  t.false(isDamage(new InputUnusableError("a", "it has changed")));
});
