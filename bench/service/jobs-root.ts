// A root that takes jobs, in a process of its own: it prints a line once it does, and ends with its
// parent.

import { Cluster } from "../../index.ts";

const [nats = "", directory = "", store = "auto"] = process.argv.slice(2);
const kinds = { auto: "auto", file: "file", rocksdb: "rocksdb" } as const;
const kind = kinds[store as keyof typeof kinds];
// No device is there: it takes jobs and queues them, and does nothing else.
const state = { directory, store: kind };
const cluster = await Cluster.start({ devices: 0, minDevices: 1, nats, token: "t", state });
await cluster.leading;
console.log("leading");
process.on("disconnect", () => process.exit(0));
