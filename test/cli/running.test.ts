// Long-running commands: Ctrl-C, a cluster for other processes, and a foreign client.

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import test, { type ExecutionContext } from "ava";
import { connect as connectNats } from "nats";
import { startDirectory } from "../data/data-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson, startCli, startNode } from "../helpers/processes/start-cli.ts";
import { jobOf } from "./jobs.ts";
import { falls, type StartedUp, startUp } from "./up.ts";

interface Report {
  readonly status: string;
  readonly step: number;
  readonly digest: string;
}

/** More samples, or epochs, than a command trains before it is stopped, on any machine. */
const endless = 4_294_967_295;
const manyEpochs = 100_000;

/** Writes a job of 43 steps in each epoch, if it has 3000 samples. */
function writeJob(directory: string, name: string, samples: number, epochs = 1): void {
  const job = jobOf(name, samples);
  const text = JSON.stringify({ ...job, data: { ...job.data, epochs } });
  writeFileSync(join(directory, `${name}.json`), text);
}

/** The addresses of this machine that listen on a port. */
function listenersOf(port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  return ["tcp", "tcp6"].flatMap((kind) =>
    readFileSync(`/proc/net/${kind}`, "utf8")
      .split("\n")
      .flatMap((line) => {
        const [, local = "", , state] = line.trim().split(/\s+/);
        const [address = "", at] = local.split(":");
        if (at !== hex || state !== "0A") return []; // 0A: listens
        const bytes = address.length === 8 ? (address.match(/../g)?.reverse() ?? []) : [address];
        return [bytes.map((byte) => (address.length === 8 ? Number(`0x${byte}`) : byte)).join(".")];
      }),
  );
}

test.serial("Ctrl-C leaves a checkpoint, from which the same command resumes", async (t) => {
  const directory = startDirectory(t);
  writeJob(directory, "cut", 3000, manyEpochs);
  const cut = startCli(["train", "cut.json", "--json"], directory);
  await cut.line((line) => line.includes('"run.progress"'));
  cut.kill("SIGINT");
  const stopped = await cut.ended;
  t.is(stopped.code, 130, stopped.stderr);
  const report = lastJson<Report>(stopped);
  t.is(report.status, "cancelled");
  t.true(report.step > 0);

  // Both jobs end with the epoch after the one in which the first was stopped.
  const epochs = Math.floor(report.step / 43) + 2;
  for (const name of ["calm", "cut"]) writeJob(directory, name, 3000, epochs);
  const calm = await runOk(t, ["train", "calm.json", "--json"], directory);
  const { step, digest } = lastJson<Report>(calm);
  t.is(step, 43 * epochs);
  const resumed = await runOk(t, ["train", "cut.json", "--json"], directory);
  t.regex(resumed.stdout, new RegExp(`"type":"run.started","fromStep":${report.step},`));
  t.like(lastJson(resumed), { status: "finished", step, digest });
});

test.serial("a second Ctrl-C ends the command at once", async (t) => {
  const directory = startDirectory(t);
  writeJob(directory, "long", endless);
  // The shell redirects stderr into stdout, so that the test can wait for its lines.
  const inside = ["sh", "-c", 'exec "$@" 2>&1', "--"];
  const job = startCli(["train", "long.json", "--json"], directory, inside);
  t.teardown(() => job.kill("SIGKILL"));
  // The run still prepares its data: it has no step to stop after.
  await job.line((line) => line.includes('"run.queued"'));
  job.kill("SIGINT");
  await job.line((line) => line.includes("Stopping after this step"));
  // Signals right after the first one count as the same Ctrl-C.
  const again = setInterval(() => job.kill("SIGINT"), 100);
  const { code, stdout } = await job.ended;
  clearInterval(again);
  // Node removes its listeners as it exits: a Ctrl-C at that moment ends it without an exit code.
  t.true(code === 130 || code === null, `${code}`);
  t.notRegex(stdout, /run\.(started|finished)/);
});

