// A client without the Osiris library: submits a job to `osiris up` with the official NATS client
// alone, and follows its events to the end. Any NATS client in any language can do the same,
// because requests and events are JSON.
//
//   osiris up
//   node examples/official-client.mjs nats://127.0.0.1:4222 TOKEN_FILE [JOB.json]

import { readFileSync } from "node:fs";
import { connect } from "nats";

const [servers = "nats://127.0.0.1:4222", tokenFile, jobFile] = process.argv.slice(2);
const token = tokenFile === undefined ? undefined : readFileSync(tokenFile, "utf8").trim();

const exampleJob = {
  name: "official-client",
  model: {
    kind: "dlrm",
    dense: 4,
    tables: [
      { name: "user", rows: 1000, dim: 8 },
      { name: "item", rows: 1000, dim: 8 },
    ],
    bottom: [16, 8],
    top: [32, 1],
  },
  data: { kind: "synthetic", samples: 20_000, dense: 4, batchSize: 128 },
  evaluation: { fraction: 0.1 },
  checkpoint: { directory: "checkpoints/official-client" },
};
const job = jobFile === undefined ? exampleJob : JSON.parse(readFileSync(jobFile, "utf8"));

const connection = await connect({ servers, token });

/** Sends one request to the job service, and returns its answer. */
async function ask(verb, body) {
  const answer = await connection.request(`osiris.c1.jobs.${verb}`, JSON.stringify(body), {
    timeout: 5000,
  });
  const value = answer.json();
  if (value.error !== undefined && value.status === undefined) {
    throw new Error(`${value.error.code}: ${value.error.message}`);
  }
  return value;
}

// The key makes it safe to submit again after a lost answer.
const key = `official-client-${process.pid}-${Date.now()}`;
const { run, events: subject } = await ask("submit", { job, key });
console.log(`submitted ${run}`);

// Events are numbered without gaps. Events that were published before the subscription, or lost,
// are requested from the job service: when a number is missing, and after a second without events.
// Numbers missing in the answer were never used (run.renumbered), or their events are no longer
// kept.
const arrivals = connection.subscribe(subject)[Symbol.asyncIterator]();
let arriving = arrivals.next();
let next = 0;
let last;

function tell(event) {
  if (event.seq !== next) return;
  next++;
  console.log(JSON.stringify(event));
  if (event.type === "run.finished" || event.type === "run.failed") last = event;
}

let event;
while (last === undefined) {
  if (event?.seq === next) tell(event);
  else {
    for (const missed of (await ask("events", { run, since: next })).events) {
      next = Math.max(next, missed.seq);
      tell(missed);
    }
  }
  if (last !== undefined) break;
  const quiet = new Promise((resolve) => setTimeout(resolve, 1000, undefined));
  event = await Promise.race([arriving.then(({ value }) => value.json()), quiet]);
  if (event !== undefined) arriving = arrivals.next();
}

await connection.close();
if (last.type === "run.failed") {
  console.error(`run ${run} failed: ${last.error.message}`);
  process.exitCode = 1;
}
