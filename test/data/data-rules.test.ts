// The rules of docs/data.md: bad lines and their limit, labels, missing and unreadable values, ids
// beyond the rows, headers.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { mix32 } from "../../src/data/murmur-hash.ts";
import type { CsvOptions, TableShape } from "../../src/data/options.ts";
import { csv } from "../../src/data/sources.ts";
import {
  DataRejectedError,
  InputUnusableError,
  InvalidOptionError,
} from "../../src/errors/errors.ts";
import { realDisk } from "../../src/ports/disk.ts";
import {
  openCached,
  type PlainSample,
  prepare,
  readPlain,
  startDirectory,
  writeText,
} from "./data-files.ts";

type Rest = Partial<Omit<CsvOptions, "kind" | "paths">>;

/** Writes a CSV file of these lines to a directory of its own; makes its data section. */
function startCsv(t: ExecutionContext, lines: readonly string[], rest: Rest = {}) {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text: `${lines.join("\n")}\n` });
  const cache = join(directory, "cache");
  const section = (more: Rest = {}) =>
    csv(path, { label: "y", batchSize: 1, cache, ...rest, ...more });
  const caches = () => realDisk.list(cache);
  return { path, section, caches };
}

/** The samples of these lines. */
async function samplesOf(
  t: ExecutionContext,
  lines: readonly string[],
  rest: Rest,
  tables: readonly TableShape[] = [],
): Promise<PlainSample[]> {
  const { section } = startCsv(t, lines, { rejectedMax: 1, ...rest });
  const dataset = openCached(t, (await prepare(section(), tables)).path);
  return readPlain(dataset);
}

const numbered = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i));

