// `osiris export` as a command: it writes a trained model into one file.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { listCheckpoints } from "../../../../storage/checkpoints/list-checkpoints.ts";
import { jobOf } from "../../../../test/cli/jobs.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runCli } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";
import { startCutModel } from "../../../../test/helpers/stores/cut-model.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { readTensorFile } from "../../../../test/helpers/stores/tensor-file.ts";
import { exportModel } from "../../exports/export-model.ts";

test.serial("a model is exported into one file, with its digest", async (t) => {
  const directory = startDirectory(t);
  const run = (...args: string[]) => runCli(args, directory);
  const help = await run("export", "--help");
  t.is(help.code, 0);
  t.regex(help.stdout, /Usage: osiris export .*<model>[\s\S]*\$ osiris export checkpoints --to /);

  const { data, ...rest } = jobOf(join(directory, "checkpoints"), 640);
  await drawModel({ ...rest, data: { ...data, cache: join(directory, "cache") } });
  const [made] = listCheckpoints(join(directory, "checkpoints")).checkpoints;
  const digest = made?.digest ?? "";
  const result = await run("export", "checkpoints", "--to", "model.safetensors");
  t.is(result.code, 0, result.stderr);
  t.regex(result.stdout, /^model\.safetensors: \d+ dense parameters, 2 tables of 400 rows/);
  t.true(result.stdout.includes(`Digest               ${digest} (step 1)`));
  const { tensors, notes } = readTensorFile(join(directory, "model.safetensors"));
  t.like(notes, { digest, step: "1" });
  t.deepEqual(tensors.get("embedding_bags.B.weight")?.shape, [200, 8]);

  const json = await run("export", "checkpoints", "--to", "b.safetensors", "--json");
  const report = { report: "export", directory: "checkpoints", cut: 1, digest };
  t.like(lastJson(json), { ...report, format: "safetensors", file: "b.safetensors" });

  const onnx = await run("export", "checkpoints", "--to", "model.onnx", "--json");
  t.like(lastJson(onnx), { ...report, format: "onnx", file: "model.onnx" });
  const lines = await run("export", "checkpoints", "--to", "model.onnx");
  t.regex(lines.stdout, /^Inputs {15}model\.onnx\.json: .*, with 8 test vectors$/m);

  const raw = ["export", "checkpoints", "--to", "raw.onnx", "--ids", "raw"];
  t.is((await run(...raw)).code, 0);
  const { features } = JSON.parse(readFileSync(join(directory, "raw.onnx.json"), "utf8"));
  t.deepEqual([features[0].input, features[1].input], ["A.ids", "B.ids"]);

  const own = await run("export", "checkpoints", "--to", "model.osiris", "--json");
  t.like(lastJson(own), { ...report, format: "osiris", file: "model.osiris", resumedAt: 0 });
  const verified = await run("verify", "model.osiris");
  t.is(verified.code, 0, verified.stderr);
  t.regex(verified.stdout, /^Proven {15}dense network, table A, table B$/m);
  t.true(verified.stdout.includes(`Leads to the digest  ${digest}`));
  const steps = await run("verify", "model.osiris", "--devices", "2");
  t.regex(
    steps.stderr,
    /Expected `--devices` with a checkpoint directory, as model\.osiris has one/,
  );
  const again = await run("export", "model.osiris", "--to", "again.safetensors", "--json");
  t.like(lastJson(again), { ...report, directory: "model.osiris", format: "safetensors" });
  t.deepEqual(
    readFileSync(join(directory, "again.safetensors")),
    readFileSync(join(directory, "model.safetensors")),
  );

  const wrong: [string[], RegExp][] = [
    [["checkpoints", "--to", "model.bin"], /Expected a file ending in .*, got model\.bin/],
    [["no/where", "--to", "m.safetensors"], /There is no directory no\/where here: expected the/],
    [["checkpoints", "--to", "a.safetensors", "--manifest", "best"], /no checkpoint .*the best/],
    [["checkpoints", "--to", "a.onnx", "--ids", "text"], /`ids` to be `rows` or `raw`, got `text`/],
    [["checkpoints"], /required option '--to <FILE>'/],
  ];
  for (const [args, message] of wrong) {
    const { code, stderr } = await run("export", ...args);
    t.true(code === 1 || code === 2, args.join(" "));
    t.regex(stderr, message);
  }
  t.false(existsSync(join(directory, "m.safetensors")));
  t.deepEqual(
    readdirSync(directory).filter((name) => /\.(temp|part)/.test(name)),
    [],
  );
});

