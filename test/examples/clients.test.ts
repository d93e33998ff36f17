// The examples in other languages submit a job and follow it to its end, over the embedded broker
// and over a nats-server. The Python example uses the package nats-py if it is installed; otherwise
// a substitute sends the same messages. The `nats` command is always a substitute.

import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { promisify } from "node:util";
import test, { type ExecutionContext } from "ava";
import { Cluster } from "../../index.ts";
import { startDirectory } from "../data/data-files.ts";
import { smallData, smallModel } from "../helpers/clusters/clusters.ts";
import { startNatsServer } from "../helpers/nats/nats.ts";
import { leavesOut, natsPy, natsServer, testAll, testIf } from "../helpers/needs.ts";

const execute = promisify(execFile);
const clients = resolve("test/examples/clients");

test.serial("the Python and shell examples submit a job, and follow it to its end", async (t) => {
  await followJobs(t, {});
});

// `npm test` skips this: clients send the same messages to both brokers, and test/wire/broker
// compares the brokers.
testIf(testAll, natsServer).serial("over a nats-server they submit and follow jobs", async (t) => {
  const token = "correct-horse";
  await using server = await startNatsServer(["--auth", token]);
  await followJobs(t, { nats: server.url, token });
});

async function followJobs(t: ExecutionContext, broker: { nats?: string; token?: string }) {
  const directory = startDirectory(t);
  await using cluster = await Cluster.start({ devices: 1, ...broker });
  const { url, token = "" } = cluster;
  const isReal = !leavesOut(t, natsPy);
  const tokenFile = join(directory, "token");
  writeFileSync(tokenFile, `${token}\n`);
  const bin = join(directory, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "nats"), `#!/bin/sh\nexec node ${clients}/nats-cli.mjs "$@"\n`);
  chmodSync(join(bin, "nats"), 0o755);
  const jobIn = (name: string, top: readonly number[] = smallModel.top) => {
    const file = join(directory, `${name}.json`);
    const job = {
      name,
      model: { ...smallModel, top },
      data: { ...smallData, samples: 640, cache: join(directory, "cache") },
      checkpoint: { directory: join(directory, name) },
    };
    writeFileSync(file, JSON.stringify(job));
    return file;
  };
  const python = (job: string) =>
    execute("python3", [resolve("examples/submit_job.py"), job], {
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: isReal ? process.env.PYTHONPATH : clients,
        OSIRIS_NATS: url,
        OSIRIS_TOKEN_FILE: tokenFile,
        PYTHONDONTWRITEBYTECODE: "1",
      },
    });
  const shell = (job: string) =>
    execute("sh", [resolve("examples/submit-job.sh"), job], {
      env: { PATH: `${bin}${delimiter}${process.env.PATH}`, NATS_URL: url, NATS_USER: token },
    });
  const [followed, paged] = await Promise.all([python(jobIn("python")), shell(jobIn("shell"))]);

  const [first, ...lines] = followed.stdout.trimEnd().split("\n");
  t.regex(first ?? "", /^submitted r/);
  const events = lines.map((line) => JSON.parse(line) as { seq: number; type: string });
  t.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, at) => at),
  );
  t.is(events.at(-1)?.type, "run.finished");

  const [submitted, ...pages] = paged.stdout.trimEnd().split("\n");
  t.regex(submitted ?? "", /^submitted r/);
  const seqs = pages.flatMap((page) => {
    return (JSON.parse(page) as { events: { seq: number }[] }).events.map(({ seq }) => seq);
  });
  t.deepEqual(
    seqs,
    seqs.map((_, at) => at),
  );
  const runs = await cluster.list();
  t.deepEqual(runs.map(({ name, status }) => [name, status]).sort(), [
    ["python", "finished"],
    ["shell", "finished"],
  ]);
  // An invalid job is reported, and the program fails.
  for (const submit of [python, shell]) {
    const failure = await t.throwsAsync(submit(jobIn("wrong", [0])));
    t.regex(String((failure as { stderr?: string }).stderr), /Expected `model\.top/);
  }
}
