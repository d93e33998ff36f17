// A process that trains a job of an extreme size, which it reads from its input, for at least three
// steps in a cluster of its own, and prints its duration and its peak resident set.

import { readFileSync } from "node:fs";
import { Cluster, type JobOptions } from "../../internal.ts";

/** Steps after which a long job has reached its peak memory. */
const enough = 3;

const [, , devices = ""] = process.argv;
const job = readFileSync(0, "utf8");
const startMs = performance.now();
{
  await using cluster = await Cluster.start({ devices: Number(devices) });
  const run = await cluster.submit(JSON.parse(job) as JobOptions);
  const isLong = await reached(run, enough);
  if (isLong) await run.cancel();
  else await run.result();
}
const seconds = (performance.now() - startMs) / 1000;
console.log(JSON.stringify({ seconds, peakMiB: process.resourceUsage().maxRSS / 1024 }));

/** Whether the run reported this step; false: it ended before. */
async function reached(
  run: Awaited<ReturnType<Cluster["submit"]>>,
  step: number,
): Promise<boolean> {
  for await (const event of run.events()) {
    if (event.type === "run.progress" && event.step >= step) return true;
  }
  return false;
}