test("bad lines beyond the limit refuse the data, with the three most frequent reasons", async (t) => {
  const bad = ["1,n/a", "0,n/a", "1,?", "2,1", "3,1", "1", "1,1,1", ",7"];
  const lines = ["y,x", ...numbered(92, (i) => `${i % 2},${i}`), ...bad];
  const { path, section, caches } = startCsv(t, lines, { dense: ["x"] });
  const refused = async (rejectedMax: number | undefined) => {
    const limit = rejectedMax === undefined ? {} : { rejectedMax };
    const error = await t.throwsAsync(prepare(section(limit), []), {
      instanceOf: DataRejectedError,
    });
    t.like(error, { code: "DATA_REJECTED", recovery: "stop", lines: 100, rejected: 8 });
    return error?.message ?? "";
  };
  const message = await refused(undefined);
  t.true(message.startsWith(`Expected at most 1 % of the lines of ${path} to be bad`), message);
  t.regex(
    message,
    /got 8 of 100, 8 %: 3 × expected `x` to be a number \(.*, line 94: got `n\/a`\)/,
  );
  t.regex(message, /; 3 × expected the label to be 0 or 1 \(.*, line 97: got `2`\)/);
  t.regex(message, /; 2 × expected 2 fields \(.*, line 99: got 1\)\. To go on: /);
  t.regex(message, /`unreadable: missing` of `x`.*`positive`; correct the lines; or raise `reje/);
  t.deepEqual(caches(), [], "the refused data leave no cache");
  await refused(0.079);
  t.is((await prepare(section({ rejectedMax: 0.08 }), [])).samples, 92);
});

test("the limit of bad lines is a strict share, however few lines there are", async (t) => {
  const { section } = startCsv(t, ["y,x", "1,1", "0,2", "0,z"], { dense: ["x"] });
  await t.throwsAsync(prepare(section(), []), { instanceOf: DataRejectedError });
});

test("a cache made by a laxer job is checked against the limit of this job", async (t) => {
  const { section, caches } = startCsv(t, ["y,x", "1,1", "0,2", "0,z"], { dense: ["x"] });
  const { path } = await prepare(section({ rejectedMax: 0.5 }), []);
  await t.throwsAsync(prepare(section(), []), {
    instanceOf: DataRejectedError,
    message: /got 1 of 3, 33\.3 %: 1 × expected `x` to be a number \(.*a\.csv, line 4: got `z`\)/,
  });
  t.deepEqual(caches().length, 1, "the other job's cache stays");
  t.is((await prepare(section({ rejectedMax: 0.4 }), [])).path, path);
});

test("a label is a decimal equal to 1, 0 or -1, or true or false, whatever other lines have", async (t) => {
  const positive = ["1", "1.0", "+1", "1e0", ".1e1", " 1", "true", "TRUE", "True "];
  const negative = ["0", "0.00", "-0", "0e5", "-1", "-1.0", "false", "FALSE"];
  const none = ["2", "", " ", "yes", "1,5", "0x1", "NaN", "--1", "truee", "1 1"];
  for (const label of [...positive, ...negative]) {
    const expected = positive.includes(label) ? 1 : 0;
    const [alone] = await samplesOf(t, ["x;y", `1;${label}`], { dense: ["x"], delimiter: ";" });
    t.is(alone?.label, expected, label);
  }
  const lines = ["x;y", ...[...none, "1"].map((label) => `1;${label}`)];
  const { section } = startCsv(t, lines, { dense: ["x"], delimiter: ";", rejectedMax: 1 });
  const { samples, quarantine } = await prepare(section(), []);
  t.deepEqual([samples, quarantine.count], [1, none.length]);
});

test("`positive` names the labels that are 1; others are 0, and a missing one is bad", async (t) => {
  const labelsOf = async (labels: readonly string[], positive: CsvOptions["positive"]) => {
    const lines = ["x,y", ...labels.map((label) => `1,${label}`)];
    const samples = await samplesOf(t, lines, { dense: ["x"], positive });
    return samples.map(({ label }) => label);
  };
  t.deepEqual(await labelsOf(["1", "2", "2.0", " 2", "3"], 2), [0, 1, 1, 1, 0]);
  t.deepEqual(await labelsOf(["yes", "y", "Yes", "no"], ["yes", "y"]), [1, 1, 0, 0]);
  t.deepEqual(await labelsOf(["zürich", "bern"], "zürich"), [1, 0]);
  t.deepEqual(await labelsOf(["true", "false"], true), [1, 0]);
  t.deepEqual(
    await labelsOf(["4", "5", ...["", "NA", "n/a", "NULL", "none", "?", "\\N"]], 5),
    [0, 1],
  );
});

test("a missing dense value is filled by its column's rule, or else the section's", async (t) => {
  const lines = ["y,a,b,c", "1,2,3,4", "0,,,", "0,4,5,8"];
  const denseOf = async (rest: Rest) => {
    return (await samplesOf(t, lines, rest)).map(({ dense }) => dense);
  };
  t.deepEqual(await denseOf({ dense: ["a", "b", "c"] }), [
    [2, 3, 4],
    [0, 0, 0],
    [4, 5, 8],
  ]);
  t.deepEqual(await denseOf({ dense: ["a", { column: "b", missing: 0 }, "c"], missing: "mean" }), [
    [2, 3, 4],
    [3, 0, 6],
    [4, 5, 8],
  ]);
  t.deepEqual(await denseOf({ dense: ["a", { column: "b", missing: "indicator" }, "c"] }), [
    [2, 3, 0, 4],
    [0, 0, 1, 0],
    [4, 5, 0, 8],
  ]);
  t.deepEqual(await denseOf({ dense: ["a"], missing: "reject" }), [[2], [4]]);
});

test("the mean is over good lines alone, after the logarithm; empty columns are named", async (t) => {
  const column = { column: "x", log: true, missing: "mean" as const };
  const lines = ["y,x,z", "1,0,", "0,,", "bad,1000,", "0,3,", "1,-5,"];
  const { section } = startCsv(t, lines, { rejectedMax: 1 });
  const report = await prepare(section({ dense: [column, { column: "z", missing: "mean" }] }), []);
  t.deepEqual(report.means, { 0: Math.fround(Math.log1p(3)) / 3, 1: 0 });
  t.deepEqual(report.warnings, [
    {
      code: "COLUMN_EMPTY",
      message: "The column `z` has no value in any good line: the model learns nothing of it",
    },
  ]);
});

test("further data use the means of the training data, from memory and from disk", async (t) => {
  const lines = ["y,x", "1,2", "0,", "0,4"];
  const { section } = startCsv(t, lines, { dense: ["x"], missing: "mean" });
  const { path } = await prepare(section(), []);
  for (const memory of [undefined, 1]) {
    const dataset = openCache(path, realDisk, memory, { 0: -7 });
    t.deepEqual(
      readPlain(dataset).map(({ dense }) => dense),
      [[2], [-7], [4]],
    );
    dataset.close();
  }
});

test("text that is no number is a bad line, or a missing value where the job says so", async (t) => {
  const lines = ["y,x", "1,2", "0,n/a", "0,NULL", "1,?", "1,Infinity", "0, ", "0,4"];
  const denseOf = async (rest: Rest) => {
    return (await samplesOf(t, lines, rest)).map(({ dense }) => dense);
  };
  t.deepEqual(await denseOf({ dense: ["x"] }), [[2], [4]]);
  const read = [[2], [0], [0], [0], [0], [0], [4]];
  t.deepEqual(await denseOf({ dense: ["x"], unreadable: "missing" }), read);
  t.deepEqual(await denseOf({ dense: [{ column: "x", unreadable: "missing" }] }), read);
  const own = [{ column: "x", unreadable: "reject" as const }];
  t.deepEqual(await denseOf({ dense: own, unreadable: "missing" }), [[2], [4]]);
  const [, second] = await denseOf({ dense: ["x"], unreadable: "missing", missing: "indicator" });
  t.deepEqual(second, [0, 1]);
});

test("a bag of more ids than 16 bits count is a bad line, and `firstX` is the way around", async (t) => {
  const ids = (count: number) => numbered(count, (i) => `${i % 9}`).join("|");
  const lines = ["y,a", `1,${ids(65_535)}`, `0,${ids(65_536)}`];
  const { section } = startCsv(t, lines, { rejectedMax: 1 });
  const a = { column: "a", separator: "|" };
  const { samples, quarantine } = await prepare(section({ categorical: [a] }), [
    { name: "a", rows: 9 },
  ]);
  t.deepEqual([samples, quarantine.count], [1, 1]);
  t.is(quarantine.kept[0]?.reason, "`a` has more than 65535 ids");
  const first = { op: "firstX", input: a, output: "b", x: 65_535 } as const;
  const cut = await prepare(
    section({ transforms: [first], categorical: [{ column: "b", ids: "integer" }] }),
    [{ name: "b", rows: 9 }],
  );
  t.deepEqual([cut.samples, cut.quarantine.count], [2, 0]);
});

test("a field without an id becomes row 0, an empty bag or a bad line", async (t) => {
  const lines = ["y,a", "1,7", "0,", "0,||"];
  const bagsOf = async (column: Exclude<CsvOptions["categorical"], undefined>[number]) => {
    const samples = await samplesOf(t, lines, { categorical: [column] }, [{ name: "a", rows: 9 }]);
    return samples.map(({ bags }) => (bags[0]?.length === 1 && bags[0][0] !== 0 ? "id" : bags[0]));
  };
  t.deepEqual(await bagsOf("a"), ["id", [0], "id"]);
  t.deepEqual(await bagsOf({ column: "a", separator: "|" }), ["id", [], []]);
  t.deepEqual(await bagsOf({ column: "a", separator: "|", missing: "own" }), ["id", [0], [0]]);
  t.deepEqual(await bagsOf({ column: "a", missing: "empty" }), ["id", [], "id"]);
  t.deepEqual(await bagsOf({ column: "a", separator: "|", missing: "reject" }), ["id"]);
  t.deepEqual(await bagsOf({ column: "a", ids: "integer", missing: "empty" }), ["id", []]);
  t.deepEqual(await bagsOf({ column: "a", ids: "integer", missing: "reject" }), ["id"]);
  const { section } = startCsv(t, lines, {});
  const column = { column: "a", ids: "integer" as const, missing: "own" as const };
  t.throws(() => prepare(section({ categorical: [column] }), []), {
    instanceOf: InvalidOptionError,
    message: /`categorical\[0\]\.missing` to be "empty" or "reject" where `ids` is "integer"/,
  });
});

test("an integer id beyond the rows is a bad line, or handled by the table's policy", async (t) => {
  const ids = ["0", "9", "10", "-1", "2147483647", "2147483648", "-99999999999"];
  const lines = ["y,a", ...ids.map((id) => `1,${id}`)];
  const idsOf = async (policy: TableShape["ids"]) => {
    const categorical = [{ column: "a", ids: "integer" as const }];
    const shape = { name: "a", rows: 10, ids: policy };
    const samples = await samplesOf(t, lines, { categorical }, [shape]);
    return samples.map(({ bags }) => Number(bags[0]?.[0]));
  };
  t.deepEqual(await idsOf(undefined), [0, 9]);
  t.deepEqual(await idsOf("clamp"), [0, 9, 10, -1, 2147483647, 2147483647, -1]);
  const hashed = await idsOf("hash");
  t.deepEqual(hashed.slice(0, 5), [0, 9, 10, -1, 2147483647]);
  const [large, small] = hashed.slice(5) as [number, number];
  t.true(large < 0 && small < 0 && large !== small, "still beyond the rows, so counted");
  t.not(mix32(large), mix32(small));
});

test("a header with two columns of one name is refused, with both positions", async (t) => {
  const { path, section } = startCsv(t, ["y,x,,a,,x", "1,2,,3,,4"], { dense: ["x"] });
  await t.throwsAsync(prepare(section(), []), {
    instanceOf: InputUnusableError,
    message:
      `The header of the data file ${path} is unusable: it has the column \`x\` more than once ` +
      "(fields 2, 6); give each column a name of its own",
  });
});

