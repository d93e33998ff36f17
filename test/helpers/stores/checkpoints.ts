// Small checkpoints for tests of the store: two parts whose bytes follow from cut and name.

import { BucketMachine } from "../../../chaos/objects/bucket-machine.ts";
import { MemoryBucket } from "../../../chaos/objects/memory-bucket.ts";
import { blockingObjectStore } from "../../../src/objects/open-object-store.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import type {
  BasePart,
  CheckpointStore,
  Manifest,
  PartRecord,
} from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { decodeManifest } from "../../../storage/checkpoints/store/manifest.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { partOf } from "../../../storage/checkpoints/store/part-index.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { readWhole } from "../../../storage/disk/durable-files.ts";

/** Identity and text of the job that owns the test stores. */
export const testJob = { jobIdentity: "a".repeat(64), jobText: '{"model":"m","seed":7}' };

const partNames = ["dense", "rows-0000"];

/** The expected bytes of a part. */
export function contentOf(cut: number, name: string): Uint8Array {
  const bytes = new Uint8Array(40 + cut + name.length);
  return bytes.map((_, index) => (index * 7 + cut * 13 + name.length) % 256);
}

/**
 * Writes the parts of `cut` in two pieces each, and commits them with the parts in `extra`. `on`:
 * the checkpoint to which the rows are an increment; its own bases are bases of the rows, too.
 */
export function commitCheckpoint(
  store: CheckpointStore,
  at: {
    generation: number;
    cut: number;
    best?: boolean;
    extra?: PartRecord[];
    on?: Manifest | undefined;
    means?: Manifest["means"];
  },
): Manifest {
  const writer = store.packWriter(at.generation, at.cut, "d0");
  const parts = partNames.map((name) => {
    const bytes = contentOf(at.cut, name);
    writer.begin(name);
    writer.write(bytes.subarray(0, 9));
    writer.write(bytes.subarray(9));
    const base = name === "dense" || at.on === undefined ? [] : baseOn(at.on, name);
    return { ...writer.end(), base };
  });
  writer.finish();
  return store.commit({
    run: "r1",
    cut: at.cut,
    generation: at.generation,
    parts: [...parts, ...(at.extra ?? [])],
    modelDigest: "d".repeat(64),
    arithmetic: "reference",
    metrics: { auc: 0.75 },
    position: { pass: 0, sample: at.cut * 8 },
    ...(at.means && { means: at.means }),
    best: at.best ?? false,
    createdBy: "test",
  });
}

function baseOn({ cut, generation, parts }: Manifest, name: string): BasePart[] {
  return parts
    .filter((part) => part.name === name)
    .flatMap(({ base, name: _, ...own }) => [...base, { cut, generation, ...own }]);
}

/** Writes a part into a pack of its own. */
export function writePart(
  store: CheckpointStore,
  at: { readonly generation: number; readonly cut: number; readonly name: string },
  ...pieces: readonly Uint8Array[]
): PartRecord {
  const writer = store.packWriter(at.generation, at.cut, at.name.replace(/[^a-z0-9]/g, ""));
  writer.begin(at.name);
  for (const piece of pieces) writer.write(piece);
  const part = writer.end();
  writer.finish();
  return part;
}

/** The file of a part in a real checkpoint directory, and the place of its bytes there. */
export function placeOfPart(
  directory: string,
  { cut, generation }: Pick<Manifest, "cut" | "generation">,
  name: string,
): { readonly path: string; readonly at: number; readonly bytes: number } {
  const paths = pathsOf(directory);
  const path = paths.manifest(cut, generation);
  const part = partOf(decodeManifest(readWhole(realDisk, path), path), name);
  return { ...part, path: paths.file(cut, generation, part.file) };
}

