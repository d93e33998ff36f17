// A thread that reads an object, blocking, and posts its text.

import { parentPort, workerData } from "node:worker_threads";
import { blockingObjectStore } from "../../src/objects/open-object-store.ts";
import { realDisk } from "../../src/ports/disk.ts";

const store = blockingObjectStore(workerData.address, realDisk);
parentPort?.postMessage(String(Buffer.from(store.get("one") ?? "")));
