// The replica cache: files of the newest checkpoint's parts in a host's memory, for the host's own
// shards and for the replica owner whose buddy it is. Only the checkpoint store decides which
// checkpoint counts (law 6); a replica only saves reading from the store.
//
// Invariants
//   Y1. A replica is identified by its part's name and the hash in the manifest. So a replica of
//       another checkpoint, or of a fenced writer, is never requested.
//   Y2. At most `bytesMax` are held. Files for which there is no room are only in the store.

import type { BasePart, Manifest, PartRecord } from "../store/checkpoint-store.ts";

/** The bytes of a part in one checkpoint, as a manifest names them. */
export interface NamedFile extends Pick<BasePart, "cut" | "generation" | "bytes" | "sha256"> {
  readonly name: string;
}

/** The bytes in memory. Written once, then never again. */
export interface PartReplica extends NamedFile {
  readonly memory: SharedArrayBuffer;
  /** Its host leaves, and the part is in no store yet: older replicas are dropped to make room. */
  readonly isHandedOver?: boolean;
}

/** The bytes that make up a part, newest first. */
export function filesOfPart(
  { cut, generation }: Pick<Manifest, "cut" | "generation">,
  { name, bytes, sha256, base }: PartRecord,
): NamedFile[] {
  const own = { name, cut, generation, bytes, sha256 };
  const below = base.map(({ file: _, at: _at, ...one }) => ({ name, ...one }));
  return [own, ...below.reverse()];
}

/** The bytes that make up all parts of these names. */
export function filesOfParts(manifest: Manifest, names: readonly string[]): NamedFile[] {
  const wanted = new Set(names);
  const parts = manifest.parts.filter(({ name }) => wanted.has(name));
  return parts.flatMap((part) => filesOfPart(manifest, part));
}

/** Key of a replica. Y1 */
export function keyOf({ name, sha256 }: Pick<NamedFile, "name" | "sha256">): string {
  return `${name} ${sha256}`;
}

/** A replica is read through one array of bytes. */
export const replicaBytesMax = 2 ** 32 - 1;

export class ReplicaCache {
  readonly #bytesAsked: number;
  #bytesMax: number;
  #bytes = 0;
  readonly #replicas = new Map<string, PartReplica>();
  readonly #listeners = new Set<(copy: PartReplica) => void>();

  constructor(bytesMax: number) {
    this.#bytesAsked = bytesMax;
    this.#bytesMax = bytesMax;
  }

  get bytesMax(): number {
    return this.#bytesMax;
  }

  /** Limits replicas to the memory that the present generation leaves on the host. */
  limit(bytes: number): void {
    this.#bytesMax = Math.max(0, Math.min(this.#bytesAsked, bytes));
  }

  /** Bytes held now. */
  get bytes(): number {
    return this.#bytes;
  }

  all(): PartReplica[] {
    return [...this.#replicas.values()];
  }

  get(file: Pick<NamedFile, "name" | "sha256">): PartReplica | undefined {
    return this.#replicas.get(keyOf(file));
  }

  /** Whether a file of this size fits, and into one array. Y2 */
  hasRoom({ bytes }: Pick<NamedFile, "bytes">): boolean {
    return bytes <= replicaBytesMax && this.#bytes + bytes <= this.#bytesMax;
  }

  /** Adds a replica, if it fits. */
  put(copy: PartReplica): void {
    if (copy.isHandedOver === true) this.retain([], copy.cut - 1);
    if (this.#replicas.has(keyOf(copy)) || !this.hasRoom(copy)) return;
    this.#replicas.set(keyOf(copy), copy);
    this.#bytes += copy.bytes;
    for (const listen of this.#listeners) listen(copy);
  }

  /** Drops all replicas but these files and files of cuts after `cut`, which are being written. */
  retain(files: readonly NamedFile[], cut: number): void {
    const kept = new Set(files.map(keyOf));
    for (const [key, copy] of this.#replicas) {
      if (kept.has(key) || copy.cut > cut) continue;
      this.#replicas.delete(key);
      this.#bytes -= copy.bytes;
    }
  }

  /** Calls `listen` for every replica added from now on. Returns a function that stops it. */
  onPut(listen: (copy: PartReplica) => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }
}
