// The file with which the launcher starts every thread.

import { entryFile } from "../../src/ports/entry-file.ts";

/** The rollup of thread-entry.js, if it is current; else the entry itself. */
export const threadFile = entryFile("threads", "actors/threads/thread-entry.js");
