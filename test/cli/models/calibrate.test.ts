// `osiris calibrate` and `osiris predict` as commands: their files, output and refusals.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { realDisk } from "../../../src/ports/disk.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory } from "../../data/data-files.ts";
import { clicks, clicksJob, writeClicks } from "../../helpers/models/clicks.ts";
import { runCli } from "../../helpers/processes/cli.ts";
import { lastJson } from "../../helpers/processes/start-cli.ts";
import { flipByte } from "../../helpers/stores/checkpoints.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

interface Told {
  readonly calibrations: { readonly samples: number; readonly positives: number }[];
}

async function drawnHere(t: ExecutionContext, model: "dlrm" | "tasks" = "dlrm") {
  const home = startDirectory(t);
  writeClicks(join(home, "clicks.csv"));
  const job = clicksJob(home, model);
  await drawModel({ ...job, evaluation: { fraction: 0.5 } });
  return { home, run: (...args: string[]) => runCli(args, home) };
}

function rowsOf(home: string, name: string): Record<string, unknown>[] {
  const lines = readFileSync(join(home, name), "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line));
}

test.serial("a calibration is stored, listed, applied and removed", async (t) => {
  const { home, run } = await drawnHere(t);
  const result = await run("calibrate", "checkpoints", "clicks.csv");
  t.is(result.code, 0, result.stderr);
  t.regex(
    result.stdout,
    /^Calibration {10}logit -> \S+ \* logit \+ \S+, by 60 samples, 20 of them/m,
  );
  t.regex(result.stdout, /^Log loss {13}0\.\d+, calibrated 0\.\d+$/m);
  t.regex(result.stdout, /^Stored with {10}sha256:\w{64} \(step 1\)$/m);
  t.regex((await run("checkpoint", "list", "checkpoints")).stdout, / calibrated +sha256:/);
  const listed = lastJson<{ checkpoints: object[] }>(
    await run("checkpoint", "list", "checkpoints", "--json"),
  );
  t.like(listed.checkpoints[0], { calibration: "stored" });

  await run("predict", "checkpoints", "clicks.csv", "-o", "all.jsonl");
  await run("predict", "checkpoints", "clicks.csv", "-o", "raw.jsonl", "--calibration", "none");
  await using model = await loadModel(join(home, "checkpoints"), { calibration: "stored" });
  const own = [...(await model.predict(clicks))];
  const all = rowsOf(home, "all.jsonl");
  t.deepEqual(
    all.map((row) => Math.fround(row["probability.calibrated"] as number)),
    own,
  );
  t.deepEqual(
    rowsOf(home, "raw.jsonl"),
    all.map(({ row, probability }) => ({ row, probability })),
  );
  flipByte(realDisk, join(home, "checkpoints", "calibrations", `${model.digest.slice(7)}.json`), 9);
  const damaged = await run("predict", "checkpoints", "clicks.csv", "-o", "no.csv");
  t.is(damaged.code, 1);
  t.regex(damaged.stderr, /calibrations\/\w{64}\.json is damaged/);
  t.false(existsSync(join(home, "no.csv")));
  t.regex((await run("checkpoint", "list", "checkpoints")).stdout, / calibration damaged +sha256:/);
  t.regex(
    (await run("calibrate", "checkpoints", "--remove")).stdout,
    /^The calibration was removed/,
  );
  t.regex((await run("calibrate", "checkpoints", "--remove")).stdout, /^No calibration is stored/);
  const json = lastJson<{ tasks: { samples: number }[] }>(
    await run("calibrate", "checkpoints", "--json"),
  );
  t.like(json, { report: "calibrate", by: "held-out", digest: model.digest, step: 1 });
  const [task] = json.tasks;
  t.is(task?.samples, 30);
});

test.serial(
  "predict --keep adds raw ids to the predictions, and --calibration calibrates them",
  async (t) => {
    const { home, run } = await drawnHere(t, "tasks");
    const args = ["predict", "checkpoints", "clicks.csv", "-o"];
    const kept = await run(...args, "a.jsonl", "--keep", "user", "at", "--calibration", "held-out");
    t.is(kept.code, 0, kept.stderr);
    t.regex(kept.stdout, /^a\.jsonl: 60 predictions, mean clicked 0\.\d+, bought 0\.\d+$/m);
    const rows = rowsOf(home, "a.jsonl");
    t.deepEqual(
      rows.map(({ row, user, at }) => ({ row, user, at })),
      clicks.map(({ user, at }, row) => ({ row, user, at })),
    );
    t.deepEqual(Object.keys(rows[0] ?? {}), [
      ...["row", "user", "at", "probability.clicked", "probability.bought"],
      ...["probability.clicked.calibrated", "probability.bought.calibrated"],
    ]);
    const report = lastJson<Told>(
      await run(...args, "b.csv", "--calibration", "clicks.csv", "--json"),
    );
    const [clicked, bought] = report.calibrations;
    t.deepEqual([clicked?.positives, bought?.positives, bought?.samples], [20, 10, 60]);
    const [header = ""] = readFileSync(join(home, "b.csv"), "utf8").split("\n");
    t.true(header.endsWith(",probability.clicked.calibrated,probability.bought.calibrated"));

    const before = readdirSync(home);
    writeFileSync(join(home, "none.csv"), "clicked,bought,price,user,at\n0,0,1,a,b\n");
    const wrong: [string[], RegExp][] = [
      [
        [...args, "c.parquet", "--keep", "nowhere"],
        /Expected `keep` to name columns of clicks\.csv/,
      ],
      [[...args, "c.csv", "--keep", "user"], /Expected `keep` with a file of another format/],
      [[...args, "c.csv", "--calibration", "gone.csv"], /gone\.csv/],
      [[...args, "c.csv", "--calibration", "none.csv"], /Expected samples of both classes/],
      [["calibrate", "checkpoints", "none.csv"], /Expected samples of both classes/],
      [["calibrate", "checkpoints", "clicks.csv", "--remove"], /Expected `--remove` without data/],
      [["calibrate", "nowhere"], /There is no checkpoint in nowhere/],
      [
        ["serve", "checkpoints", "--calibration", "some"],
        /Allowed choices are stored, required, none/,
      ],
    ];
    for (const [one, message] of wrong) {
      const { code, stderr } = await run(...one);
      t.is(code, 2, `${one.join(" ")}: ${stderr}`);
      t.regex(stderr, message);
    }
    t.deepEqual(readdirSync(home), [...before, "none.csv"].sort());
  },
);
