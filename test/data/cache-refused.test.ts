// A directory that refuses the data cache is an immediate error: what cannot be made, where, and
// why.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import { synthetic } from "../../src/data/sources.ts";
import { DiskRefusedError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { startDirectory } from "./data-files.ts";

const tables = [{ name: "user", rows: 50 }];

function cacheIn(cache: string, disk: Disk = realDisk) {
  const options = dataOptions.parse(synthetic({ samples: 50_000, batchSize: 10, cache }));
  return prepareCache(options, tables, disk);
}

test("a file in the place of the cache directory ends the preparation", async (t) => {
  const path = join(startDirectory(t), "file");
  writeFileSync(path, "");
  const error = await t.throwsAsync(cacheIn(path), { instanceOf: DiskRefusedError });
  t.is(error.recovery, "stop");
  const why = "a file is in the place of a directory; name another directory with `data.cache`";
  t.is(error.message, `Cannot make the data cache in ${path}: ${why}`);
});

test("a full disk is an error that says how much the cache needs, and no file is left", async (t) => {
  const directory = startDirectory(t);
  const roomBytes = 1_000_000;
  const full: Disk = {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      const write = (bytes: Uint8Array, offset: number) => {
        if (offset + bytes.length <= roomBytes) return file.write(bytes, offset);
        throw Object.assign(new Error("ENOSPC: no space left"), {
          code: "ENOSPC",
          syscall: "write",
        });
      };
      return { ...file, write };
    },
  };
  const error = await t.throwsAsync(cacheIn(directory, full), { instanceOf: DiskRefusedError });
  t.regex(
    error.message,
    /^Cannot write the data cache in .*: the disk is full after \d+ MB, of about \d+ MB that it needs; make room, or name another directory with `data\.cache`$/,
  );
  t.deepEqual(readdirSync(directory), []);
});
