// The shipped policies on unseen tasks: the plans behind the bench's figures.

import test from "ava";
import { openKernels } from "../../../../src/kernels/index.ts";
import { dataFile, testAll, testIf } from "../../../../test/helpers/needs.ts";
import { autoRows, dreamRows } from "../../bench/policies/policy-rows.ts";
import { publishedHome } from "../../bench/published.ts";
import { readPolicy } from "../../files/policy-file.ts";

testIf(dataFile("sharding/tables856.json.gz"))(
  "DreamShard's plans cost less than greedy ones, and than those without cost inputs",
  (t) => {
    const rows = dreamRows(openKernels("auto"), 4, { data: publishedHome, tasks: 10 });
    const figureOf = (size: number, row: string) => {
      return (
        rows.find(({ name }) => name === `sharding.dream.4.${size}.${row}`)?.figure ?? Number.NaN
      );
    };
    for (const [size, fasterMin] of [
      [20, 28],
      [60, 19],
      [100, 19],
    ] as const) {
      t.true(figureOf(size, "faster") >= fasterMin);
      for (const other of ["dim", "size", "lookup", "random", "noCosts"]) {
        t.true(figureOf(size, "cost") < figureOf(size, other), `${size}, ${other}`);
      }
    }
  },
);

testIf(testAll, dataFile("sharding/tables856.json.gz"))(
  "AutoShard's plans are more balanced than greedy ones, and than without cost inputs",
  (t) => {
    // The package ships no policy trained without costs. Training one takes a minute.
    const options = { data: publishedHome, tasks: 20, hasAblations: true };
    const rows = autoRows(openKernels("auto"), options);
    const figureOf = (size: string, row: string) => {
      return rows.find(({ name }) => name === `sharding.auto.${size}.${row}`)?.figure ?? Number.NaN;
    };
    t.true(figureOf("80", "balance") >= 85);
    t.true(figureOf("80", "speedUp") >= 1.65);
    t.true(figureOf("80.unseen", "speedUp") >= 1.65);
    for (const size of ["80", "80.unseen", "160.unseen", "800", "800.unseen"]) {
      for (const other of ["dim", "size", "lookup", "sizeLookup", "random", "noCosts"]) {
        t.true(figureOf(size, "balance") > figureOf(size, other), `${size}, ${other}`);
      }
    }
  },
);

test("the shipped policies state how they were trained", (t) => {
  for (const name of [
    ...["dreamshard-4", "dreamshard-8", "dreamshard-4-no-costs"],
    ...["autoshard", "autoshard-half"],
  ]) {
    const { policy, provenance } = readPolicy(
      `packages/sharding/bench/networks/${name}.safetensors`,
    );
    t.is(policy.method, name.startsWith("auto") ? "autoshard" : "dreamshard");
    t.is(policy.hasCosts, !name.includes("no-costs"));
    t.regex(provenance.command ?? "", new RegExp(`train-policies\\.js --only ${name} --seed 1$`));
  }
});
