// Hosts that share a bucket, but no directory: one of them makes the index of each file.

import { join } from "node:path";
import test from "ava";
import { BucketMachine } from "../../chaos/objects/bucket-machine.ts";
import { MemoryBucket } from "../../chaos/objects/memory-bucket.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { claimsMemory, FileClaims, orderOfHost } from "../../src/data/file-index/claims.ts";
import { fileIndexOf, indexedData } from "../../src/data/file-index/index-file.ts";
import { factsOf } from "../../src/data/remote/file-facts.ts";
import { promisesOf } from "../../src/objects/open-object-store.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { optionsOf, startFiles, tables } from "./index-files.ts";

const noHelp = { start() {}, waitOn() {} };

test("hosts with a common bucket index each file once, and a replacement reads none", async (t) => {
  const { home, paths } = startFiles(t);
  const bucket = new MemoryBucket();
  const store = promisesOf(new BucketMachine(bucket).objects("s3://bucket/run"));
  const prepare = (host: string) => {
    const options = optionsOf(paths, join(home, host));
    return prepareCache(options, tables, realDisk, () => {}, undefined, { ...noHelp, store });
  };
  // Host b makes the last two indexes before host a comes to these files.
  const own = indexedData({
    options: optionsOf(paths, join(home, "b")),
    tables,
    disk: realDisk,
    store,
  });
  realDisk.makeDirectory(join(home, "b", "file-indexes"));
  const claims = new FileClaims(claimsMemory(orderOfHost(6, 0, 1)), 1);
  for (const place of [4, 5]) {
    await fileIndexOf(own, { place, facts: await factsOf(paths[place] ?? "") }, claims);
  }
  const first = await prepare("a");
  t.is(first.filesRead, 4);
  const { filesRead, ...replaced } = await prepare("c");
  t.is(filesRead, 0);
  t.deepEqual({ ...replaced, path: "", filesRead: 4 }, { ...first, path: "" });
  // The index in a damaged object is made again, and replaces the object.
  const [key = ""] = bucket.keys;
  const bytes = Uint8Array.from(bucket.bytesOf(key) ?? []);
  bucket.plant(
    key,
    bytes.map((byte, i) => (i === 20 ? byte ^ 1 : byte)),
  );
  t.is((await prepare("d")).filesRead, 1);
  t.is((await prepare("e")).filesRead, 0);
});
