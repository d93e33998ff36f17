// An object store over a bucket in memory, for tests.

import { BucketMachine } from "../../../chaos/objects/bucket-machine.ts";
import { MemoryBucket } from "../../../chaos/objects/memory-bucket.ts";
import { openObjectStore } from "../../../src/objects/open-object-store.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import type { ObjectStore } from "../../../src/ports/object-store.ts";

/** A bucket, and a store over it that gives a request up after three attempts. */
export async function startBucket(
  bucket: MemoryBucket = new MemoryBucket(),
): Promise<{ bucket: MemoryBucket; machine: BucketMachine; objects: ObjectStore }> {
  const limits = { attemptsMax: 3, attemptMs: 1000, backoffMs: 1 };
  const machine = new BucketMachine(bucket, { limits });
  const disk = { ...realDisk, objects: machine.objects };
  return { bucket, machine, objects: await openObjectStore("s3://bucket/lease", disk) };
}
