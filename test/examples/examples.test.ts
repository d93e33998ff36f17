// The examples run briefly as a user starts them, on the real data if present.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import test from "ava";
import { dataFile, testAll, testIf } from "../helpers/needs.ts";
import { someOrAll } from "../helpers/thinned.ts";

const execute = promisify(execFile);

/** The last line of an example run with `--json`. */
async function resultOf(
  example: string,
  flags: readonly string[],
): Promise<Record<string, unknown>> {
  const file = `dist/examples/${example}.js`;
  const { stdout } = await execute(process.execPath, [file, "--json", ...flags]);
  return JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
}

testIf(testAll, dataFile("criteo/criteo_kaggle_4584_full39.csv.gz"))(
  "Criteo: both models beat chance on the same split",
  async (t) => {
    const { results } = await resultOf("criteo", ["--seeds", "1", "--devices", "1"]);
    const slices = results as { pairs: { logistic: number; dlrm: number }[] }[];
    t.is(slices.length, 2);
    for (const { pairs } of slices) {
      t.is(pairs.length, 1);
      for (const { logistic, dlrm } of pairs) {
        t.true(logistic > 0.68 && logistic < 0.8, `logistic regression ${logistic}`);
        t.true(dlrm > 0.68 && dlrm < 0.8, `DLRM ${dlrm}`);
      }
    }
  },
);

testIf(testAll)(
  "the example with tables larger than memory trains the same bits as with tables that fit",
  async (t) => {
    const { isSame, from, bytes, budget } = await resultOf("larger-than-memory", []);
    t.true(isSame);
    t.true(Number(bytes) >= 8 * Number(budget));
    const { hbm, ddr, ssd } = from as { hbm: number; ddr: number; ssd: number };
    t.true(hbm > 0.3 && ddr > 0 && ssd > 0 && Math.abs(hbm + ddr + ssd - 1) < 1e-9);
  },
);

testIf(testAll)(
  "the Parquet example without a cache: a killed worker and a killed device change no bit",
  async (t) => {
    const flags = ["dist/examples/parquet.js", "--data", "nowhere"];
    const { stdout } = await execute(process.execPath, flags);
    t.regex(stdout, /^12000 ratings generated, in partitions 1997-09, .*1998-04$/m);
    t.regex(stdout, /killed a worker: true\nkilled a device: true/);
    const [, auc] = stdout.match(/^calm: AUC of 1998-04 ([.\d]+), sha256:[0-9a-f]{64}$/m) ?? [];
    t.true(Number(auc) > 0.8, stdout);
    t.true(stdout.endsWith("The same model, byte for byte.\n"), stdout);
  },
);

for (const example of someOrAll("examples without data", ["criteo"], ["frappe", "criteo"])) {
  test(`${example}: without its data the example fails with one sentence`, async (t) => {
    const run = resultOf(example, ["--data", "nowhere"]);
    const error = await t.throwsAsync<Error & { code?: number; stderr?: string }>(run);
    t.is(error?.code, 2);
    t.regex(error?.stderr ?? "", /^There .*nowhere; name their directory with --data\n$/);
  });
}
