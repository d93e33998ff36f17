// Opens the object store at an address, `s3://bucket/prefix`.

import type { Disk } from "../ports/disk.ts";
import type { BlockingObjectStore, ObjectStore, Upload } from "../ports/object-store.ts";

/** A blocking store, as one that returns promises: for stores of simulated machines and tests. */
function promisesOf(store: BlockingObjectStore): ObjectStore {
  return {
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
}

/** Opens a store whose calls return promises. `disk`: of the machine, whose store it is. */
export async function openObjectStore(address: string, disk?: Disk): Promise<ObjectStore> {
  const simulated = disk?.objects?.(address);
  if (simulated !== undefined) return promisesOf(simulated);
  throw new Error("not yet");
}

/** Opens a store whose calls block the thread. */
export function blockingObjectStore(address: string, disk: Disk): BlockingObjectStore {
  const simulated = disk.objects?.(address);
  if (simulated !== undefined) return simulated;
  throw new Error("not yet");
}
