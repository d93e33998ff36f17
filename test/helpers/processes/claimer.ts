// A process that begins generations as fast as it can, and reports their numbers to its parent.

import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { testJob } from "../stores/checkpoints.ts";

const [directory = "", claims = "0"] = process.argv.slice(2);
const store = openStore({ directory, ...testJob });
const claimed = Array.from({ length: Number(claims) }, () => store.beginGeneration().generation);
process.send?.(claimed);
