// The checkpoint store in an object store: the suite, and what differs from a directory. Crashes
// and faults are in object-store-crash.test.ts.

import { startObjects } from "../../../helpers/stores/checkpoints.ts";
import { keepsCheckpoints } from "../../../suites/checkpoint-store.ts";

keepsCheckpoints("in an object store", () => startObjects());
