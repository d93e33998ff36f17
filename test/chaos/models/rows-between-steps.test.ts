// Rows that change in steps which do not access them, in whole runs: moving averages of rows, and
// tables whose rows all decay. No bit depends on the devices, on a kill, on when cuts are made or
// on where the rows are stored; the saved model has the run's scores, and exports averages.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { exportTable, importTable, type JobOptions, loadModel } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob, smallModel } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

const ema = { decay: 0.9 };

interface Recipe {
  readonly optimizer: NonNullable<JobOptions["optimizer"]>;
  /** Options of each table. */
  readonly table: object;
}

const averages: Recipe = {
  optimizer: {
    dense: { kind: "adam", ema },
    sparse: { kind: "rowWiseAdagrad", learningRate: 0.1, initialAccumulator: 0.2, ema },
  },
  table: {},
};

const recipes: Readonly<Record<string, Recipe>> = {
  "averages of rows in memory": averages,
  "averages of rows behind a cache, in few bits": {
    ...averages,
    table: { tier: "cached", precision: "bfloat16" },
  },
  "decay in closed form": {
    optimizer: {
      sparse: {
        kind: "rowWiseAdagrad",
        learningRate: 0.1,
        schedule: { kind: "step", everySteps: 10, factor: 0.5 },
      },
    },
    table: { l2: 0.2, l2Scope: "decayed" },
  },
};

function modelWith({ table }: Recipe): JobOptions["model"] {
  const tables = smallModel.tables.map((own) => ({ ...own, ...table }));
  return { ...smallModel, tables } as JobOptions["model"];
}

for (const [at, [name, recipe]] of Object.entries(recipes).entries()) {
  // `npm test` runs only the first case.
  testIf(...(at === 0 ? [] : [testAll])).serial(
    `${name}: the same simulated model on 1, 2 and 3 devices, and after a loss`,
    async (t) => {
      const { generations } = await oneModelAfterLosses({
        ...{ model: modelWith(recipe), optimizer: recipe.optimizer, data: simulatedData },
        ...{ evaluation: { fraction: 0.2, everySteps: 3 }, tiers: { ssd: "file" } },
      });
      t.deepEqual(generations, [2, 2]);
    },
  );
}

/** The numbers of an exported CSV file, a line per row, the id first. */
function numbersOf(path: string): number[][] {
  const lines = readFileSync(path, "utf8").trim().split("\n").slice(1);
  return lines.map((line) => line.split(",").map(Number));
}

test.serial(
  "exported vectors are the moving averages; rows imported with their state are unchanged",
  async (t) => {
    const home = startDirectory(t);
    await using place = await startCluster(1);
    const own = { model: modelWith(averages), optimizer: averages.optimizer };
    const { result } = await runJob(place, place.job({ ...own, evaluation: { fraction: 0.2 } }));
    const [plain, whole] = ["averages.csv", "whole.csv"].map((name) => join(home, name));
    const { cut } = await exportTable(result.directory, "a", plain ?? "");
    await exportTable(result.directory, "a", whole ?? "", { state: true });
    const [vectors, rows] = [numbersOf(plain ?? ""), numbersOf(whole ?? "")];
    const dim = (vectors[0]?.length ?? 0) - 1;
    let furthest = 0;
    for (const [i, row] of rows.entries()) {
      t.is(row.length, 1 + dim + dim + 2); // Lags, optimizer state, step of the lags.
      const [steps, lags] = [row.at(-1) ?? 0, row.slice(1 + dim, 1 + 2 * dim)];
      t.true(steps > 0 && steps <= cut && row[1 + 2 * dim] !== 0);
      const expected = lags.map((lag, c) => (row[1 + c] ?? 0) + ema.decay ** (cut - steps) * lag);
      for (const [c, value] of expected.entries()) {
        t.true(Math.abs((vectors[i]?.[1 + c] ?? 0) - value) < 1e-6, `row ${row[0]}, column ${c}`);
        furthest = Math.max(furthest, Math.abs(value - (row[1 + c] ?? 0)));
      }
    }
    t.true(furthest > 1e-3, `${furthest}`);

    const back = join(home, "back");
    const { digest } = await importTable(result.directory, "a", { from: whole ?? "", out: back });
    t.is(digest, result.digest);
    // The imported vectors bring no optimizer state, so each row is its own average, and the new
    // model has the log loss of the run.
    const fresh = join(home, "fresh");
    await importTable(result.directory, "a", { from: plain ?? "", out: fresh });
    const model = await loadModel(fresh);
    const { logLoss } = await model.evaluate();
    t.true(Math.abs(logLoss - (result.logLoss ?? 0)) < 1e-6);
    await model.close();
  },
);
