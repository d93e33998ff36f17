// A disk in memory that can lose power. It keeps two states: the live state, which a process sees,
// and the durable state, which survives a power failure. The simulator and crash tests use it.
//
// Invariants
//   S1. The bytes of a file survive only after `sync` of that file.
//   S2. A creation, renaming or removal survives only after `syncDirectory` of its directory.
//   S3. Without a seed, all unsynced changes are lost. With a seed, each write and each change of a
//       name survives, is lost, or (a write) is torn, independently and in no order, as in a real
//       cache.
//   S4. Between the crashed operation and `crash()` every call fails, so that no `finally` block of
//       the crashed process can change the disk.

import type { Disk, DiskFile, OpenMode } from "./disk.ts";
import { purposes, RandomStream } from "./random.ts";

/** Thrown by the operation that lost power, and by every later call of the crashed process. */
export class SimulatedCrash extends Error {
  override readonly name = "SimulatedCrash";
}

/** One unsynced change of a file. A truncation has no bytes. */
interface Change {
  readonly at: number;
  readonly bytes: Uint8Array | undefined;
}

interface FileNode {
  readonly kind: "file";
  live: Uint8Array;
  size: number;
  durable: Uint8Array;
  unsynced: Change[];
}

interface DirectoryNode {
  readonly kind: "directory";
  live: Map<string, Node>;
  readonly durable: Map<string, Node>;
}

type Node = FileNode | DirectoryNode;

/** Names that change together, as in a rename. Without a node, the name is removed. */
type Renaming = readonly { directory: DirectoryNode; name: string; node: Node | undefined }[];

/** A `Disk` in memory that loses power on request. Errors carry Node's codes. */
export class SimulatedDisk implements Disk {
  readonly writer = "simulated";
  readonly #root: DirectoryNode = newDirectory();
  readonly #random: RandomStream | undefined;
  #journal: Renaming[] = [];
  #operations = 0;
  #crashAt = Number.POSITIVE_INFINITY;
  #failAt = { operation: Number.POSITIVE_INFINITY, code: "" };
  #boot = 0;
  #isDown = false;

  /** Without a seed, a crash happens before its operation and loses all unsynced changes. */
  constructor(options: { seed?: number } = {}) {
    if (options.seed !== undefined) this.#random = new RandomStream(options.seed, purposes.faults);
  }

  get boot(): string {
    return `boot-${this.#boot}`;
  }

  /** Number of operations that changed the disk so far. */
  get operations(): number {
    return this.#operations;
  }

  /** Loses power in the `operation`-th mutating operation from now (1 is the next). */
  crashAt(operation: number): void {
    this.#crashAt = this.#operations + operation;
  }

  /** Fails the `operation`-th mutating operation from now, once, with an error of code `code`. */
  failAt(operation: number, code: string): void {
    this.#failAt = { operation: this.#operations + operation, code };
  }

  /** Cuts the power and restores it: unsynced changes are lost (S3), open files become invalid. */
  crash(): void {
    for (const renaming of this.#journal) if (this.#survives()) apply(renaming, "durable");
    this.#journal = [];
    this.#forget(this.#root);
    this.#boot++;
    this.#crashAt = Number.POSITIVE_INFINITY;
    this.#isDown = false;
  }

  /** The paths of all files, in order. */
  files(): string[] {
    const within = (path: string, { live }: DirectoryNode): string[] =>
      [...live.keys()].sort().flatMap((name) => {
        const node = live.get(name);
        const below = `${path}/${name}`;
        return node?.kind === "directory" ? within(below, node) : [below];
      });
    return within("", this.#root);
  }

  /** Flips a bit of a file in both states. Returns false if the file is empty. */
  flipBit(path: string, bit: number): boolean {
    const node = this.#find(path);
    if (node?.kind !== "file" || node.size === 0) return false;
    const at = bit % (8 * node.size);
    for (const bytes of new Set([node.live, node.durable])) {
      const byte = bytes[at >> 3];
      if (byte !== undefined) bytes[at >> 3] = byte ^ (1 << (at & 7));
    }
    return true;
  }

  open(path: string, mode: OpenMode): DiskFile {
    this.#checkPower(this.#boot);
    const { directory, name } = this.#parent(path, "open");
    const found = directory.live.get(name);
    if (found?.kind === "directory") throw failure("EISDIR", "open", path);
    if (mode === "exclusive" && found !== undefined) throw failure("EEXIST", "open", path);
    if (mode === "read" || mode === "update") {
      if (found === undefined) throw failure("ENOENT", "open", path);
      return this.#handle(path, found, mode === "update");
    }
    const file = found ?? newFile();
    this.#mutate(path, () => {
      if (found === undefined) this.#rename([{ directory, name, node: file }]);
      else change(file, { at: 0, bytes: undefined });
    });
    return this.#handle(path, file, true);
  }

