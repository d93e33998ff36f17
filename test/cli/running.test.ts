// Commands that keep running: Ctrl-C, a cluster for other processes, and a foreign client.

import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import test, { type ExecutionContext } from "ava";
import { connect as connectNats } from "nats";
import { lastJson, runCli, startCli, startNode } from "../helpers/processes/cli.ts";
import { directoryOf, jobOf } from "./jobs.ts";

interface Report {
  readonly status: string;
  readonly step: number;
  readonly digest: string;
}

interface Up {
  readonly url: string;
  readonly tokenFile: string;
  readonly brokerPid: number;
}

function writeJob(directory: string, name: string, samples: number): void {
  writeFileSync(join(directory, `${name}.json`), JSON.stringify(jobOf(name, samples)));
}

async function startUp(t: ExecutionContext, directory: string, more: readonly string[] = []) {
  const cluster = startCli(["up", "--port", "0", "--json", ...more], directory);
  const up = JSON.parse(await cluster.line((line) => line.includes('"up"'))) as Up;
  t.teardown(() => cluster.kill("SIGKILL"));
  const { url, tokenFile, brokerPid } = up;
  return { cluster, url, tokenFile, brokerPid, at: ["--nats", url] };
}

/** Addresses of this machine with a listener on a port. */
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

/** Whether the port is free of listeners within some seconds. */
async function falls(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  for (let look = 0; look < 100; look++) {
    const socket = connect(Number(port), hostname);
    const end = once(socket, "connect").then(
      () => "listens",
      () => "refused",
    );
    const state = await end;
    socket.destroy();
    if (state === "refused") return true;
    await new Promise((resume) => setTimeout(resume, 50));
  }
  return false;
}

test.serial("Ctrl-C leaves a checkpoint, from which the same command goes on", async (t) => {
  const directory = directoryOf(t);
  writeJob(directory, "calm", 60_000);
  writeJob(directory, "cut", 60_000);
  const calm = await runCli(["train", "calm.json", "--json"], directory);
  t.is(calm.code, 0, calm.stderr);

  const cut = startCli(["train", "cut.json", "--json"], directory);
  await cut.line((line) => line.includes('"run.progress"'));
  cut.kill("SIGINT");
  const stopped = await cut.ended;
  t.is(stopped.code, 130, stopped.stderr);
  const report = lastJson<Report>(stopped);
  t.is(report.status, "cancelled");
  const { step, digest } = lastJson<Report>(calm);
  t.true(report.step > 0 && report.step < step);

  const resumed = await runCli(["train", "cut.json", "--json"], directory);
  t.is(resumed.code, 0, resumed.stderr);
  t.regex(resumed.stdout, new RegExp(`"type":"run.started","fromStep":${report.step},`));
  t.like(lastJson(resumed), { status: "finished", step, digest });
});

test.serial("a second Ctrl-C ends at once", async (t) => {
  const directory = directoryOf(t);
  writeJob(directory, "long", 2_000_000);
  const job = startCli(["train", "long.json", "--json"], directory);
  // Its data is still being made: there is no step to stop after.
  await job.line((line) => line.includes('"run.queued"'));
  job.kill("SIGINT");
  await new Promise((resume) => setTimeout(resume, 700));
  job.kill("SIGINT");
  const { code, stdout, stderr } = await job.ended;
  t.is(code, 130);
  t.regex(stderr, /Stopping after this step/);
  t.notRegex(stdout, /run\.(started|finished)/);
});

