// A bucket in memory, in a process of its own: bucket-program.js [ADDRESS PORT]. Tells its address
// to its parent, and ends with it; on a machine of its own it prints it.

import { serveBucket } from "../../chaos/objects/bucket-server.ts";

const [host, port] = process.argv.slice(2);
const { endpoint } = await serveBucket(
  {},
  host === undefined ? undefined : { host, port: Number(port) },
);
process.once("disconnect", () => process.exit());
if (process.send === undefined) process.stdout.write(`${endpoint}\n`);
else process.send(endpoint);
