// A bucket's server in a thread of its own. Posts its address.

import { parentPort, workerData } from "node:worker_threads";
import { serveBucket } from "../../chaos/objects/bucket-server.ts";

const { endpoint } = await serveBucket(workerData.flaws);
parentPort?.postMessage(endpoint);
