// Preloaded module that slows down the syncs of a program's threads, as on a slow disk.

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isMainThread } from "node:worker_threads";

const syncMs = 150;
const { fsyncSync } = fs;

if (!isMainThread) {
  fs.fsyncSync = (file) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, syncMs);
    fsyncSync(file);
  };
  syncBuiltinESMExports();
}
