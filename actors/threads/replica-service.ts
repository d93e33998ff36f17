// Replica service: the work of a bridge's thread for checkpoints in memory
// (storage/checkpoints/replicas/replica-cache.ts). It serves other hosts from the replicas of this
// host, and fetches two kinds of replicas: before a restore, the files that the devices of this
// host read; after each commit, the parts of this host and of the next host of the generation,
// whose buddy it is.
//
// Invariants
//   P1. Devices always get the state of every file that they await: `there`, or `nowhere`.
//   P2. Only the newest checkpoint counts: fetching for an older one is abandoned, or not begun.

import { type Cells, nobody } from "../../src/exchange/cells.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { subjectOf } from "../../src/wire/messages/subjects.ts";
import type { Subscription, Transport } from "../../src/wire/messages/transport.ts";
import {
  keyOf,
  type NamedFile,
  type PartReplica,
  ReplicaCache,
} from "../../storage/checkpoints/replicas/replica-cache.ts";
import {
  fetchReplica,
  serveReplicas,
} from "../../storage/checkpoints/replicas/replica-transfer.ts";
import { awaitedStates } from "../../storage/checkpoints/replicas/restore-source.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import { manifestSchema } from "../../storage/checkpoints/store/manifest.ts";
import { filesOfHost } from "./generation-layout.ts";
import type { Generation } from "./generation-memory.ts";
import { hostPlaces } from "./generation-spec.ts";

/** Commands to the thread, from the bridge. */
export type ReplicaCommand =
  /** A writer of this host has written this file. */
  | { readonly type: "copy"; readonly copy: PartReplica }
  /** This checkpoint was committed, or is being restored. `manifest`: as JSON. */
  | { readonly type: "keep"; readonly manifest: string }
  /** The hosts at these positions leave: their silence is no failure. */
  | { readonly type: "left"; readonly positions: readonly number[] };

/** Reports of the thread to the bridge. */
export type ReplicaReport =
  /** The replica came from another host, or from a device that read it from the store. */
  | { readonly type: "copy"; readonly copy: PartReplica }
  /** This host has its replicas of a checkpoint, except for `missing` files. */
  | {
      readonly type: "kept";
      readonly manifest: string;
      readonly cut: number;
      readonly files: readonly NamedFile[];
      readonly missing: number;
    }
  /** The manifest of a command could not be read. */
  | { readonly type: "corrupt"; readonly reason: string };

export interface ReplicaServiceOptions {
  readonly generation: Generation;
  /** Index of this host among the hosts of the generation. */
  readonly position: number;
  readonly cluster: string;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Cells of the bridge's participant. */
  readonly cells: Cells;
  /** Replicas that this host already has. */
  readonly replicas: readonly PartReplica[];
  take(): ReplicaCommand | undefined;
  report(report: ReplicaReport): void;
  /** Expects no further frame of the host at this position. */
  letGo(position: number): void;
}

/** Interval between requests for a file that no host has yet. */
const againMs = 250;

/** Runs until the generation ends, then throws GenerationAbortedError. */
export async function runReplicaService(options: ReplicaServiceOptions): Promise<never> {
  const replicating = new ReplicaService(options);
  try {
    return await replicating.run();
  } finally {
    replicating.close();
  }
}

class ReplicaService {
  readonly #options: ReplicaServiceOptions;
  readonly #replicas: ReplicaCache;
  readonly #serving: Subscription;
  readonly #others: readonly string[];
  readonly #own: readonly number[];
  /** Index of each file that devices await. */
  readonly #awaited: ReadonlyMap<string, number>;
  #pieces = 0;
  #isOver = false;
  /** The manifest that is being replicated, or was last. P2 */
  #kept: Pick<Manifest, "sha256" | "cut"> = { sha256: "", cut: -1 };
  /** Its text, by which a repeated request is recognised. */
  #keptText = "";
  #report: ReplicaReport | undefined;