/** Flips a bit of a byte of a part in a real checkpoint directory. */
export function flipInPart(
  directory: string,
  checkpoint: Pick<Manifest, "cut" | "generation">,
  name: string,
  byte: number,
): void {
  const { path, at } = placeOfPart(directory, checkpoint, name);
  flipByte(realDisk, path, at + byte);
}

/** Flips bits of one byte of a file, durably. */
export function flipByte(disk: Disk, path: string, at: number, mask = 1): void {
  const file = disk.open(path, "update");
  const byte = new Uint8Array(1);
  file.read(byte, at);
  byte[0] = (byte[0] ?? 0) ^ mask;
  file.write(byte, at);
  file.sync();
  file.close();
}

export function startStore(disk = new SimulatedDisk()) {
  const open = () => openStore({ directory: "/run", disk, ...testJob });
  return { disk, open, store: open() };
}

/** A store of some kind, with access to its stored files. Paths are relative to its name. */
export interface StartedStore {
  readonly name: string;
  readonly disk: Disk;
  readonly store: CheckpointStore;
  open(job?: typeof testJob): CheckpointStore;
  /** Names of the stored checkpoints, and of the files of one. */
  checkpoints(): string[];
  files(checkpoint: string): string[];
  flip(path: string, at: number): void;
  remove(path: string): void;
}

/** A store in a simulated directory. */
export function startStoreInDirectory(): StartedStore {
  const disk = new SimulatedDisk();
  const open = (job = testJob) => openStore({ directory: "/run", disk, ...job });
  return {
    ...{ name: "/run", disk, open, store: open() },
    checkpoints: () => disk.list("/run/checkpoints"),
    files: (checkpoint) => disk.list(`/run/checkpoints/${checkpoint}`),
    flip: (path, at) => flipByte(disk, `/run/${path}`, at),
    remove: (path) => disk.remove(`/run/${path}`),
  };
}

/** A disk of a simulated machine, with object stores in this bucket. */
export function diskOver(bucket: MemoryBucket, machine = new BucketMachine(bucket)): Disk {
  return { ...realDisk, writer: "simulated-1", objects: machine.objects };
}

/** A store in a bucket in memory. */
export function startObjects(
  bucket = new MemoryBucket(),
  machine = new BucketMachine(bucket),
): StartedStore & { readonly bucket: MemoryBucket; readonly machine: BucketMachine } {
  const [name, disk] = ["s3://bucket/run", diskOver(bucket, machine)];
  const open = (job = testJob) => openStore({ directory: name, disk, ...job });
  const below = (prefix: string) => {
    const keys = bucket.keys.filter((key) => key.startsWith(prefix));
    return [...new Set(keys.map((key) => key.slice(prefix.length).split("/")[0] ?? ""))];
  };
  return {
    ...{ name, disk, open, bucket, machine, store: open() },
    checkpoints: () => below("run/checkpoints/"),
    files: (checkpoint) => below(`run/checkpoints/${checkpoint}/`),
    flip(path, at) {
      const bytes = Uint8Array.from(bucket.bytesOf(`run/${path}`) ?? []);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      bucket.plant(`run/${path}`, bytes);
    },
    remove: (path) => bucket.plant(`run/${path}`),
  };
}

/** A store at a network address, whose objects are inspected by requests for lists. */
export function startObjectsAt(name: string): StartedStore {
  const objects = blockingObjectStore(name, realDisk);
  const open = (job = testJob) => openStore({ directory: name, disk: realDisk, ...job });
  const below = (prefix: string) => {
    const names = objects.list(prefix).map((key) => key.slice(prefix.length).split("/")[0] ?? "");
    return [...new Set(names)];
  };
  return {
    ...{ name, disk: realDisk, open, store: open() },
    checkpoints: () => below("checkpoints/"),
    files: (checkpoint) => below(`checkpoints/${checkpoint}/`),
    flip(path, at) {
      const bytes = Uint8Array.from(objects.get(path) ?? []);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      objects.put(path, bytes);
    },
    remove: (path) => objects.remove([path]),
  };
}