test("a label that is also a feature is refused, unless the job allows it", async (t) => {
  const { section } = startCsv(t, ["y,x", "1,2", "0,3"], { dense: ["x", "y"] });
  await t.throwsAsync(prepare(section(), []), {
    instanceOf: InvalidOptionError,
    message:
      /`data\.dense\[1\]` to be another column than the label, `y`: .*`labelAsFeature: true`/,
  });
  const categorical = section({ dense: [], categorical: [{ column: "y", table: "t" }] });
  await t.throwsAsync(prepare(categorical, [{ name: "t", rows: 9 }]), {
    message: /`data\.categorical\[0\]` to be another column/,
  });
  t.is((await prepare(section({ labelAsFeature: true }), [])).dense, 2);
});

test("integer ids may be written as decimals, as in columns with missing values", async (t) => {
  const lines = ["y,a", "1,7.0", "0,8.", "0,-3.00", "1,", "0,7.5", "0,.0", "0,7.0.0"];
  const tables = (idBits: 32 | 64) => [{ name: "a", rows: 9, idBits, ids: "clamp" as const }];
  const categorical = [{ column: "a", ids: "integer" as const }];
  for (const idBits of [32, 64] as const) {
    const samples = await samplesOf(t, lines, { categorical }, tables(idBits));
    const ids = samples.map(({ bags }) => bags[0]?.map(Number));
    t.deepEqual(ids, [[7], [8], [-3], []]);
  }
});

test("a file without a good line is named in the error, however small its share", async (t) => {
  const directory = startDirectory(t);
  const good = numbered(1000, (i) => `${i % 2},${i}`);
  const fileOf = (name: string, rows: readonly string[]) =>
    writeText(directory, { name, text: `${["y,x", ...rows].join("\n")}\n` });
  const paths = [fileOf("a.csv", good), fileOf("b.csv", ["0;1", "1;2"]), fileOf("c.csv", [])];
  const cache = join(directory, "cache");
  const options = csv(paths, { label: "y", dense: ["x"], batchSize: 1, cache });
  const { warnings } = await prepare(options, []);
  t.deepEqual(warnings, [
    {
      code: "FILE_WITHOUT_SAMPLES",
      message: `The data file ${paths[1]} has no good line: it has 2 bad ones`,
    },
    {
      code: "FILE_WITHOUT_SAMPLES",
      message: `The data file ${paths[2]} has no good line: it has no line but the header`,
    },
  ]);
});
