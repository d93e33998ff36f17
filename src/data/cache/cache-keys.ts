// Reads the split keys of a cache's samples: the values of the column that splits the data
// (cache-format.ts). A cache with damaged keys is set aside, like one with damaged samples
// (cache-reader.ts).

import { crc32 } from "node:zlib";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk } from "../../ports/disk.ts";
import type { SplitKeys } from "../split-keys.ts";
import { setAsideNameOf } from "./cache-directory.ts";
import { bytesOfKeys, onDisk, readFrame } from "./cache-format.ts";

/**
 * The split keys of the cache at `path`, in the order of its samples.
 * @throws DataCacheDamagedError, StoreFailedError
 */
export function readKeys(path: string, disk: Disk): SplitKeys {
  const keys = keysOf(path, disk) ?? keysOf(path, disk); // A retry: it may be repaired by now.
  if (keys !== undefined) return keys;
  onDisk("set aside", path, () => disk.rename(path, setAsideNameOf(path)));
  throw new DataCacheDamagedError(path, "the checksum of its keys differs");
}

/** The keys of the file; undefined if they are damaged. */
function keysOf(path: string, disk: Disk): SplitKeys | undefined {
  if (!disk.exists(path)) throw new DataCacheDamagedError(path, "it is not there");
  const file = onDisk("open", path, () => disk.open(path, "read"));
  try {
    const { meta, end } = readFrame(file);
    const values = new Float64Array(meta.samples);
    const bytes = bytesOfKeys(values);
    const read = onDisk("read", path, () => file.read(bytes, end));
    const isWhole = read === bytes.length && crc32(bytes) === meta.keys?.crc;
    return isWhole && meta.keys ? { form: meta.keys.form, values } : undefined;
  } finally {
    file.close();
  }
}
