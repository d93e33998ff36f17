// The file that the launcher starts every thread with.

import { entryFile } from "../../src/ports/entry-file.ts";

/** Its rollup, if that is current. */
export const threadFile = entryFile("threads", "actors/threads/thread-entry.js");
