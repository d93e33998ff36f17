// From a shell: `osiris init` makes a first job from a data file, and the job trains.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { leavesOut, packageTypes, testAll } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";

const execFileAsync = promisify(execFile);
const repository = join(import.meta.dirname, "../../../../..");

const clicks = Array.from({ length: 600 }, (_, i) => {
  const [user, page] = [`u${(7 * i) % 90}`, ["home", "shoes", "hats"][i % 3]];
  return `${i % 3 === 0 ? 1 : 0},${(i % 40) / 4},${user},${page},shoes|${page}`;
});

test.serial("init makes a job file from a data file, and the job trains", async (t) => {
  const directory = startDirectory(t);
  writeFileSync(
    join(directory, "clicks.csv"),
    `clicked,price,user,page,tags\n${clicks.join("\n")}\n`,
  );
  const { code, stdout, stderr } = await runCli(["init", "clicks.csv"], directory);
  t.is(code, 0, stderr);
  t.regex(stdout, /^job\.yaml: 5 columns of 600 rows$/m);
  t.regex(stdout, /^ {2}clicked +label +0 and 1; 1 is the positive one, 33\.3 % of the rows$/m);
  t.regex(stdout, /^ {2}tags +categorical +text, 3 different, split at "\|"$/m);
  t.regex(stdout, /^GAUC, the AUC within each user: `data\.group: user`$/m);
  t.regex(stdout, /^Train it with: osiris train job\.yaml$/m);
  const text = readFileSync(join(directory, "job.yaml"), "utf8");
  t.regex(text, /^# A first job, made by `osiris init` of all 600 rows/);
  t.regex(text, /- \{ column: tags_id, table: tags, ids: integer \} # text, 3 different/);
  t.regex(text, /op: mapId, input: \{ column: tags, separator: "\|" \}, output: tags_id/);
  t.regex(stdout, /FEATURE_PREDICTS_LABEL\n +The column `page_id` predicts the label/);
  const vocabulary = readFileSync(join(directory, "job.vocabularies", "page.txt"), "utf8");
  t.deepEqual(vocabulary.trimEnd().split("\n").sort(), ["hats", "home", "shoes"]);
  const trained = await runOk(t, ["train", "job.yaml", "--devices", "1", "--json"], directory);
  t.true(lastJson<{ auc: number }>(trained).auc > 0.9, "pages predict clicks");

  // Evaluating on the training file, or on another file with its text, causes a warning.
  const header = "clicked,price,user,page,tags";
  writeFileSync(join(directory, "copy.csv"), `${header}\n${clicks.join("\n")}\n`);
  writeFileSync(join(directory, "more.csv"), `${header}\n${clicks.slice(0, 99).join("\n")}\n`);
  for (const [file, codes] of [
    ["copy.csv", ["EVALUATION_EQUALS_TRAINING"]],
    ["more.csv", []],
  ] as const) {
    const evaluated = await runCli(
      ["eval", "checkpoints/clicks", "--data", file, "--json"],
      directory,
    );
    const { warnings } = lastJson<{ warnings: { code: string }[] }>(evaluated);
    t.deepEqual(
      warnings.map(({ code }) => code),
      codes,
      file,
    );
  }

  const again = await runCli(["init", "clicks.csv"], directory);
  t.is(again.code, 2);
  t.regex(again.stderr, /^job\.yaml exists already: name another file with `-o`, or use `--force`/);
  t.is(readFileSync(join(directory, "job.yaml"), "utf8"), text);
  const json = ["init", "clicks.csv", "--force", "--ignore", "user", "--json"];
  t.like(lastJson(await runCli(json, directory)), { report: "init", job: "job.yaml", rows: 600 });
  t.notRegex(readFileSync(join(directory, "job.yaml"), "utf8"), /column: user/);
});

test.serial("init makes a program from a data file, and it compiles and trains", async (t) => {
  const directory = startDirectory(t);
  const header = "clicked,price,user,page,tags,same\n";
  writeFileSync(join(directory, "clicks.csv"), `${header}${clicks.join(",x\n")},x\n`);
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(repository, join(directory, "node_modules", "osiris-train"));
  const made = await runOk(t, ["init", "clicks.csv", "--out", "job.ts"], directory);
  const [, options = ""] = /Train it with: npx tsc (.*) && node job\.js$/m.exec(made.stdout) ?? [];
  const text = readFileSync(join(directory, "job.ts"), "utf8");
  t.regex(
    text,
    /^ {6}\{ column: "tags_id", table: "tags", ids: "integer" \}, \/\/ text, 3 different/m,
  );
  t.regex(text, /^\/\/ left out: same/m);
  t.regex(options, /job\.ts/);
  t.notRegex(options, /ignoreConfig/);
  // TypeScript 6 and later refuse to compile a single file beside a tsconfig.json without a flag.
  writeFileSync(join(directory, "tsconfig.json"), "{}");
  const besides = ["init", "clicks.csv", "--out", "job.ts", "--force"];
  const { stdout: printed } = await runCli(besides, directory);
  t.regex(printed, /Train it with: npx tsc --ignoreConfig --module /);
  rmSync(join(directory, "tsconfig.json"));
  // In `npm test`, test/examples compiles every program of the documents, which have the same form.
  if (leavesOut(t, testAll) || leavesOut(t, packageTypes)) return;
  const compiler = join(repository, "node_modules", "typescript", "bin", "tsc");
  const types = ["--strict", "--typeRoots", join(repository, "node_modules", "@types")];
  const run = (...args: string[]) => execFileAsync(process.execPath, args, { cwd: directory });
  await t.notThrowsAsync(run(compiler, ...types, ...options.split(" ")));
  const { stdout } = await run("job.js");
  t.regex(stdout, /^step \d+ AUC (0\.9\d*|1)$/m);
  t.regex(stdout, /^sha256:\w{64}\ntrained for \d+ steps$/m);
});

test.serial(
  "init does not write a job that training would refuse, and exits with code 2",
  async (t) => {
    const directory = startDirectory(t);
    const rows = clicks.map((line, i) => (i % 50 === 0 ? `${line},more` : line));
    writeFileSync(join(directory, "a.csv"), `clicked,price,user,page,tags\n${rows.join("\n")}\n`);
    const { code, stdout } = await runCli(["init", "a.csv"], directory);
    t.is(code, 2);
    t.regex(
      stdout,
      /^Bad lines: 12, left out; the first: line 2 of a\.csv: expected 5 fields, .* got 6$/m,
    );
    t.regex(
      stdout,
      /^fail {2}data: lines +of the first 600 lines .* 12 are bad \(2\.00 %\); at most 1 %/m,
    );
    t.regex(stdout, /^Training would refuse this job, so job\.yaml was not written/m);
    t.false(existsSync(join(directory, "job.yaml")));
    t.false(existsSync(join(directory, "job.vocabularies")));
    // Training allows more than two bad lines.
    const good = clicks.map((line, i) => (i % 300 === 0 ? `${line},more` : line));
    writeFileSync(
      join(directory, "a.csv"),
      `clicked;price;user;page;tags\n${good.join("\n").replaceAll(",", ";")}\n`,
    );
    const json = lastJson(await runCli(["init", "a.csv", "--json"], directory));
    t.like(json, { report: "init", rows: 598, bad: 2, isFit: true });
    t.regex(readFileSync(join(directory, "job.yaml"), "utf8"), /^ {2}delimiter: ;$/m);
  },
);

test.serial("without a terminal, init asks for no label column, and is refused", async (t) => {
  const directory = startDirectory(t);
  writeFileSync(
    join(directory, "a.csv"),
    `a,b\n${clicks.map((_, i) => `${i % 2},${i % 2}`).join("\n")}\n`,
  );
  const { code, stderr } = await runCli(["init", "a.csv"], directory);
  t.is(code, 2);
  t.regex(
    stderr,
    /^osiris: Cannot tell which column of .*a\.csv is the label \(a, b\): name it with `--label`/,
  );
  t.false(existsSync(join(directory, "job.yaml")));
});
