// Commands about a run take its name, or the name of its job as `osiris ls` shows it.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { lastJson, runCli, startCli } from "../helpers/processes/cli.ts";
import { directoryOf, jobOf } from "./jobs.ts";

test.serial(
  "a run is found by the name of its job; of several, the newest, which is told",
  async (t) => {
    const directory = directoryOf(t);
    const up = startCli(["up", "--port", "0", "--json"], directory);
    t.teardown(() => up.kill("SIGKILL"));
    const { url } = JSON.parse(await up.line((line) => line.includes('"up"'))) as { url: string };
    const run = (...args: string[]) => runCli([...args, "--nats", url], directory);
    const runs: string[] = [];
    for (const checkpoints of ["one", "two"]) {
      const job = { ...jobOf(checkpoints), name: "clicks" };
      writeFileSync(join(directory, "job.json"), JSON.stringify(job));
      const submitted = await run("submit", "job.json", "--follow", "--json");
      t.is(submitted.code, 0, submitted.stderr);
      runs.push(lastJson<{ run: string }>(submitted).run);
    }
    const [first = "", second = ""] = runs;
    t.regex((await run("ls")).stdout, new RegExp(`${second} .* clicks\\n$`));
    const told = new RegExp(
      `^2 runs of job \`clicks\`: this is ${second} \\(finished\\), the newest\\n`,
    );
    const status = await run("status", "clicks");
    t.regex(status.stdout, new RegExp(`^Run ${second} \\(clicks\\): finished`));
    t.regex(status.stderr, told);
    t.regex((await run("status", first)).stdout, new RegExp(`^Run ${first} `));
    const logs = await run("logs", "clicks", "--json");
    t.is(lastJson<{ run: string }>(logs).run, second);
    const events = await run("events", "clicks", "--json");
    t.is(lastJson<{ run: string }>(events).run, second);
    const cancelled = await run("cancel", "clicks");
    t.is(cancelled.stdout, `Run ${second} is over already: finished.\n`);
    t.regex(cancelled.stderr, told);
    for (const command of ["logs", "events", "status", "cancel", "pause"]) {
      const unknown = await run(command, "clacks");
      t.is(unknown.code, 2, command);
      t.is(
        unknown.stderr,
        "osiris: There is no run and no job `clacks` in the cluster: `osiris ls` lists them\n",
      );
    }
  },
);
