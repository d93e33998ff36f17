// Counts of real data, read in place if present: the expected figures come from the data's README.

import { join } from "node:path";
import { criteo, csv } from "../../src/data/sources.ts";
import { dataFile, testIf } from "../helpers/needs.ts";
import { openCached, prepare, readPlain, realData, startDirectory } from "./data-files.ts";

const criteoFiles: readonly [string, number, number][] = [
  ["criteo_kaggle_first10000_full39.tsv.gz", 10_000, 0.218],
  ["criteo1tb_day0_first10000_full39.tsv.gz", 10_000, 0.0265],
];
for (const [file, samples, positiveShare] of criteoFiles) {
  testIf(dataFile(join("criteo", file)))(`every line of ${file} is a sample`, async (t) => {
    const path = realData(join("criteo", file));
    const cache = join(startDirectory(t), "cache");
    const options = criteo.tsv(path, { batchSize: 2048, cache });
    const report = await prepare(options, criteo.tables({ dim: 16 }));
    t.like(report, { samples, features: 26, dense: 13, quarantine: { count: 0 } });
    t.true(Math.abs(report.positives / samples - positiveShare) < 0.001);
    t.deepEqual(report.idsMax, new Array(26).fill(1));
  });
}

testIf(dataFile("criteo/criteo_kaggle_4584_full39.csv.gz"))(
  "every line of the Criteo slice that has a header is a sample",
  async (t) => {
    const file = "criteo_kaggle_4584_full39.csv.gz";
    const path = realData(join("criteo", file));
    const tables = criteo.tables({ dim: 16 });
    const options = csv(path, {
      label: "Label",
      dense: Array.from({ length: 13 }, (_, i) => ({ column: `I${i + 1}`, log: true })),
      categorical: tables.map(({ name }) => name),
      batchSize: 2048,
      cache: join(startDirectory(t), "cache"),
    });
    const report = await prepare(options, tables);
    t.like(report, { samples: 4584, quarantine: { count: 0 } });
    t.true(Math.abs(report.positives / 4584 - 0.269) < 0.001);
    const dataset = openCached(t, report.path);
    const missing = readPlain(dataset).filter(({ bags }) => bags[21]?.[0] === 0).length;
    t.true(missing > 3000, "C22 is missing in three lines of four");
  },
);

// Frappe's global ids: the first id of each column, and its number of ids.
const frappe: readonly [string, number, number][] = [
  ["user", 0, 957],
  ["item", 957, 4082],
  ["daytime", 5039, 7],
  ["weekday", 5046, 7],
  ["isweekend", 5053, 2],
  ["homework", 5055, 3],
  ["cost", 5058, 2],
  ["weather", 5060, 9],
  ["country", 5069, 80],
  ["city", 5149, 233],
];
const frappeParts: readonly [string, number, number][] = [
  ["train", 202_027, 67_604],
  ["valid", 57_722, 19_063],
  ["test", 28_860, 9536],
];
for (const [part, samples, positives] of frappeParts) {
  testIf(dataFile(join("frappe", `${part}.csv.gz`)))(
    `every line of Frappe's ${part} part is a sample, and each id maps to its row`,
    async (t) => {
      const path = realData(join("frappe", `${part}.csv.gz`));
      const options = csv(path, {
        label: "label",
        categorical: frappe.map(([column, offset]) => ({ column, ids: "integer", offset })),
        batchSize: 2048,
        cache: join(startDirectory(t), "cache"),
      });
      const tables = frappe.map(([name, , rows]) => ({ name, rows }));
      const report = await prepare(options, tables);
      t.like(report, { samples, positives, dense: 0, features: 10, quarantine: { count: 0 } });
    },
  );
}

testIf(dataFile("frappe/test.csv.gz"))(
  "an id of Frappe beyond its table is quarantined with its line",
  async (t) => {
    const path = realData(join("frappe", "test.csv.gz"));
    const options = csv(path, {
      label: "label",
      categorical: [{ column: "city", ids: "integer", offset: 5149 }],
      batchSize: 2048,
      cache: join(startDirectory(t), "cache"),
      rejectedMax: 1,
    });
    const report = await prepare(options, [{ name: "city", rows: 42 }]);
    t.true(report.quarantine.count > 0);
    t.is(report.samples + report.quarantine.count, 28_860);
    const [first] = report.quarantine.kept;
    t.regex(first?.reason ?? "", /expected `city` to lie in 5149\.\.5190, got `\d+`/);
  },
);
