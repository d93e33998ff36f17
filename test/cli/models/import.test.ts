// `osiris import` as a command: a PyTorch model becomes a checkpoint, trains further, and is
// exported again.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import test from "ava";
import { startDirectory } from "../../data/data-files.ts";
import { pytorchFile } from "../../helpers/models/pytorch.ts";
import { runCli } from "../../helpers/processes/cli.ts";
import { lastJson } from "../../helpers/processes/start-cli.ts";

test.serial("a PyTorch model is imported, trained, and exported to PyTorch", async (t) => {
  const directory = startDirectory(t);
  const run = (...args: string[]) => runCli(args, directory);
  const file = resolve(pytorchFile("dlrm.pt"));
  const result = await run("import", file, "-o", "imported", "--write-job", "job.yaml");
  t.is(result.code, 0, result.stderr);
  t.regex(result.stdout, /^imported: 399 dense parameters, 3 tables of 90 rows together$/m);
  t.regex(result.stdout, /^Names {16}dlrm, in a file of PyTorch$/m);
  t.regex(result.stdout, /^Optimizer's state {4}of dense parameters: imported$/m);
  t.regex(result.stdout, /\(step 6\)$/m);
  t.regex(result.stdout, /^To go on training {4}osiris train job\.yaml$/m);

  // The job's data options are set on the command line; the rest of the job is as import wrote it.
  const columns = [0, 1, 2].map((i) => `{ column: emb_${i}, ids: integer, separator: "|" }`);
  const trained = await run(
    ...["train", "job.yaml", "--json", "--set", "data.batchSize=16"],
    ...["--set", `data.paths=["${resolve(pytorchFile("continued.csv"))}"]`],
    ...["--set", `data.categorical=[${columns}]`],
  );
  t.is(trained.code, 0, trained.stderr);
  t.like(lastJson(trained), { step: 12 });
  const out = await run(
    ...["export", "imported-trained", "--to", "out.pt", "--format", "torchrec", "--json"],
  );
  t.like(lastJson(out), { format: "torchrec", cut: 12 });
  const again = await run("import", "out.pt", "--out", "again", "--fresh", "--json");
  t.like(lastJson(again), { report: "import", jobFrom: "file", names: "torchrec", cut: 0 });

  const wrong: [string[], RegExp][] = [
    [[file, "-o", "imported"], /Expected imported to be new or empty/],
    [["job.yaml", "-o", "b"], /its first bytes are of none of them/],
    [[file, "-o", "b", "--from", "keras"], /Expected `from` to be one of dlrm, torchrec, osiris/],
    [[file], /required option '-o, --out <DIRECTORY>'/],
  ];
  for (const [args, message] of wrong) {
    const { code, stderr } = await run("import", ...args);
    t.is(code, 2, args.join(" "));
    t.regex(stderr, message);
  }
  t.false(existsSync(join(directory, "b")));
});
