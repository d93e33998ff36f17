// ZIP files and torch.save files made by hand, so that they can be invalid, and read from memory.

import { type Disk, type DiskFile, realDisk } from "../../../src/ports/disk.ts";
import { readZip } from "../../../storage/disk/read-zip.ts";
import { appendToZip, zipDirectory } from "../../../storage/disk/write-zip.ts";

/** Bytes from numbers, and from texts in latin1. */
export function bytesOf(...parts: readonly (number | string | Uint8Array)[]): Uint8Array {
  return Buffer.concat(
    parts.map((part) => {
      if (typeof part === "number") return Uint8Array.of(part);
      return typeof part === "string" ? Buffer.from(part, "latin1") : part;
    }),
  );
}

/** A text in a pickle: BINUNICODE. */
export function text(own: string): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(own));
  return bytesOf("X", length, own);
}

/** An integer in a pickle: BININT, or LONG1 of 8 bytes. */
export function int(value: number): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytesOf(0x8a, 8, bytes);
}

/** A pickled tensor, possibly inconsistent. */
export function tensor(of: {
  readonly type?: string;
  readonly key?: string;
  readonly count: number;
  readonly offset?: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** Names of tensor metadata, with the value `true`. */
  readonly metadata?: readonly string[];
}): Uint8Array {
  const { type = "FloatStorage", key = "0", count, offset = 0, shape, strides, metadata } = of;
  const tuple = (items: readonly number[]) => bytesOf("(", ...items.map(int), "t");
  const storage = bytesOf("(", text("storage"), `ctorch\n${type}\n`, text(key), text("cpu"));
  const hooks = bytesOf(0x89, "ccollections\nOrderedDict\n)R");
  const items = (metadata ?? []).flatMap((name) => [text(name), 0x88]);
  const set = metadata === undefined ? "" : bytesOf("}(", ...items, "u");
  return bytesOf(
    ...["ctorch._utils\n_rebuild_tensor_v2\n(", storage, int(count), "tQ", int(offset)],
    ...[tuple(shape), tuple(strides), hooks, set, "tR"],
  );
}

/** A ZIP file of stored entries. */
export function zipOf(
  entries: Readonly<Record<string, Uint8Array | string>>,
  alignment = 64,
): Uint8Array {
  const contents = Object.entries(entries).map(([name, own]) => [name, bytesOf(own)]);
  const pieces: Uint8Array[] = [];
  const file = { ...fileOf(new Uint8Array(), "m"), write: (own: Uint8Array) => pieces.push(own) };
  const all = appendToZip(file, [], Object.fromEntries(contents), alignment);
  return Buffer.concat([...pieces, zipDirectory(all)]);
}

/** The contents of a ZIP file's entries. */
export function unzipped(bytes: Uint8Array): Record<string, Uint8Array> {
  const entries = readZip(fileOf(bytes, "m"), (why) => new Error(why));
  return Object.fromEntries(
    [...entries].map(([name, own]) => [name, bytes.subarray(own.start, own.start + own.bytes)]),
  );
}

/** A torch.save file with this pickle, after its protocol header, and these storages. */
export function torchOf(pickle: Uint8Array, storages: readonly Uint8Array[] = []): Uint8Array {
  const data = storages.map((own, key) => [`m/data/${key}`, own] as const);
  return zipOf({ "m/data.pkl": bytesOf(0x80, 2, pickle, "."), ...Object.fromEntries(data) });
}

/** A disk with one file in memory. */
export function diskOf(bytes: Uint8Array): Disk {
  return { ...realDisk, open: (path) => fileOf(bytes, path), exists: () => false };
}

function fileOf(bytes: Uint8Array, path: string): DiskFile {
  const refuse = () => {
    throw new RangeError(`${path} is not written to`);
  };
  const read = (into: Uint8Array, offset: number) => {
    if (!(offset >= 0)) throw new RangeError(`${path} has no byte ${offset}`);
    const own = bytes.subarray(offset, offset + into.length);
    into.set(own);
    return own.length;
  };
  return {
    ...{ path, write: refuse, truncate: refuse, sync: refuse, synced: refuse },
    ...{ read, readLater: async (into, offset) => read(into, offset) },
    size: () => bytes.length,
    close() {},
  };
}
