// A search by learned costs that is stopped, by its time limit or by Ctrl-C, returns the best plan
// so far.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobPlan } from "../../../../internal.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson, startCli } from "../../../../test/helpers/processes/start-cli.ts";
import { writeCostNetworks } from "../../files/cost-networks-file.ts";
import type { LearnedSearch } from "../../index.ts";

type Feasible = Extract<JobPlan<LearnedSearch>, { isFeasible: true }>;

/**
 * Writes a job of `tables` tables for four devices, whose columns may be halved, and its learned
 * costs.
 */
async function jobOf(t: ExecutionContext, tables: number): Promise<string> {
  const directory = startDirectory(t);
  const job = {
    model: {
      ...{ kind: "dlrm", dense: 4, bottom: [8], top: [16, 1], interaction: "cat" },
      tables: Array.from({ length: tables }, (_, i) => {
        return { name: `T${i}`, rows: 100 + 37 * i, dim: 32 * (1 + (i % 8)) };
      }),
    },
    data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, idsPerBag: 4 },
    sharding: "auto",
  };
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  await writeCostNetworks(join(directory, "costs.st"), drawnNetworks(4, 1), {});
  return directory;
}

const search = ["plan", "job.json", "--cost-model", "costs.st", "--devices", "4"];

test.serial(
  "a search out of time returns the best plan so far, and reports that it was stopped",
  async (t) => {
    const directory = await jobOf(t, 12);
    const stopped = await runOk(t, [...search, "--seconds", "0"], directory);
    t.regex(stopped.stdout, /\nLearned costs .* with 0 halvings of columns .* of 1 placement\n/);
    t.regex(stopped.stdout, /\n +The search was stopped: this is the best plan so far\n/);
    const { learned: first } = lastJson<Feasible>(
      await runCli([...search, "--seconds", "0", "--json"], directory),
    );
    const whole = await runOk(t, [...search, "--seconds", "600", "--json"], directory);
    const { learned: last } = lastJson<Feasible>(whole);
    t.false(first?.isComplete);
    t.true(last?.isComplete);
    t.true((last?.placements ?? 0) > 1);
    t.true((last?.best?.cost ?? Infinity) < (first?.best?.cost ?? 0));
  },
);

test.serial("--seconds without a search is refused", async (t) => {
  const directory = await jobOf(t, 3);
  const refused = await runCli(["plan", "job.json", "--seconds", "1"], directory);
  t.is(refused.code, 2, refused.stdout);
  t.regex(refused.stderr, /Expected `--cost-model` beside `--seconds`/);
});

testIf(testAll).serial("Ctrl-C ends a search, and the best plan so far is printed", async (t) => {
  const directory = await jobOf(t, 600);
  // The shell redirects stderr into stdout, so that the test can wait for its lines.
  const inside = ["sh", "-c", 'exec "$@" 2>&1', "--"];
  const running = startCli([...search, "--json"], directory, inside);
  await running.line((line) => line.startsWith("Searching by learned costs; Ctrl-C"));
  running.kill("SIGINT");
  const ended = await running.ended;
  t.is(ended.code, 0, ended.stdout);
  const { isFeasible, learned, plan } = lastJson<Feasible>(ended);
  t.true(isFeasible);
  t.false(learned?.isComplete);
  t.true(plan.shards.length >= 600);
});
