// The simulated machine: one disk shared by all processes, and a bucket elsewhere, which no power
// failure reaches. Each process and each thread has its own view of both, which refuses a dead
// owner and injects faults. An operation takes time only where the scenario makes the disk or the
// bucket slow.
//
// Invariants
//   M1. When power is lost, every process is killed before any other event.

import type { StoreRequest } from "../../src/objects/requests.ts";
import type { StoreLimits } from "../../src/objects/rules.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { SimulatedCrash, SimulatedDisk } from "../../src/ports/simulated-disk.ts";
import { BucketMachine } from "../objects/bucket-machine.ts";
import { MemoryBucket, type StoreFault } from "../objects/memory-bucket.ts";
import type { World } from "./world.ts";

/** Fault of one disk operation. */
export type DiskFault = "ENOSPC" | "EIO" | "power";

/**
 * The fault of a request to the bucket. `crash`: power is lost, and the request is never carried
 * out (`lost`), carried out before (`done`), or after `after` later requests (`late`).
 */
export type RequestFault =
  | StoreFault
  | { readonly kind: "crash"; readonly request: "lost" | "done" }
  | { readonly kind: "crash"; readonly request: "late"; readonly after: number };

/**
 * An operation, as input of fault injection. Opening for reading counts as `read`. A request to the
 * bucket is `request`, or `ask` if it changes nothing; its path is the key.
 */
export interface DiskOperation {
  readonly kind:
    | ("open" | "write" | "read" | "sync" | "rename" | "remove" | "truncate" | "make")
    | ("request" | "ask");
  readonly path: string;
  readonly process: string;
  /** Time on the owner's clock, which may be ahead for a thread. */
  readonly atMs: number;
}

/** Owner of a view of the disk: a process, or one of its threads. */
export interface DiskOwner {
  readonly id: string;
  readonly isOver: boolean;
  /** Time on the owner's clock. */
  nowMs(): number;
  /** Adds the time that an operation took to the owner's clock. */
  spend(ms: number): void;
}

/** Few attempts, so that faults outlast them. */
const storeLimits: StoreLimits = { attemptsMax: 4, attemptMs: 400, backoffMs: 10 };

export class SimulatedMachine {
  /** Direct access to the disk and the bucket, without faults. */
  readonly disk: SimulatedDisk & Required<Pick<Disk, "objects">>;
  readonly bucket = new MemoryBucket("bucket", { listLag: 3 });
  readonly #world: World;
  readonly #onPower = new Set<(power: "lost" | "back") => void>();
  readonly #onDone = new Set<(operation: DiskOperation) => void>();
  /** Decides the fault of each operation. */
  faultOf: (operation: DiskOperation) => DiskFault | undefined = () => undefined;
  /** Decides the fault of each request to the bucket. */
  requestFaultOf: (operation: DiskOperation) => RequestFault | undefined = () => undefined;
  /** Decides the duration of each operation. */
  costOf: (operation: DiskOperation) => number = () => 0;

  constructor(world: World, seed: number) {
    this.#world = world;
    const { objects } = new BucketMachine(this.bucket);
    this.disk = Object.assign(new SimulatedDisk({ seed }), { objects });
  }

  /**
   * Calls `listener` before power is lost, to kill processes, and after it is back, to inspect the
   * disk.
   */
  onPower(listener: (power: "lost" | "back") => void): void {
    this.#onPower.add(listener);
  }

  /** Calls `listener` after each operation that changed the disk. */
  onDone(listener: (operation: DiskOperation) => void): void {
    this.#onDone.add(listener);
  }

