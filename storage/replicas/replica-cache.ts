// Copies: files of the newest checkpoint's parts in the memory of a host, its own share and that of
// the host whose buddy it is. They say nothing about which checkpoint counts (law 6): that the
// store says, and a copy spares reading it.
//
// Invariants
//   Y1. A copy is known by its part's name and the hash that the manifest has of it: one of another
//       checkpoint, or of a writer that was fenced, is asked for by nobody.
//   Y2. No more than `bytesMax` are held; what does not fit lies in the store alone.

import type { BasePart, Manifest, PartRecord } from "../checkpoint-store/checkpoint-store.ts";

/** A file of a part, as a manifest names it. */
export interface NamedFile extends BasePart {
  readonly name: string;
}

/** Its bytes. Written once, and then by nobody. */
export interface PartCopy extends NamedFile {
  readonly memory: SharedArrayBuffer;
}

/** The files that a part is made of, newest first. */
export function filesOfPart(
  { cut, generation }: Pick<Manifest, "cut" | "generation">,
  { name, bytes, sha256, base }: PartRecord,
): NamedFile[] {
  const own = { name, cut, generation, bytes, sha256 };
  return [own, ...[...base].reverse().map((file) => ({ name, ...file }))];
}

/** All files that the parts of these names are made of. */
export function filesOfParts(manifest: Manifest, names: readonly string[]): NamedFile[] {
  const parts = manifest.parts.filter(({ name }) => names.includes(name));
  return parts.flatMap((part) => filesOfPart(manifest, part));
}

/** Y1 */
export function keyOf({ name, sha256 }: Pick<NamedFile, "name" | "sha256">): string {
  return `${name} ${sha256}`;
}

export class Copies {
  readonly bytesMax: number;
  #bytes = 0;
  readonly #copies = new Map<string, PartCopy>();
  readonly #listeners = new Set<(copy: PartCopy) => void>();

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#bytes;
  }

  all(): PartCopy[] {
    return [...this.#copies.values()];
  }

  get(file: Pick<NamedFile, "name" | "sha256">): PartCopy | undefined {
    return this.#copies.get(keyOf(file));
  }

  /** Whether a file of this size has room. Y2 */
  hasRoom({ bytes }: Pick<NamedFile, "bytes">): boolean {
    return this.#bytes + bytes <= this.bytesMax;
  }

  /** Holds a copy, where it has room. */
  put(copy: PartCopy): void {
    if (this.#copies.has(keyOf(copy)) || !this.hasRoom(copy)) return;
    this.#copies.set(keyOf(copy), copy);
    this.#bytes += copy.bytes;
    for (const listen of this.#listeners) listen(copy);
  }

  /** Lets go of all but these, and of what belongs to a cut after `cut`, which is on its way. */
  retain(files: readonly NamedFile[], cut: number): void {
    const kept = new Set(files.map(keyOf));
    for (const [key, copy] of this.#copies) {
      if (kept.has(key) || copy.cut > cut) continue;
      this.#copies.delete(key);
      this.#bytes -= copy.bytes;
    }
  }

  /** Tells of every copy that comes from now on. */
  onPut(listen: (copy: PartCopy) => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }
}
