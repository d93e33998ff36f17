// `osiris train --baseline`: the mean, popularity and logistic regression beside a model.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { stringify } from "yaml";
import { conclusionOf } from "../../../cli/views/baseline-lines.ts";
import { csv } from "../../../src/data/sources.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { simpleBaselines } from "../../../storage/model/evaluation/baselines.ts";
import { startDirectory } from "../../data/data-files.ts";
import { leavesOut, testAll } from "../../helpers/needs.ts";
import { runCli } from "../../helpers/processes/cli.ts";
import { lastJson } from "../../helpers/processes/start-cli.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

/** Lines whose click rate depends on the item, and only a little on the user. */
const lines = Array.from({ length: 1500 }, (_, i) => {
  const [item, user] = [(i * i + 3 * i) % 13, (i * 7) % 29];
  const chance = (item + 1) / 16 + (user % 3) / 40;
  return { clicked: Number(((i * 7919) % 1009) / 1009 < chance), item, user, price: i % 5 };
});

const job = (home: string): JobOptions => ({
  model: {
    kind: "dlrm",
    dense: 1,
    tables: ["user", "item"].map((name) => ({ name, rows: 30, dim: 4 })),
    bottom: [4],
    top: [4, 1],
  },
  data: csv(join(home, "clicks.csv"), {
    ...{ label: "clicked", dense: ["price"], batchSize: 200, cache: join(home, "cache") },
    categorical: ["user", "item"].map((column) => ({ column, ids: "integer" as const })),
    epochs: 4,
  }),
  evaluation: { fraction: 0.2, split: { kind: "order" } },
  checkpoint: { directory: join(home, "checkpoints") },
});

function writeLines(home: string): void {
  const text = lines.map(({ clicked, item, user, price }) => [clicked, item, user, price].join());
  writeFileSync(join(home, "clicks.csv"), `clicked,item,user,price\n${text.join("\n")}\n`);
}

const mean = (values: readonly number[]) =>
  values.reduce((sum, one) => sum + one, 0) / values.length;

/** Log loss of probabilities, and AUC by comparing all pairs. */
function figuresOf(of: (line: (typeof lines)[number]) => number, held: typeof lines) {
  const logLoss = mean(held.map((l) => -Math.log(l.clicked === 1 ? of(l) : 1 - of(l))));
  const [some, others] = [1, 0].map((label) => held.filter(({ clicked }) => clicked === label));
  const wins = (some ?? []).flatMap((p) =>
    (others ?? []).map((n) => (of(p) > of(n) ? 1 : of(p) === of(n) ? 0.5 : 0)),
  );
  return { logLoss, auc: mean(wins) };
}

test("mean and popularity are computed on training lines, and evaluated on held-out lines", async (t) => {
  const home = startDirectory(t);
  writeLines(home);
  await drawModel(job(home));
  const [training, held] = [lines.slice(0, 1200), lines.slice(1200)];
  const rate = mean(training.map(({ clicked }) => clicked));
  const [found] = await simpleBaselines(join(home, "checkpoints"));
  t.is(found?.mean, rate);
  const near = (own: object | undefined, wanted: { logLoss: number; auc: number }) => {
    for (const [name, value] of Object.entries(wanted)) {
      const figure = (own as Record<string, number> | undefined)?.[name] ?? Number.NaN;
      t.true(Math.abs(figure - value) < 1e-6, `${name}: ${figure}, not ${value}`);
    }
  };
  near(
    found?.ofMean,
    figuresOf(() => rate, held),
  );
  t.is(found?.popularity?.column, "item");
  const ratesOf = Array.from({ length: 13 }, (_, item) => {
    const own = training.filter((line) => line.item === item).map(({ clicked }) => clicked);
    return (own.reduce((sum, one) => sum + one, 0) + 10 * rate) / (own.length + 10);
  });
  near(
    found?.popularity?.metrics,
    figuresOf(({ item }) => ratesOf[item] ?? rate, held),
  );
});

interface Told {
  readonly digest: string;
  readonly auc: number;
  readonly baselines?: readonly {
    readonly conclusion?: string;
    readonly baselines: readonly { kind: string; metrics: { auc: number; logLoss: number } }[];
  }[];
}

test.serial("train --baseline compares the model, and changes no bit of it", async (t) => {
  const home = startDirectory(t);
  writeLines(home);
  const write = (name: string, options: object) => {
    const own = { ...job(home), checkpoint: { directory: join(home, name) }, ...options };
    writeFileSync(join(home, `${name}.yaml`), stringify(own));
  };
  write("a", {});
  write("b", {});
  const slow = {
    dense: { kind: "sgd", learningRate: 1e-9 },
    sparse: { kind: "sgd", learningRate: 1e-9 },
  };
  write("slow", { optimizer: slow });
  const train = (name: string, ...more: string[]) => {
    return runCli(["train", `${name}.yaml`, "--devices", "1", ...more], home);
  };
  const [plain, withBaseline] = [
    await train("a", "--json"),
    await train("b", "--json", "--baseline"),
  ];
  t.is(withBaseline.code, 0, withBaseline.stderr);
  const [alone, compared] = [lastJson<Told>(plain), lastJson<Told>(withBaseline)];
  t.is(compared.digest, alone.digest);
  t.is(alone.baselines, undefined);
  const [own] = compared.baselines ?? [];
  t.deepEqual(
    own?.baselines.map(({ kind }) => kind),
    ["mean", "popularity", "logistic-regression"],
  );
  const [average, , regression] = own?.baselines ?? [];
  t.is(average?.metrics.auc, 0.5);
  t.true((regression?.metrics.auc ?? 0) > 0.65, JSON.stringify(own));

  writeFileSync(join(home, "none.yaml"), stringify({ ...job(home), evaluation: undefined }));
  const none = await train("none", "--baseline");
  t.is(none.code, 2);
  t.regex(none.stderr, /Expected `--baseline` with a job that has an `evaluation`/);

  if (leavesOut(t, testAll)) return; // Tested below: a model that does not win.
  const shown = await train("slow", "--baseline");
  t.is(shown.code, 0, shown.stderr);
  t.regex(shown.stdout, /^Baseline +AUC +log loss +NE$/m);
  t.regex(shown.stdout, /^share of positives +0\.5000 +0\.\d{4} +\d\.\d{4}$/m);
  t.regex(shown.stdout, /^popularity by item +0\.\d{4} /m);
  t.regex(
    shown.stdout,
    new RegExp(`^logistic regression +${regression?.metrics.auc.toFixed(4)} `, "m"),
  );
  t.regex(
    shown.stdout,
    /^The model does not beat the baseline: logistic regression has an AUC of 0/m,
  );
});

test("a model that beats a baseline in AUC and log loss gets no remark, any other model does", (t) => {
  const mine = { auc: 0.7, logLoss: 0.4 };
  const than = (auc: number, logLoss: number) => {
    return conclusionOf(mine, [{ kind: "logistic-regression", metrics: { auc, logLoss } }]);
  };
  t.is(than(0.69, 0.41), undefined);
  t.regex(than(0.71, 0.41) ?? "", /logistic regression has an AUC of 0\.7100, the model 0\.7000/);
  t.regex(
    than(0.69, 0.4) ?? "",
    /logistic regression has a log loss of 0\.4000, the model 0\.4000/,
  );
  const numbers = conclusionOf({ rmse: 2 }, [{ kind: "mean", metrics: { rmse: 1.5 } }]);
  t.regex(numbers ?? "", /mean of the training rows has an RMSE of 1\.5000, the model 2\.0000/);
});
