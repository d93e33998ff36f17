// A process to be killed while it trains: a cluster of two devices and one job; it sends its events
// to its parent.

import { Cluster, type JobOptions } from "../../../index.ts";

const job = JSON.parse(process.argv[2] ?? "{}") as JobOptions;
const cluster = await Cluster.start({ devices: 2 });
const run = await cluster.submit(job);
for await (const event of run.events()) process.send?.(event);
