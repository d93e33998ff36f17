// A process whose disk is full for a while: trains the given job; from step 12 on, no file may grow
// beyond `fileBytes`, until the tier has reported it, and then for `roomAfterMs` more. Prints its
// tier and incident events, and the digest of the run.

import { spawnSync } from "node:child_process";
import { Cluster, type JobOptions } from "../../../index.ts";

const { job, fileBytes, roomAfterMs } = JSON.parse(process.argv[2] ?? "{}") as {
  readonly job: JobOptions;
  readonly fileBytes: number;
  readonly roomAfterMs: number;
};
const cluster = await Cluster.start({ devices: 1 });
const run = await cluster.submit(job);
const states: string[] = [];
let isLimited = false;
for await (const event of run.events()) {
  if (event.type === "run.progress" && event.step >= 12 && !isLimited) {
    isLimited = true;
    limit(String(fileBytes));
  }
  if (event.type === "run.tier") {
    states.push(event.state);
    if (event.state === "paused") setTimeout(() => limit("unlimited"), roomAfterMs);
  }
  if (event.type === "run.incident") states.push(`${event.offender} ${event.error.code}`);
}
const { digest, disk } = await run.result();
process.stdout.write(`${JSON.stringify({ states, digest, pausedSeconds: disk?.pausedSeconds })}\n`);
await cluster.close();

/** Sets the soft file size limit of this process: writes beyond it fail with EFBIG. */
function limit(bytes: string): void {
  const { error, status } = spawnSync("prlimit", [`--pid=${process.pid}`, `--fsize=${bytes}:`]);
  if (error !== undefined || status !== 0)
    throw new Error("prlimit does not work", { cause: error });
}
