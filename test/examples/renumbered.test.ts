// The examples follow a run whose leader was lost with its machine: event numbers are skipped, and
// `run.renumbered` says so. The test's own job service publishes the events.

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import test from "ava";
import { connect } from "nats";
import { startBroker } from "../../src/wire/broker/broker.ts";
import { startDirectory } from "../data/data-files.ts";
import { leavesOut, natsPy } from "../helpers/needs.ts";
import { waitMs } from "../helpers/until.ts";

const execute = promisify(execFile);
const run = "r1";
const happened = [
  { type: "run.queued", seq: 0, run },
  { type: "run.preparing", seq: 1, run },
  { type: "run.renumbered", last: 1, first: 1002, seq: 1002, run },
  { type: "run.finished", seq: 1003, run, result: {} },
];

test("the examples follow a run across a gap in its event numbers", async (t) => {
  const directory = startDirectory(t);
  const token = "correct-horse";
  const tokenFile = join(directory, "token");
  writeFileSync(tokenFile, token);
  await using broker = await startBroker({ auth: { token } });
  const service = await connect({ servers: broker.url, token });
  t.teardown(() => service.close());
  service.subscribe("osiris.c1.jobs.*", {
    callback: (_, message) => {
      const { since = 0 } = message.json<{ since?: number }>();
      const submitted = { run, status: "running", events: `osiris.c1.runs.${run}.events` };
      const events = happened.filter(({ seq }) => seq >= since);
      const isSubmitted = message.subject.endsWith(".submit");
      message.respond(JSON.stringify(isSubmitted ? submitted : { events }));
    },
  });
  await service.flush();
  const env = {
    PATH: process.env.PATH,
    OSIRIS_NATS: broker.url,
    OSIRIS_TOKEN_FILE: tokenFile,
    PYTHONPATH: !leavesOut(t, natsPy) ? process.env.PYTHONPATH : resolve("test/examples/clients"),
    PYTHONDONTWRITEBYTECODE: "1",
  };
  const options = { env, timeout: waitMs };
  const outputs = await Promise.all([
    execute("node", [resolve("examples/official-client.mjs"), broker.url, tokenFile], options),
    execute("python3", [resolve("examples/submit_job.py")], options),
  ]);
  for (const { stdout } of outputs) {
    const [, ...lines] = stdout.trimEnd().split("\n");
    t.deepEqual(
      lines.map((line) => JSON.parse(line)),
      happened,
    );
  }
});