test.serial("a client that is not ours submits a job and follows it to its end", async (t) => {
  const directory = directoryOf(t);
  writeJob(directory, "theirs", 6000);
  const { cluster, url, tokenFile, brokerPid, at } = await startUp(t, directory);
  const token = readFileSync(tokenFile, "utf8").trim();
  t.regex(token, /^[0-9a-f]{32}$/);
  t.is(statSync(tokenFile).mode & 0o777, 0o600);
  for (const pid of [cluster.pid, brokerPid]) {
    const seen = ["cmdline", "environ"].map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8"));
    t.false(seen.join().includes(token), `the token is in the list of processes: ${seen}`);
  }
  t.deepEqual(listenersOf(Number(new URL(url).port)), ["127.0.0.1"]);
  const script = resolve("examples/official-client.mjs");
  const client = await startNode([script, url, tokenFile, "theirs.json"], directory).ended;
  t.is(client.code, 0, client.stderr);
  const [first, ...lines] = client.stdout.trimEnd().split("\n");
  t.regex(first ?? "", /^submitted r/);
  const events = lines.map((line) => JSON.parse(line) as { seq: number; type: string });
  t.deepEqual(
    events.map((event) => event.seq),
    events.map((_, at) => at),
  );
  t.is(events[0]?.type, "run.queued");
  t.is(events.at(-1)?.type, "run.finished");

  const listed = await runCli(["status", ...at, "--json"], directory);
  t.like(lastJson(listed), { runs: [{ name: "job", status: "finished" }] });
  cluster.kill("SIGINT");
  const { code, stdout, stderr } = await cluster.ended;
  t.is(code, 0);
  t.false(`${stdout}${stderr}`.includes(token), "the token is never told");
  t.false(existsSync(tokenFile));
  t.true(await falls(url));
});

test.serial(
  "a cluster outlives its broker's process; a run is scaled and cancelled from outside",
  async (t) => {
    const directory = directoryOf(t);
    writeJob(directory, "long", 400_000);
    const { cluster, url, brokerPid, at } = await startUp(t, directory);
    const following = startCli(["submit", "long.json", ...at, "--follow", "--json"], directory);
    const line = await following.line((one) => one.includes('"run.progress"'));
    const { run } = JSON.parse(line) as { run: string };
    const scaled = await runCli(["scale", run, "--devices", "1", ...at], directory);
    t.is(scaled.stdout, `Run ${run} goes on with 1 device.\n`, scaled.stderr);
    await following.line((one) => one.includes('"run.scaled"'));
    const look = await runCli(["top", ...at, "--json"], directory);
    t.like(lastJson(look), { report: "top", runs: [{ run, devices: 1 }], silent: [] }, look.stderr);
    const lines = await runCli(["top", ...at, "--looks", "1"], directory);
    t.regex(lines.stdout, new RegExp(`^${run} \\(job\\) running: step .* 1 device\n`));
    const tree = await runCli(["status", "--tree", ...at], directory);
    t.regex(tree.stdout, /^root and host:0: process \d+ on .*\ncluster:0 supervising\n/);
    t.regex(tree.stdout, /├─ device:0 \(.*, generation 2\)/);
    process.kill(brokerPid, "SIGKILL");
    const cancelled = await runCli(["cancel", run, ...at, "--json"], directory);
    t.is(cancelled.code, 0, cancelled.stderr);
    const followed = await following.ended;
    t.is(followed.code, 130, followed.stderr);
    t.like(lastJson(followed), { run, status: "cancelled" });

    const refused = await runCli(["status", run, "--nats", url, "--token", "wrong"], directory);
    t.is(refused.code, 1);
    t.regex(refused.stderr, /^osiris: Cannot reach the broker .* refused the credentials/);
    const unknown = await runCli(["status", "nobody", ...at], directory);
    t.is(unknown.code, 2);
    // Killing the cluster's process for good also ends the broker's process.
    cluster.kill("SIGKILL");
    t.true(await falls(url));
  },
);

test.serial("a cluster that ends waits for no run whose data is still being made", async (t) => {
  const directory = directoryOf(t);
  writeJob(directory, "made", 2_000_000);
  const { cluster, at } = await startUp(t, directory, ["--state", "state"]);
  const following = startCli(["submit", "made.json", ...at, "--follow", "--json"], directory);
  t.teardown(() => following.kill("SIGKILL"));
  await following.line((line) => line.includes('"run.preparing"'));
  cluster.kill("SIGINT");
  const { code, stderr } = await cluster.ended;
  t.is(code, 0, stderr);
  t.notRegex(stderr, /Saving/);
});

