// A bucket in memory, in a process of its own: bucket-program.js [ADDRESS PORT]. Sends its address
// to its parent, and exits with the parent; without a channel to a parent, it prints the address.

import { serveBucket } from "../../chaos/objects/bucket-server.ts";

const [host, port] = process.argv.slice(2);
const { endpoint } = await serveBucket(
  {},
  host === undefined ? undefined : { host, port: Number(port) },
);
process.once("disconnect", () => process.exit());
if (process.send === undefined) process.stdout.write(`${endpoint}\n`);
else process.send(endpoint);