test.serial(
  "a foreign client's run is followed, runs are listed by name, and Ctrl-C ends the cluster",
  async (t) => {
    const directory = startDirectory(t);
    const options = ["--finished", "1", "--state", "state"];
    const up = await startUp(t, directory, options);
    const { cluster, url, tokenFile, at } = up;
    const token = tokenOf(t, up);
    const theirs = await runForeignClient(t, up, directory);
    const listed = await runCli(["status", ...at, "--json"], directory);
    t.like(lastJson(listed), { runs: [{ name: "job", status: "finished" }] });

    const runs: string[] = [];
    for (const name of ["first", "second"]) {
      writeFileSync(
        join(directory, "job.json"),
        JSON.stringify({ ...jobOf(name, 64), name: "clicks" }),
      );
      const submit = ["submit", "job.json", ...at, "--follow", "--json"];
      const submitted = await runOk(t, submit, directory);
      runs.push(lastJson<{ run: string }>(submitted).run);
    }
    await checkLists(t, directory, at, { runs, forgotten: theirs });
    await checkNames(t, directory, at, runs);

    // Ctrl-C ends a cluster at once, even while a run prepares its data.
    writeJob(directory, "made", endless);
    const following = startCli(["submit", "made.json", ...at, "--follow", "--json"], directory);
    t.teardown(() => following.kill("SIGKILL"));
    await following.line((line) => line.includes('"run.preparing"'));
    cluster.kill("SIGINT");
    const { code, stdout, stderr } = await cluster.ended;
    t.is(code, 0, stderr);
    t.notRegex(stderr, /Saving/);
    t.false(`${stdout}${stderr}`.includes(token), "the token is never told");
    t.false(existsSync(tokenFile));
    t.true(await falls(url));
  },
);

/**
 * The cluster's token; checks that only its user can read it, and no list of processes shows it.
 */
function tokenOf(t: ExecutionContext, { cluster, tokenFile, brokerPid, url }: StartedUp): string {
  const token = readFileSync(tokenFile, "utf8").trim();
  t.regex(token, /^[0-9a-f]{32}$/);
  t.is(statSync(tokenFile).mode & 0o777, 0o600);
  for (const pid of [cluster.pid, brokerPid]) {
    const seen = ["cmdline", "environ"].map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8"));
    t.false(seen.join().includes(token), `the token is in the list of processes: ${seen}`);
  }
  t.deepEqual(listenersOf(Number(new URL(url).port)), ["127.0.0.1"]);
  return token;
}

/** Lets NATS's official client submit a job and follow it to its end. Returns the run. */
async function runForeignClient(t: ExecutionContext, up: StartedUp, directory: string) {
  writeJob(directory, "theirs", 640);
  const script = resolve("examples/official-client.mjs");
  const args = [script, up.url, up.tokenFile, "theirs.json"];
  const client = await startNode(args, directory).ended;
  t.is(client.code, 0, client.stderr);
  const [first = "", ...lines] = client.stdout.trimEnd().split("\n");
  const events = lines.map((line) => JSON.parse(line) as { seq: number; type: string });
  t.deepEqual(
    events.map((event) => event.seq),
    events.map((_, at) => at),
  );
  t.is(events[0]?.type, "run.queued");
  t.is(events.at(-1)?.type, "run.finished");
  const [, run = ""] = /^submitted (r\S*)/.exec(first) ?? [];
  t.not(run, "", first);
  return run;
}

/** Checks that finished runs are listed, as many as requested or remembered. */
async function checkLists(
  t: ExecutionContext,
  directory: string,
  at: readonly string[],
  { runs, forgotten }: { readonly runs: readonly string[]; readonly forgotten: string },
): Promise<void> {
  const listed = async (...more: string[]) => {
    const ended = await runCli(["ls", ...more, ...at, "--json"], directory);
    return lastJson<{ runs: { run: string }[] }>(ended).runs.map(({ run }) => run);
  };
  t.deepEqual(await listed(), runs, "the last finished run, and the run after it");
  t.deepEqual(await listed("--last", "1"), runs.slice(1));
  const [, last = ""] = runs;
  const result = await runCli(["events", last, ...at], directory);
  t.regex(result.stdout, /^Queued: clicks\n[\s\S]*\nfinished at step \d+, model sha256:\w+\n$/);
  t.deepEqual(await listed("--last", "9"), runs);
  const unknown = await runCli(["status", forgotten, ...at], directory);
  t.is(unknown.code, 2, unknown.stderr);
}