test.serial("runs that are over are listed, as many as are asked for or remembered", async (t) => {
  const directory = directoryOf(t);
  const { at } = await startUp(t, directory, ["--finished", "1"]);
  const runs: string[] = [];
  for (const name of ["first", "second", "third"]) {
    writeJob(directory, name, 64);
    const submitted = await runCli(
      ["submit", `${name}.json`, ...at, "--follow", "--json"],
      directory,
    );
    runs.push(lastJson<{ run: string }>(submitted).run);
  }
  const listed = async (...more: string[]) => {
    const ended = await runCli(["ls", ...more, ...at, "--json"], directory);
    return lastJson<{ runs: { run: string }[] }>(ended).runs.map(({ run }) => run);
  };
  t.deepEqual(await listed(), runs.slice(1), "one that was over, and one that came after it");
  t.deepEqual(await listed("--last", "1"), runs.slice(2));
  const told = async (...args: string[]) =>
    (await runCli([...args, runs[2] ?? "", ...at], directory)).stdout;
  t.regex(await told("events"), /^Queued: job\n[\s\S]*\nfinished at step \d+, model sha256:\w+\n$/);
  t.is(await told("cancel"), `Run ${runs[2]} is over already: finished.\n`);
  t.deepEqual(await listed("--last", "9"), runs.slice(1));
  const forgotten = await runCli(["status", runs[0] ?? "", ...at], directory);
  t.is(forgotten.code, 2, forgotten.stderr);
});

test.serial(
  "a cluster with `--state` is killed and started again: its runs are there, and steered",
  async (t) => {
    const directory = directoryOf(t);
    writeJob(directory, "long", 400_000);
    const up = async (port = "0") => {
      const args = ["up", "--port", port, "--state", "state", "--json"];
      const cluster = startCli(args, directory);
      t.teardown(() => cluster.kill("SIGKILL"));
      const { url, tokenFile } = JSON.parse(
        await cluster.line((line) => line.includes('"up"')),
      ) as Up;
      await cluster.line((line) => line.includes('"leading"'));
      return { cluster, url, tokenFile, at: ["--nats", url] };
    };
    const before = await up();
    const token = readFileSync(before.tokenFile, "utf8").trim();
    const client = await connectNats({ servers: before.url, token, maxReconnectAttempts: -1 });
    t.teardown(() => client.close());
    const submit = ["submit", "long.json", "--key", "k", "--priority", "3", "--json"];
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
    t.is(lastJson<{ run: string }>(again).run, run, "the same key is the same run");
    const events = startCli(["events", run, "-f", ...at, "--json"], directory);
    await events.line((line) => line.includes('"run.progress"'));
    const saved = await runCli(["checkpoint", "now", run, ...at, "--json"], directory);
    t.like(lastJson(saved), { report: "checkpoint.now", run }, saved.stderr);
    t.is((await runCli(["pause", run, ...at], directory)).code, 0);
    await events.line((line) => line.includes('"run.paused"'));
    const listed = await runCli(["ls", "--nats", new URL(before.url).host], directory);
    t.regex(listed.stdout, /RUN +STATUS +PRIORITY +STEP +DONE +TENANT +NAME/);
    t.regex(listed.stdout, new RegExp(`${run} +paused +3 `));
    const told = await runCli(["status", run, ...at], directory);
    t.regex(told.stdout, /: paused\n {2}step [\d,]+ of [\d,]+, \d+\.\d %\n/);
    const wrong = await runCli(["checkpoint", "now", run, ...at], directory);
    t.is(wrong.code, 2);
    t.regex(wrong.stderr, /expected it to be running, it is paused/);
    t.is((await runCli(["resume", run, ...at], directory)).code, 0);
    await events.line((line) => line.includes('"run.resumed"'));
    const logs = await runCli(["logs", run, ...at, "--json"], directory);
    t.true(logs.stdout.includes(run), logs.stderr);
    events.kill("SIGINT");
    t.is((await events.ended).code, 130, "it ends by itself, and leaves the terminal as it was");
    cluster.kill("SIGINT");
    const { code, stdout } = await cluster.ended;
    t.is(code, 0, stdout);
  },
);
