// A bucket in memory, in a process of its own. Sends its address, and ends with its parent.

import { serveBucket } from "../../chaos/objects/bucket-server.ts";

const { endpoint } = await serveBucket();
process.once("disconnect", () => process.exit());
process.send?.(endpoint);