/** Checks that a run is found by its job's name; of several, the newest, with a notice. */
async function checkNames(
  t: ExecutionContext,
  directory: string,
  at: readonly string[],
  [first = "", second = ""]: readonly string[],
): Promise<void> {
  const run = (...args: string[]) => runCli([...args, ...at], directory);
  t.regex((await run("ls")).stdout, new RegExp(`${second} .* clicks\\n$`));
  const pattern = new RegExp(
    `^2 runs of job \`clicks\`: this is ${second} \\(finished\\), the newest\\n`,
  );
  const status = await run("status", "clicks");
  t.regex(status.stdout, new RegExp(`^Run ${second} \\(clicks\\): finished`));
  t.regex(status.stderr, pattern);
  t.regex((await run("status", first)).stdout, new RegExp(`^Run ${first} `));
  for (const command of ["logs", "events"]) {
    const newest = await run(command, "clicks", "--json");
    t.is(lastJson<{ run: string }>(newest).run, second, command);
  }
  const cancelled = await run("cancel", "clicks");
  t.is(cancelled.stdout, `Run ${second} is over already: finished.\n`);
  t.regex(cancelled.stderr, pattern);
  const elsewhere = await run("ls", "--cluster", "other");
  t.regex(elsewhere.stderr, /other\.jobs\.list: nobody listens; check that the cluster is up, and/);
  for (const command of ["logs", "events", "status", "cancel", "pause"]) {
    const unknown = await run(command, "clacks");
    t.is(unknown.code, 2, command);
    t.is(
      unknown.stderr,
      "osiris: There is no run and no job `clacks` in the cluster: `osiris ls` lists them\n",
    );
  }
}

test.serial(
  "a cluster with `--state` that was killed lists and controls its runs after a restart",
  async (t) => {
    const directory = startDirectory(t);
    writeJob(directory, "long", 3000, manyEpochs);
    const up = async (port = "0") => {
      const options = ["--port", port, "--state", "state", "--devices", "2"];
      const started = await startUp(t, directory, options);
      await started.cluster.line((line) => line.includes('"leading"'));
      return started;
    };
    const before = await up();
    const token = readFileSync(before.tokenFile, "utf8").trim();
    const client = await connectNats({ servers: before.url, token, maxReconnectAttempts: -1 });
    t.teardown(() => client.close());
    const options = ["--key", "k", "--priority", "3", "--set", "slices=1", "--json"];
    const submit = ["submit", "long.json", ...options];
    const { run } = lastJson<{ run: string }>(await runCli([...submit, ...before.at], directory));
    before.cluster.kill("SIGKILL");
    await before.cluster.ended;

    const { cluster, at } = await up(new URL(before.url).port);
    for (let isBack = false; !isBack; ) {
      const answer = client.request("osiris.c1.jobs.list", "", { timeout: 500 });
      isBack = await answer.then(
        () => true,
        () => false,
      );
    }
    const again = await runCli([...submit, ...at], directory);
    t.is(lastJson<{ run: string }>(again).run, run, "the same key names the same run");
    const events = startCli(["events", run, "-f", ...at, "--json"], directory);
    await events.line((line) => line.includes('"run.progress"'));
    const saved = await runCli(["checkpoint", "now", run, ...at, "--json"], directory);
    t.like(lastJson(saved), { report: "checkpoint.now", run }, saved.stderr);
    t.is((await runCli(["pause", run, ...at], directory)).code, 0);
    await events.line((line) => line.includes('"run.paused"'));
    const listed = await runCli(["ls", "--nats", new URL(before.url).host], directory);
    t.regex(listed.stdout, /RUN +STATUS +PRIORITY +STEP +DONE +TENANT +NAME/);
    t.regex(listed.stdout, new RegExp(`${run} +paused +3 `));
    const result = await runCli(["status", run, ...at], directory);
    t.regex(result.stdout, /: paused\n {2}step [\d,]+ of [\d,]+, \d+\.\d %\n/);
    t.regex(result.stdout, /\n {2}! The run uses 1 of 2 devices, as `slices` of the job is 1: /);
    const wrong = await runCli(["checkpoint", "now", run, ...at], directory);
    t.is(wrong.code, 2);
    t.regex(wrong.stderr, /expected it to be running, it is paused/);
    t.is((await runCli(["resume", run, ...at], directory)).code, 0);
    await events.line((line) => line.includes('"run.resumed"'));
    const logs = await runCli(["logs", run, ...at, "--json"], directory);
    t.true(logs.stdout.includes(run), logs.stderr);
    events.kill("SIGINT");
    t.is((await events.ended).code, 130, "Ctrl-C ends it with its own exit code");
    cluster.kill("SIGINT");
    const { code, stdout } = await cluster.ended;
    t.is(code, 0, stdout);
  },
);
