// A process that reads an object in a thread that the launcher starts, and after its end in its
// first thread. It prints both, with the number of services that were started, and ends by itself.
//
//   node blocking-process.js ADDRESS

import { once } from "node:events";
import { blockingObjectStore } from "../../src/objects/open-object-store.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { openThread, seatOfThreads } from "../../src/ports/launcher.ts";
import { seatWords } from "../../src/ports/process-seat.ts";

const [, , address = ""] = process.argv;
const program = new URL("blocking-thread.js", import.meta.url);
const thread = openThread(program, { workerData: { address } });
const [message, ended] = [once(thread, "message"), once(thread, "exit")];
const [text] = await message;
await ended;
const store = blockingObjectStore(address, realDisk);
const own = Buffer.from(store.get("one") ?? "");
const services = seatOfThreads()[seatWords.epoch];
process.stdout.write(`${own} ${text}, services: ${services}\n`);