  constructor(options: ReplicaServiceOptions) {
    this.#options = options;
    const { generation, position, transport } = options;
    const { spec } = generation;
    const places = hostPlaces(spec);
    const { first = 0, count = 0 } = places[position] ?? {};
    const { awaited } = generation.memory.replicas;
    this.#awaited = new Map(awaited.map((copy, at) => [keyOf(copy), at]));
    this.#own = Array.from({ length: count }, (_, i) => first + i);
    // The next host comes first, because it has the parts to fetch.
    this.#others = places
      .slice(1)
      .map((_, i) => this.#subjectOf((position + 1 + i) % places.length));
    this.#replicas = new ReplicaCache(generation.memory.replicaBytes);
    for (const copy of options.replicas) this.#replicas.put(copy);
    this.#serving = serveReplicas(transport, this.#subjectOf(position), (file) => {
      this.#takeCommands(); // Includes replicas that writers have just reported.
      return this.#replicas.get(file);
    });
  }

  async run(): Promise<never> {
    const { cells } = this.#options;
    const gathering = this.#gather();
    const commands = async (): Promise<never> => {
      for (;;)
        await cells.waitUntil(
          () => "a command",
          () => this.#takeCommands(),
          nobody,
        );
    };
    const [ended] = await Promise.all([commands(), gathering]);
    return ended;
  }

  close(): void {
    this.#isOver = true;
    this.#serving.unsubscribe();
  }

  /** P1. Fetches the awaited files, and reports the state of each to the devices. */
  async #gather(): Promise<void> {
    const { generation, cells } = this.#options;
    const { layout, memory } = generation;
    const base = layout.replicaCellBase;
    for (const [at, copy] of memory.replicas.awaited.entries()) {
      const isThere = await this.#fetch(copy, () => {
        this.#pieces++;
        cells.store(base, this.#pieces, this.#own);
      });
      if (isThere) this.#put(copy);
      const state = isThere ? awaitedStates.arrived : awaitedStates.nowhere;
      cells.store(base + 1 + at, state, this.#own);
    }
  }

  /** Fetches a replica from any other host. Returns whether one had it. */
  async #fetch(copy: PartReplica, onPiece: () => void = () => {}): Promise<boolean> {
    const { transport, clock, generation } = this.#options;
    const patienceMs = generation.spec.job.stepDeadlineMs / 4;
    const isOver = () => this.#isOver;
    for (const subject of this.#others) {
      const how = { transport, subject, clock, patienceMs, isOver, onPiece };
      if ((await fetchReplica(copy, how)) === "there") return true;
    }
    return false;
  }

  #put(copy: PartReplica): void {
    this.#replicas.put(copy);
    this.#options.report({ type: "copy", copy });
  }

  /** Executes pending commands. Always false: the wait for commands never ends by itself. */
  #takeCommands(): false {
    const { take, report, letGo } = this.#options;
    for (let command = take(); command !== undefined; command = take()) {
      if (command.type === "copy") this.#replicas.put(command.copy);
      else if (command.type === "left") command.positions.forEach(letGo);
      else if (command.manifest === this.#keptText) {
        if (this.#report !== undefined) report(this.#report);
      } else {
        const manifest = this.#read(command.manifest);
        if (manifest === undefined || manifest.cut <= this.#kept.cut) continue;
        this.#keptText = command.manifest;
        void this.#keep(manifest);
      }
    }
    return false;
  }

  #read(text: string): Manifest | undefined {
    try {
      return manifestSchema.parse(JSON.parse(text));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.report({ type: "corrupt", reason });
      return undefined;
    }
  }

  async #keep(manifest: Manifest): Promise<void> {
    const { generation, position, clock, report } = this.#options;
    const { spec, layout } = generation;
    this.#kept = manifest;
    this.#report = undefined;
    const places = hostPlaces(spec);
    const mine = [places[position], places[(position + 1) % places.length]];
    const all = mine.flatMap((place) => (place ? filesOfHost(layout, place, manifest) : []));
    const files = [...new Map(all.map((file) => [keyOf(file), file])).values()];
    const untilMs = clock.now() + spec.job.stepDeadlineMs;
    let missing = files;
    for (;;) {
      missing = await this.#missingOf(missing);
      if (this.#isOver || this.#kept.sha256 !== manifest.sha256) return; // P2
      if (missing.length === 0 || clock.now() >= untilMs) break;
      await new Promise<void>((resume) => clock.after(againMs, resume));
    }
    const { sha256, cut } = manifest;
    this.#replicas.retain(files, cut - 1); // Parts of this cut that were handed over stay.
    this.#report = { type: "kept", manifest: sha256, cut, files, missing: missing.length };
    report(this.#report);
  }

  /** Fetches replicas; returns the files that no host had, or for which this host has no room. */
  async #missingOf(files: readonly NamedFile[]): Promise<NamedFile[]> {
    const missing: NamedFile[] = [];
    for (const file of files) {
      if (this.#isOver || this.#replicas.get(file) !== undefined) continue;
      const read = this.#readByDevice(file);
      if (read !== undefined) this.#put(read);
      else if (!this.#replicas.hasRoom(file)) missing.push(file);
      else {
        const copy = { ...file, memory: new SharedArrayBuffer(file.bytes) };
        if (await this.#fetch(copy)) this.#put(copy);
        else missing.push(file);
      }
    }
    return missing;
  }

  /** The replica of a file that a device of this host has read from the store. */
  #readByDevice(file: NamedFile): PartReplica | undefined {
    const { awaited, filled } = this.#options.generation.memory.replicas;
    const at = this.#awaited.get(keyOf(file));
    if (at === undefined || Atomics.load(new Int32Array(filled), at) !== 1) return undefined;
    return awaited[at];
  }

  #subjectOf(position: number): string {
    const {
      generation: { spec },
      cluster,
    } = this.#options;
    const { run, generation } = spec;
    return subjectOf({
      cluster,
      run,
      generation,
      role: "copies",
      index: position,
      action: "fetch",
    });
  }
}
