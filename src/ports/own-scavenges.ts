// Collection of young garbage without helper threads. By default V8 gives helper threads a part of
// the work, and waits for them. On a busy machine, a helper that is not scheduled delays the whole
// process by tens of milliseconds; a thread alone needs one or two.

import { setFlagsFromString } from "node:v8";

/** From now on, a thread collects its young garbage alone. For processes that serve models. */
export function collectAlone(): void {
  setFlagsFromString("--no-parallel-scavenge");
}
