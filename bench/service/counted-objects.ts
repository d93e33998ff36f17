// Counts the requests and bytes of an object store's users, for benches and tests that bound those
// of a checkpoint. `Disk.objects` returns the counted store in place of the plain one.

import type { BlockingObjectStore } from "../../src/ports/object-store.ts";

/** Calls by name, and bytes. An upload counts as one call, whatever parts it is sent in. */
export interface Traffic {
  readonly calls: Record<
    "get" | "size" | "put" | "create" | "upload" | "list" | "remove" | "open",
    number
  >;
  writtenBytes: number;
  /** Bytes returned to callers; a reader may have fetched more ahead. */
  readBytes: number;
}

export function noTraffic(): Traffic {
  const calls = { get: 0, size: 0, put: 0, create: 0, upload: 0, list: 0, remove: 0, open: 0 };
  return { calls, writtenBytes: 0, readBytes: 0 };
}

/** Number of all calls. */
export const callsOf = ({ calls }: Traffic): number =>
  Object.values(calls).reduce((sum, one) => sum + one, 0);

/** A wrapper of the store that adds each call to `traffic`. */
export function counted(store: BlockingObjectStore, traffic: Traffic): BlockingObjectStore {
  const { calls } = traffic;
  const wrote = (bytes: Uint8Array) => {
    traffic.writtenBytes += bytes.length;
  };
  return {
    ...store,
    get(key, range) {
      calls.get++;
      const bytes = store.get(key, range);
      traffic.readBytes += bytes?.length ?? 0;
      return bytes;
    },
    size(key) {
      calls.size++;
      return store.size(key);
    },
    put(key, bytes) {
      calls.put++;
      wrote(bytes);
      store.put(key, bytes);
    },
    create(key, bytes) {
      calls.create++;
      wrote(bytes);
      return store.create(key, bytes);
    },
    upload(key) {
      calls.upload++;
      const upload = store.upload(key);
      return {
        ...upload,
        write(bytes) {
          wrote(bytes);
          upload.write(bytes);
        },
      };
    },
    list(prefix) {
      calls.list++;
      return store.list(prefix);
    },
    remove(keys) {
      calls.remove++;
      store.remove(keys);
    },
    open(key) {
      calls.open++;
      const reader = store.open(key);
      if (reader === undefined) return undefined;
      return {
        size: reader.size,
        read(bytes, at) {
          const count = reader.read(bytes, at);
          traffic.readBytes += count;
          return count;
        },
        close: () => reader.close(),
      };
    },
  };
}
