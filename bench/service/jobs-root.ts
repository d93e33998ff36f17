// A leader that accepts jobs, in a process of its own. It prints a line once it leads, and exits
// with its parent.

import { Cluster } from "../../internal.ts";

const [nats = "", directory = ""] = process.argv.slice(2);
// Without devices, it only accepts jobs and queues them.
const state = { directory };
const cluster = await Cluster.start({ devices: 0, minDevices: 1, nats, token: "t", state });
await cluster.leading;
console.log("leading");
process.on("disconnect", () => process.exit(0));