test.serial("export lists the features without raw ids, with the reason", async (t) => {
  const home = startDirectory(t);
  const checkpoints = join(home, "checkpoints");
  const names = ["city", "colour", "user"];
  await drawModel({
    model: { kind: "lr", tables: names.map((name) => ({ name, rows: 9, dim: 1 })) },
    data: {
      ...{ kind: "csv", paths: ["none.csv"], label: "clicked", dense: [], batchSize: 8 },
      categorical: ["city", "colour", { column: "user", ids: "integer" }],
    },
    checkpoint: { directory: checkpoints },
  });
  const result = await runCli(["export", "checkpoints", "--to", "raw.onnx", "--ids", "raw"], home);
  t.is(result.code, 0, result.stderr);
  t.regex(
    result.stdout,
    /^No raw ids {11}of `city`, `colour`: rows are hashes of text, which ONNX/m,
  );
});

test.serial(
  "a delta since a checkpoint is exported alone, and turns it into the later model",
  async (t) => {
    const home = startDirectory(t);
    const checkpoints = join(home, "checkpoints");
    const tables = [{ name: "a", rows: 90, dim: 4 }];
    const trained = startCutModel({
      model: { kind: "dlrm", dense: 3, tables, bottom: [4], top: [1] },
      data: { kind: "synthetic", samples: 8, dense: 3, batchSize: 8 },
      checkpoint: { directory: checkpoints },
    });
    const [first] = [await trained.cut(2), await trained.cut(3)];
    const run = (...args: string[]) => runCli(["export", "checkpoints", ...args], home);
    const result = await run("--since", "2", "--to", "now.delta");
    t.is(result.code, 0, result.stderr);
    t.regex(result.stdout, /^now\.delta: \d+ of 90 rows, /);
    t.regex(result.stdout, /^From {17}sha256:\w{64} \(step 2\)\nTo {19}sha256:\w{64} \(step 5\)$/m);
    const which = ["--manifest", first.sha256.slice(0, 12), "--delta", "now.delta"];
    const applied = await run(...which, "--to", "own.safetensors", "--json");
    t.like(lastJson(applied), { report: "export", step: 5, deltas: 1 });
    await exportModel(checkpoints, join(home, "whole.safetensors"));
    const [own, whole] = ["own", "whole"].map((name) => {
      return readFileSync(join(home, `${name}.safetensors`));
    });
    t.deepEqual(own, whole);
    const wrong: [string[], RegExp][] = [
      [["--since", "2", "--to", "now.onnx"], /to be a file ending in `\.delta` with `--since`/],
      [["--since", "5", "--to", "b.delta"], /before step 5, got that checkpoint itself/],
      [["--since", "77", "--to", "b.delta"], /no checkpoint/],
      [
        ["--delta", "now.delta", "--to", "b.safetensors"],
        /it starts from step 2 .*serving version is step 5 /,
      ],
      [[...which, "--to", "b.onnx"], /to be a file ending in `\.safetensors` with `--delta`/],
      [[...which, "--since", "2", "--to", "b.delta"], /got both/],
    ];
    for (const [args, message] of wrong) {
      const { code, stderr } = await run(...args);
      t.true(code === 1 || code === 2, args.join(" "));
      t.regex(stderr, message);
    }
  },
);