  isGone(): boolean {
    return false; // The writers of a simulated disk have no processes.
  }

  /** A simulated disk has no clock, so all files have the same time. */
  modifiedMs(path: string): number {
    if (!this.exists(path)) throw failure("ENOENT", "stat", path);
    return 0;
  }

  touch(path: string): void {
    if (!this.exists(path)) throw failure("ENOENT", "utime", path);
  }

  exists(path: string): boolean {
    this.#checkPower(this.#boot);
    return this.#find(path) !== undefined;
  }

  list(directory: string): string[] {
    this.#checkPower(this.#boot);
    const node = this.#find(directory);
    if (node?.kind === "file") throw failure("ENOTDIR", "scandir", directory);
    return node === undefined ? [] : [...node.live.keys()].sort();
  }

  makeDirectory(path: string): void {
    this.#checkPower(this.#boot);
    let directory = this.#root;
    for (const name of namesOf(path)) {
      const within = directory;
      const node = within.live.get(name) ?? newDirectory();
      if (node.kind === "file") throw failure("ENOTDIR", "mkdir", path);
      if (!within.live.has(name)) {
        this.#mutate(path, () => this.#rename([{ directory: within, name, node }]));
      }
      directory = node;
    }
  }

  rename(from: string, to: string): void {
    this.#checkPower(this.#boot);
    const source = this.#parent(from, "rename");
    const target = this.#parent(to, "rename");
    const node = source.directory.live.get(source.name);
    if (node === undefined) throw failure("ENOENT", "rename", from);
    this.#mutate(to, () => {
      this.#rename([
        { ...source, node: undefined },
        { ...target, node },
      ]);
    });
  }

  remove(path: string): void {
    this.#checkPower(this.#boot);
    const node = this.#find(path);
    if (node === undefined) return;
    // One operation per file, as power can fail between any two.
    if (node.kind === "directory") {
      for (const name of [...node.live.keys()].sort()) this.remove(`${path}/${name}`);
    }
    const { directory, name } = this.#parent(path, "rm");
    this.#mutate(path, () => this.#rename([{ directory, name, node: undefined }]));
  }

  syncDirectory(path: string): void {
    this.#checkPower(this.#boot);
    const node = this.#find(path);
    if (node?.kind !== "directory") throw failure("ENOENT", "fsync", path);
    this.#mutate(path, () => {
      const [settled, waiting]: [Renaming[], Renaming[]] = [[], []];
      for (const renaming of this.#journal) {
        (renaming.some((one) => one.directory === node) ? settled : waiting).push(renaming);
      }
      for (const renaming of settled) apply(renaming, "durable"); // S2
      this.#journal = waiting;
    });
  }

  #handle(path: string, file: FileNode, mayWrite: boolean): DiskFile {
    const boot = this.#boot;
    let isOpen = true;
    const use = (action: string, isWrite: boolean) => {
      this.#checkPower(boot);
      if (!isOpen || (isWrite && !mayWrite)) throw failure("EBADF", action, path);
    };
    const sync = () => {
      use("fsync", false);
      this.#mutate(path, () => {
        file.durable = file.live.slice(0, file.size); // S1
        file.unsynced = [];
      });
    };
    const read = (bytes: Uint8Array, offset: number) => {
      use("read", false);
      const found = file.live.subarray(Math.min(offset, file.size), file.size);
      const count = Math.min(found.length, bytes.length);
      bytes.set(found.subarray(0, count));
      return count;
    };
    return {
      path,
      write: (bytes, offset) => {
        use("write", true);
        const write = (length: number) =>
          change(file, { at: offset, bytes: bytes.slice(0, length) });
        const torn = () => write(this.#random?.below(bytes.length + 1) ?? 0);
        this.#mutate(path, () => write(bytes.length), torn);
      },
      read,
      readLater: async (bytes, offset) => read(bytes, offset),
      size() {
        use("fstat", false);
        return file.size;
      },
      truncate: (size) => {
        use("ftruncate", true);
        this.#mutate(path, () => change(file, { at: size, bytes: undefined }));
      },
      sync,
      synced: async () => sync(),
      close() {
        isOpen = false;
      },
    };
  }

  /** Counts and runs one operation, or loses power before, in the middle of, or after it. */
  #mutate(path: string, run: () => void, tear: () => void = run): void {
    this.#operations++;
    if (this.#operations === this.#failAt.operation) {
      throw failure(this.#failAt.code, "write", path);
    }
    if (this.#operations < this.#crashAt) {
      run();
      return;
    }
    if (this.#survives()) tear();
    this.#isDown = true; // S4
    throw new SimulatedCrash(`Lost power in operation ${this.#operations}, at ${path}`);
  }

  #checkPower(boot: number): void {
    if (this.#isDown || boot !== this.#boot) throw new SimulatedCrash("The disk has lost power");
  }

  #survives(): boolean {
    return this.#random !== undefined && this.#random.below(2) === 1;
  }

  #rename(renaming: Renaming): void {
    apply(renaming, "live");
    this.#journal.push(renaming);
  }

  /** Resets a directory and its contents to the durable state. */
  #forget(directory: DirectoryNode): void {
    directory.live = new Map(directory.durable);
    for (const node of directory.live.values()) {
      if (node.kind === "directory") this.#forget(node);
      else this.#settle(node);
    }
  }

  #settle(file: FileNode): void {
    const waiting = file.unsynced;
    file.live = file.durable;
    file.size = file.durable.length;
    for (const one of waiting) {
      if (!this.#survives()) continue;
      const torn = one.bytes?.slice(0, this.#random?.below(one.bytes.length + 1));
      change(file, { at: one.at, bytes: this.#survives() ? one.bytes : torn });
    }
    file.durable = file.live.slice(0, file.size);
    file.unsynced = [];
  }

  #find(path: string): Node | undefined {
    let node: Node | undefined = this.#root;
    for (const name of namesOf(path)) {
      node = node?.kind === "directory" ? node.live.get(name) : undefined;
    }
    return node;
  }

  #parent(path: string, action: string): { directory: DirectoryNode; name: string } {
    const names = namesOf(path);
    const name = names.pop();
    const directory = this.#find(names.join("/"));
    if (name === undefined || directory === undefined) throw failure("ENOENT", action, path);
    if (directory.kind === "file") throw failure("ENOTDIR", action, path);
    return { directory, name };
  }
}

function newFile(): FileNode {
  const empty = new Uint8Array(0);
  return { kind: "file", live: empty, size: 0, durable: empty, unsynced: [] };
}

function newDirectory(): DirectoryNode {
  return { kind: "directory", live: new Map(), durable: new Map() };
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

function apply(renaming: Renaming, state: "live" | "durable"): void {
  for (const { directory, name, node } of renaming) {
    if (node === undefined) directory[state].delete(name);
    else directory[state].set(name, node);
  }
}

/** Applies a change to the live state, and records it as unsynced. */
function change(file: FileNode, made: Change): void {
  const end = made.at + (made.bytes?.length ?? 0);
  if (made.bytes === undefined) file.live = file.live.slice(0, Math.min(end, file.size));
  if (end > file.live.length) {
    const grown = new Uint8Array(Math.max(end, file.live.length * 2));
    grown.set(file.live.subarray(0, file.size));
    file.live = grown;
  }
  if (made.bytes !== undefined) file.live.set(made.bytes, made.at);
  file.size = made.bytes === undefined ? end : Math.max(file.size, end);
  file.unsynced.push(made);
}

function failure(code: string, action: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${action} '${path}'`), { code, syscall: action, path });
}