  losePower(): void {
    this.#world.note("machine", "loses power");
    for (const listener of this.#onPower) listener("lost"); // M1
    this.disk.crash();
    for (const listener of this.#onPower) listener("back");
  }

  /** The view of the disk of `owner`, which is `process` or one of its threads. */
  diskOf(process: DiskOwner, owner: DiskOwner): Disk {
    const { disk } = this;
    const writer = owner.id;
    const act = <Result>(kind: DiskOperation["kind"], path: string, run: () => Result): Result => {
      if (process.isOver || owner.isOver)
        throw new SimulatedCrash(`the process ${writer} has exited`);
      const operation = { kind, path, process: process.id, atMs: owner.nowMs() };
      owner.spend(this.costOf(operation));
      const fault = this.faultOf(operation);
      if (fault === undefined) this.#world.count(writer, `${kind} ${path}`);
      else this.#world.note(writer, `is refused ${kind} ${path}: ${fault}`);
      if (fault === "power") {
        disk.crashAt(1);
        try {
          run();
        } finally {
          this.losePower();
        }
        throw new SimulatedCrash(`${writer} has lost power`);
      }
      if (fault !== undefined) throw refusal(fault, kind, path);
      const result = run();
      if (kind !== "read") for (const listener of this.#onDone) listener(operation);
      return result;
    };
    const isEnded = () => process.isOver || owner.isOver;
    const objects = this.#objectsOf(owner, { writer, process: process.id, isEnded });
    const fileOf = (file: DiskFile): DiskFile => ({
      path: file.path,
      write: (bytes, offset) => act("write", file.path, () => file.write(bytes, offset)),
      read: (bytes, offset) => act("read", file.path, () => file.read(bytes, offset)),
      readLater: async (bytes, offset) => act("read", file.path, () => file.read(bytes, offset)),
      size: () => file.size(),
      truncate: (size) => act("truncate", file.path, () => file.truncate(size)),
      sync: () => act("sync", file.path, () => file.sync()),
      synced: async () => act("sync", file.path, () => file.sync()),
      close: () => file.close(),
    });
    return {
      writer: writer.replaceAll("/", "-"),
      open: (path, mode) =>
        fileOf(act(mode === "read" ? "read" : "open", path, () => disk.open(path, mode))),
      get boot() {
        return disk.boot;
      },
      isGone: () => disk.isGone(),
      modifiedMs: (path) => disk.modifiedMs(path),
      touch: (path) => disk.touch(path),
      exists: (path) => disk.exists(path),
      list: (directory) => disk.list(directory),
      makeDirectory: (path) => act("make", path, () => disk.makeDirectory(path)),
      rename: (from, to) => act("rename", to, () => disk.rename(from, to)),
      remove: (path) => act("remove", path, () => disk.remove(path)),
      syncDirectory: (path) => act("sync", path, () => disk.syncDirectory(path)),
      objects,
    };
  }

  /** The view of the bucket of an owner. */
  #objectsOf(
    owner: DiskOwner,
    of: { readonly writer: string; readonly process: string; isEnded(): boolean },
  ): NonNullable<Disk["objects"]> {
    const { writer, process, isEnded } = of;
    const operationOf = ({ method, key }: StoreRequest): DiskOperation => {
      const kind = method === "GET" ? "ask" : "request";
      return { kind, path: key, process, atMs: owner.nowMs() };
    };
    return new BucketMachine(this.bucket, {
      limits: storeLimits,
      spend: (ms) => owner.spend(ms),
      before: (request) => {
        if (isEnded()) throw new SimulatedCrash(`the process ${writer} has exited`);
        const operation = operationOf(request);
        const fault = this.requestFaultOf(operation);
        const asked = `${request.method} ${request.key}`;
        if (fault === undefined) this.#world.count(writer, asked);
        else this.#world.note(writer, `${asked}: ${JSON.stringify(fault)}`);
        if (fault?.kind !== "crash") {
          if (fault !== undefined) this.bucket.fault(1, fault);
          return;
        }
        if (fault.request === "late") {
          this.bucket.fault(1, { kind: "delayed", after: fault.after });
        }
        if (fault.request !== "lost") this.bucket.answer(request);
        this.losePower();
        throw new SimulatedCrash(`${writer} has lost power`);
      },
      after: (request) => {
        const operation = operationOf(request);
        if (operation.kind === "ask") return;
        for (const listener of this.#onDone) listener(operation);
      },
    }).objects;
  }
}

function refusal(code: string, action: string, path: string): NodeJS.ErrnoException {
  const error = new Error(`${code}: ${action} '${path}'`);
  return Object.assign(error, { code, syscall: action, path });
}
