// Opens the object store at an address, `s3://bucket/prefix`.

import { randomUUID } from "node:crypto";
import { realClock } from "../ports/clock.ts";
import type { Disk } from "../ports/disk.ts";
import type { BlockingObjectStore, ObjectStore, Upload } from "../ports/object-store.ts";
import { blockingStoreOf } from "./blocking-store.ts";
import { siteOf, storeEnvironment } from "./environment.ts";
import { connectTo } from "./http-connection.ts";
import { laterStoreOf } from "./later-store.ts";
import { runners, type StoreLimits, type StorePlace, usualStoreLimits } from "./rules.ts";
import { s3Parts, urlOf } from "./s3-address.ts";
import { servicePort } from "./service-port.ts";

/** Wraps a blocking store as a store of promises, for simulated machines and tests. */
export function promisesOf(store: BlockingObjectStore): ObjectStore {
  const later: ObjectStore = {
    address: store.address,
    get: async (key, range) => store.get(key, range),
    size: async (key) => store.size(key),
    put: async (key, bytes) => store.put(key, bytes),
    create: async (key, bytes) => store.create(key, bytes),
    upload(key): Upload {
      const upload = store.upload(key);
      return {
        write: async (bytes) => upload.write(bytes),
        finish: async () => upload.finish(),
        discard: async () => upload.discard(),
      };
    },
    list: async (prefix) => store.list(prefix),
    remove: async (keys) => store.remove(keys),
    close: async () => store.close(),
  };
  const runner = runners.get(store);
  if (runner !== undefined) runners.set(later, runner);
  return later;
}

/** Opens a store whose calls return promises. The `disk` of a simulated machine has its own. */
export async function openObjectStore(
  address: string,
  disk?: Disk,
  limits: StoreLimits = usualStoreLimits,
): Promise<ObjectStore> {
  const simulated = disk?.objects?.(address);
  if (simulated !== undefined) return promisesOf(simulated);
  const place = placeOf(address, limits, (count) => new Uint8Array(count));
  return laterStoreOf(place, connectTo(address, storeEnvironment(), limits));
}

/** Opens a store whose calls block the thread. The `disk` of a simulated machine has its own. */
export function blockingObjectStore(
  address: string,
  disk: Disk,
  limits: StoreLimits = usualStoreLimits,
): BlockingObjectStore {
  const simulated = disk.objects?.(address);
  if (simulated !== undefined) return simulated;
  const place = placeOf(address, limits, (count) => new Uint8Array(new SharedArrayBuffer(count)));
  const target = { address: place.address, env: storeEnvironment(), attemptMs: limits.attemptMs };
  return blockingStoreOf(place, servicePort(target));
}

function placeOf(
  given: string,
  limits: StoreLimits,
  newBytes: (count: number) => Uint8Array,
): StorePlace {
  const address = given.replace(/\/+$/, "");
  const { bucket, key } = s3Parts(address);
  const endpoint = urlOf(siteOf(storeEnvironment()), bucket, "").origin;
  const prefix = key === "" ? "" : `${key}/`;
  const known = { clock: realClock, newName: randomUUID, endpoint };
  return { address, prefix, limits, newBytes, ...known };
}
