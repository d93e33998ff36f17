// Labels, weights and groups of samples, from text and the generator to the batch.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type CsvOptions, dataOptions } from "../../src/data/options.ts";
import { createRecordEncoder } from "../../src/data/records.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import { groupOf } from "../../src/data/targets.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { sameValues } from "../helpers/same-values.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const tables = [{ name: "item", rows: 1000 }];
const labels = ["click", "buy"];

async function readCsv(
  t: ExecutionContext,
  lines: readonly string[],
  more: Partial<CsvOptions> = { label: labels, weight: "w", group: "user" },
) {
  const directory = startDirectory(t);
  const text = `buy,item,user,click,w\n${lines.join("\n")}\n`;
  const path = writeText(directory, { name: "a.csv", text });
  const cache = join(directory, "cache");
  const options = { label: "click", batchSize: 1, rejectedMax: 1, categorical: ["item"], cache };
  const report = await prepare(csv(path, { ...options, ...more }), tables);
  const dataset = openCached(t, report.path);
  return { report, samples: readPlain(dataset) };
}

test("a sample has each label, its weight and its group", async (t) => {
  const { samples, report } = await readCsv(t, ["0,a,ann,1,0.25", "1,b,bob,0,0", "1,c,ann,1,2"]);
  const rows = samples.map((one) => [one.labels, one.sampleWeight, one.group]);
  t.deepEqual(rows, [
    [[1, 0], 0.25, [...groupOf("ann")]],
    [[0, 1], 0, [...groupOf("bob")]],
    [[1, 1], 2, [...groupOf("ann")]],
  ]);
  t.is(report.positives, 2, "positives of the first label");
  t.notDeepEqual(groupOf("ann"), groupOf("bob"));
});

test("data without targets have the digest that they had before targets existed", async (t) => {
  const lines = ["0,a,ann,1,0.25", "1,b,bob,0,0"];
  const plain = await readCsv(t, lines, {});
  t.false("targets" in plain.report);
  const listed = await readCsv(t, lines, { label: ["click"] });
  t.is(listed.report.digest, plain.report.digest, "a list of one label equals the label");
  for (const more of [{ label: labels }, { weight: "w" }, { group: "user" }]) {
    const other = await readCsv(t, lines, more);
    t.not(other.report.digest, plain.report.digest);
    const bags = (read: typeof other) => read.samples.map((sample) => sample.bags);
    t.deepEqual(bags(other), bags(plain));
  }
});

test("a bad label, weight or group makes a bad line, and the reason names it", async (t) => {
  const bad = [
    "2,a,ann,1,1",
    "0,a,ann,,1",
    "0,a,ann,1,-1",
    "0,a,ann,1,x",
    "0,a,ann,1,",
    "0,a,,1,1",
  ];
  const { report, samples } = await readCsv(t, [...bad, "1,a,ann,1,1"]);
  t.is(samples.length, 1);
  const weight = "expected `w`, the weight of the sample, to be a number >= 0";
  t.deepEqual(
    report.quarantine.kept.map(({ reason }) => reason.split("; ")[0]),
    [
      "expected the label to be 0 or 1, got `2`",
      "the label `click` is missing, got ``",
      `${weight}, got \`-1\``,
      `${weight}, got \`x\``,
      `${weight}, got \`\``,
      "`user`, the group of the sample, is missing",
    ],
  );
});

test("a file without a target's column is refused, and the error names the option", async (t) => {
  const more = { label: ["click", "bought"], weight: "weight", group: "usr" };
  const error = await t.throwsAsync(readCsv(t, ["0,a,ann,1,1"], more));
  for (const part of ["`data.label` names the column `bought`", "`data.weight`", "`data.group`"]) {
    t.true(error?.message.includes(part), error?.message);
  }
  t.true(error?.message.includes("did you mean `user`?"), error?.message);
  const twice = { label: ["click", "click"], weight: "w" };
  await t.throwsAsync(readCsv(t, ["0,a,ann,1,1"], twice), {
    message: /`label` to be the name of a column, or a list of up to 16 different ones/,
  });
  await t.throwsAsync(readCsv(t, ["0,a,ann,1,1"], { label: labels, dense: ["buy"] }), {
    message: /`data\.dense\[0\]` to be another column than the label, `buy`/,
  });
});

test("targets stay with their samples in any order, from memory and from disk", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const options = { samples: 500, batchSize: 8, dense: 3, cache };
  const own = { labels: 3, sampleWeights: "uniform", groups: 20 } as const;
  const report = await prepare(synthetic({ ...options, ...own }), tables);
  const whole = openCached(t, report.path);
  const blocks = openCached(t, report.path, 10_000);
  const all = readPlain(whole);
  sameValues(t, readPlain(blocks), all);
  const indices = [499, 0, 31, 32, 31, 250];
  sameValues(t, readPlain(blocks, indices), indices.map((index) => all[index]) as typeof all);
  t.is(new Set(all.map(({ group }) => String(group))).size, 20);
  const mean = all.reduce((sum, { sampleWeight = 0 }) => sum + sampleWeight, 0) / all.length;
  t.true(Math.abs(mean - 1) < 0.1, `mean ${mean}`);
  const differing = all.filter(({ labels: of }) => of?.[0] !== of?.[1] || of?.[1] !== of?.[2]);
  t.true(differing.length > 50 && differing.length < 450, `${differing.length}`);
  // Further labels, weights and groups change neither the first label nor the ids and dense
  // features.
  const plain = await prepare(synthetic(options), tables);
  const other = openCached(t, plain.path);
  const withoutTargets = all.map(({ label, dense, bags }) => ({ label, dense, bags }));
  sameValues(t, readPlain(other), withoutTargets);
});

test("a record may have the target columns, and needs none of them", (t) => {
  const data = checkOptions(
    dataOptions,
    csv("a.csv", {
      ...{ label: labels, weight: "w", group: "user" },
      ...{ batchSize: 1, categorical: ["item"] },
    }),
  );
  const encoder = createRecordEncoder(data, tables);
  const full = encoder.encode([{ item: "a", click: 1, buy: 0, w: 2, user: "ann" }]);
  t.deepEqual(encoder.encode([{ item: "a" }]), full);
});
