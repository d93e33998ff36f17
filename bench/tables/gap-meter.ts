// Measures gaps in which the main thread of a process is unresponsive, after the end of its
// imports, before which it has no actor. Each gap of more than `noticedMs` is a line of the file
// that OSIRIS_GAPS names.

import { appendFileSync } from "node:fs";

const everyMs = 10;
const noticedMs = 50;
const { OSIRIS_GAPS: file } = process.env;

if (file !== undefined) {
  let lastMs = performance.now();
  setInterval(() => {
    const nowMs = performance.now();
    const gapMs = nowMs - lastMs - everyMs;
    lastMs = nowMs;
    if (gapMs > noticedMs) appendFileSync(file, `${JSON.stringify({ atMs: Date.now(), gapMs })}\n`);
  }, everyMs).unref();
}
