// `osiris checkpoint` as a command: it lists, verifies, compares and restores checkpoints.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../data/data-files.ts";
import { runCli } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";
import { flipInPart } from "../helpers/stores/checkpoints.ts";
import { jobOf } from "./jobs.ts";

interface Listed {
  readonly checkpoints: readonly { readonly manifest: string; readonly cut: number }[];
}

test.serial("a run restored to an earlier checkpoint ends with the same model", async (t) => {
  const directory = startDirectory(t);
  const run = (...args: string[]) => runCli(args, directory);
  const { checkpoint, ...rest } = jobOf("checkpoints");
  // The newest checkpoint is an increment on the one before.
  const job = { ...rest, checkpoint: { ...checkpoint, differential: "consecutive" } };
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const trained = lastJson<{ digest: string }>(await run("train", "job.json", "--json"));
  const listed = await run("checkpoint", "list", "checkpoints", "--json");
  t.is(listed.code, 0, listed.stderr);
  const [newest, before] = lastJson<Listed>(listed).checkpoints;
  if (newest === undefined || before === undefined) return t.fail();
  t.deepEqual([newest.cut, before.cut], [43, 40]);
  const people = await run("checkpoint", "list", "checkpoints");
  t.regex(
    people.stdout,
    /^manifest +step +generation +parent +age +bytes +base bytes +digest\n[0-9a-f]{12} /,
  );

  const short = [before, newest].map(({ manifest }) => manifest.slice(0, 12));
  const diff = await run("checkpoint", "diff", "checkpoints", ...short);
  t.is(diff.code, 0, diff.stderr);
  t.regex(diff.stdout, /From step 40, sha256:.*\nTo step 43, sha256:/);
  t.regex(diff.stdout, /\nA +\d+ +\d+ +\d+ +0 +0\.\d+ \(row \d+\)\n/);
  t.regex(diff.stdout, /Dense weights +\d+ of \d+ changed, by .*\n.*\nThe models differ\.\n$/);

  const back = ["checkpoint", "restore", "checkpoints", short[0] ?? ""];
  const refused = await run(...back);
  t.is(refused.code, 2);
  t.regex(
    refused.stderr,
    /^osiris: Going back to step 40 gives up .* \(step 43\): expected `--yes`/,
  );
  const same = await run("checkpoint", "restore", "checkpoints", short[1] ?? "");
  t.regex(same.stdout, /is the newest already: nothing was changed/);
  const restored = await run(...back, "--yes");
  t.is(restored.code, 0, restored.stderr);
  t.regex(
    restored.stdout,
    /^checkpoints: the next run continues from .* \(step 40\)\.\nGiven up +1 /,
  );
  const aside = await run("checkpoint", "list", "checkpoints");
  t.regex(aside.stdout, /Off the chain, .*: 000000043-g000001\n$/);
  const again = lastJson<{ digest: string }>(await run("train", "job.json", "--json"));
  t.is(again.digest, trained.digest);

  const intact = await run("checkpoint", "verify", "checkpoints");
  t.is(intact.code, 0, intact.stderr);
  t.regex(intact.stdout, /\(step 43, .*\): intact, sha256:/);
  const of = { cut: 40, generation: 1 };
  flipInPart(join(directory, "checkpoints"), of, "table-00001", 60);
  const damaged = await run("checkpoint", "verify", "checkpoints", "--json");
  t.is(damaged.code, 1);
  t.like(lastJson(damaged), { report: "checkpoint.verify", isIntact: false });
  const result = await run("checkpoint", "verify", "checkpoints", "--manifest", short[0] ?? "");
  t.is(result.code, 1);
  t.regex(result.stdout, /^[0-9a-f]{12} \(step 40, .*\): .*table-00001.* its hash is/);
  const nowhere = await run("checkpoint", "verify", "nowhere");
  t.is(nowhere.code, 2);
  t.regex(nowhere.stderr, /^osiris: .*nowhere/);
});
