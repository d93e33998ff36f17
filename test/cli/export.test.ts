// osiris export from outside: a trained model leaves in one file.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { lastJson, runCli } from "../helpers/processes/cli.ts";
import { readTensorFile } from "../helpers/stores/tensor-file.ts";
import { directoryOf, jobOf } from "./jobs.ts";

test.serial("a trained model leaves in one file, with its digest", async (t) => {
  const directory = directoryOf(t);
  const run = (...args: string[]) => runCli(args, directory);
  const help = await run("export", "--help");
  t.is(help.code, 0);
  t.regex(help.stdout, /Usage: osiris export .*<model>[\s\S]*\$ osiris export checkpoints --to /);

  writeFileSync(join(directory, "job.json"), JSON.stringify(jobOf("checkpoints")));
  const trained = lastJson<{ digest: string }>(await run("train", "job.json", "--json"));
  const told = await run("export", "checkpoints", "--to", "model.safetensors");
  t.is(told.code, 0, told.stderr);
  t.regex(told.stdout, /^model\.safetensors: \d+ dense parameters, 2 tables of 400 rows/);
  t.true(told.stdout.includes(`Digest               ${trained.digest} (step 43)`));
  const { tensors, notes } = readTensorFile(join(directory, "model.safetensors"));
  t.like(notes, { digest: trained.digest, step: "43" });
  t.deepEqual(tensors.get("embedding_bags.B.weight")?.shape, [200, 8]);

  const json = await run("export", "checkpoints", "--to", "b.safetensors", "--json");
  const report = { report: "export", directory: "checkpoints", cut: 43, digest: trained.digest };
  t.like(lastJson(json), { ...report, format: "safetensors", file: "b.safetensors" });

  const onnx = await run("export", "checkpoints", "--to", "model.onnx", "--json");
  t.like(lastJson(onnx), { ...report, format: "onnx", file: "model.onnx" });

  const own = await run("export", "checkpoints", "--to", "model.osiris", "--json");
  t.like(lastJson(own), { ...report, format: "osiris", file: "model.osiris", resumedAt: 0 });
  const verified = await run("verify", "model.osiris");
  t.is(verified.code, 0, verified.stderr);
  t.regex(verified.stdout, /^Proven {15}dense network, table A, table B$/m);
  t.true(verified.stdout.includes(`Leads to the digest  ${trained.digest}`));
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
