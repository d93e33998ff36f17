// The safety monitor of a simulation: checks invariants whenever the checkpoint store has changed,
// and reads the store without faults. The reference run is the same job without faults.
//
// Invariants that it checks
//   S1. Every checkpoint of the chain equals that of the reference run at the same cut, byte for
//       byte.
//   S2. A checkpoint reported as committed is never lost nor skipped for an older one, except one
//       with a damaged file.
//   S3. A generation has one writer: only the process that claimed it commits under it.
//   S4. In the lineage of the final model, each sample of each epoch was trained once; unknown
//       where a file was damaged.
//   S5. A client receives the events of a run in order, numbered without gaps except those that
//       run.renumbered announces.

import { basename, dirname } from "node:path";
import type { RunEvent } from "../../actors/run/state/run-events.ts";
import type { RunResult } from "../../actors/run/state/run-result.ts";
import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import { resolveJob } from "../../src/job/job.ts";
import { scheduleOf } from "../../src/training/loop/schedule.ts";
import {
  epochOrderOf,
  type Stretch,
  sampleLedger,
} from "../../storage/checkpoints/sample-ledger.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import {
  manifestName,
  parseCheckpointName,
  parseGenerationName,
  pathsOf,
} from "../../storage/checkpoints/store/store-paths.ts";
import type { SimulatedCluster } from "./cluster.ts";
import { storedDirectory } from "./jobs.ts";
import type { DiskOperation } from "./machine.ts";

/** The reference run: the job without faults. */
export interface ReferenceRun {
  /** Model digest after each step. */
  readonly digests: ReadonlyMap<number, string>;
  readonly result: RunResult;
}

/** A violated safety invariant. */
export class SafetyError extends Error {
  override readonly name = "SafetyError";
}

export class Monitor {
  readonly #cluster: SimulatedCluster;
  /** Directory or address of the checkpoints. */
  readonly #directory: string;
  /** Undefined while the reference run itself is simulated. */
  readonly #reference: ReferenceRun | undefined;
  readonly #writers = new Map<number, string>();
  /** Every manifest that was ever on the chain, by hash, with the first step of its generation. */
  readonly #lineage = new Map<string, { readonly manifest: Manifest; readonly begin: number }>();
  /** Digest of each cut reported to the client. */
  readonly digests = new Map<number, string>();
  #committed = 0;
  /** Records in the bucket that were checked. */
  #records = 0;
  /** Number of the last received event, by run. */
  readonly #received = new Map<string, number>();

  constructor(cluster: SimulatedCluster, reference: ReferenceRun | undefined) {
    this.#cluster = cluster;
    this.#reference = reference;
    this.#directory = cluster.job.checkpoint?.directory ?? "";
    const guarded = (check: () => void) => {
      try {
        check();
      } catch (error) {
        cluster.world.crash ??= { where: "monitor", error };
      }
    };
    cluster.machine.onDone((operation) => guarded(() => this.#disk(operation)));
    cluster.machine.onPower((power) => {
      if (power === "back") guarded(() => this.#powerIsBack());
    });
    cluster.onEvent((event) => guarded(() => this.#receive(event)));
  }

  /** Checks the store. @throws SafetyError */
  check(): void {
    try {
      this.#check();
    } catch (error) {
      // The reader of the damaged file reports it too, and the run ends with this error.
      if (!this.#cluster.isDamaged || !(error instanceof CheckpointCorruptError)) throw error;
    }
  }

  #check(): void {
    const { disk } = this.#cluster.machine;
    const isStored = this.#directory === storedDirectory;
    if (isStored) this.#checkWriters();
    if (isStored ? this.#records === 0 : !disk.exists(`${this.#directory}/job.json`)) return;
    const store = openExistingStore(this.#directory, disk);
    const { manifests, damaged } = store.list();
    if (damaged[0] !== undefined && !this.#cluster.isDamaged) {
      throw new SafetyError(`${damaged[0].path} is damaged: ${damaged[0].reason}`);
    }
    for (const manifest of manifests) {
      this.#sameAsReference(manifest.cut, manifest.modelDigest); // S1
      if (this.#lineage.has(manifest.sha256)) continue;
      const begin = store.beginOf(manifest.generation) ?? 0;
      this.#lineage.set(manifest.sha256, { manifest, begin });
    }
    const newest = manifests[0]?.cut ?? 0;
    if (newest < this.#committed && !this.#cluster.isDamaged) {
      throw new SafetyError(`cut ${this.#committed} was committed, and the newest is ${newest}`); // S2
    }
  }

  /** S3, of the records in the bucket: each names its writer. */
  #checkWriters(): void {
    const { bucket } = this.#cluster.machine;
    const keys = bucket.keys.filter((key) => key.startsWith("run/log/0"));
    for (const key of keys.slice(this.#records)) {
      const record = JSON.parse(new TextDecoder().decode(bucket.bytesOf(key)));
      const [writer = ""] = String(record.writer).split(" ");
      const { kind, generation } = record;
      if (kind === "generation") this.#writers.set(generation, writer);
      const owner = this.#writers.get(generation);
      if (owner !== writer) {
        throw new SafetyError(`${writer} adds ${key} to generation ${generation} of ${owner}`);
      }
    }
    this.#records = keys.length;
  }

  /** Checks the result of the job. @throws SafetyError */
  checkResult(result: RunResult): void {
    this.check();
    const reference = this.#reference?.result;
    if (reference === undefined) return;
    const parts = (one: RunResult) =>
      JSON.stringify([one.status, one.step, one.digest, one.history]);
    if (parts(result) !== parts(reference)) {
      throw new SafetyError(
        `the job ended with ${parts(result)}, the reference run with ${parts(reference)}`,
      );
    }
    if (!this.#cluster.isDamaged) this.#checkLedger(result); // S4
  }

  /** Follows the manifests back from the last one, and counts how often each sample was trained. */
  #checkLedger({ manifest: newest, step }: RunResult): void {
    const stretches: Stretch[] = [];
    for (let hash: string | undefined = newest; hash !== undefined; ) {
      const link = this.#lineage.get(hash);
      if (link === undefined) throw new SafetyError(`manifest ${hash} was never on the chain`);
      const { manifest, begin } = link;
      const parent = this.#lineage.get(manifest.parent?.sha256 ?? "")?.manifest;
      const { generation, cut: to } = manifest;
      stretches.unshift({
        generation,
        to,
        from: parent?.generation === generation ? parent.cut : begin,
      });
      hash = manifest.parent?.sha256;
    }
    const job = resolveJob(this.#cluster.job);
    const prepared = this.#cluster.events.find((event) => event.type === "run.prepared");
    const { batchSize, passes } = job.data;
    const schedule = scheduleOf({ samples: prepared?.samples ?? 0, batchSize, passes });
    const metrics = this.#lineage.get(newest)?.manifest.metrics;
    const ledger = sampleLedger(stretches, schedule, epochOrderOf(job, metrics));
    const wrong = ledger.find(({ samples, once }) => once !== samples);
    if (wrong === undefined && schedule.steps === step) return;
    throw new SafetyError(
      `a sample was not trained exactly once: ${JSON.stringify([ledger, stretches])}`,
    );
  }

  #receive(event: RunEvent): void {
    const { run, seq } = event;
    const isSaid = event.type === "run.renumbered" && event.first === seq && event.last < seq;
    const next = (this.#received.get(run) ?? -1) + 1;
    const isAgain = seq === 0; // The client follows the run from the start again.
    if (seq !== next && !isAgain && !(isSaid && seq > next)) {
      throw new SafetyError(`event ${seq} of ${run}, where ${next} was expected`); // S5
    }
    this.#received.set(run, seq);
    if (event.type !== "run.checkpointed") return;
    this.digests.set(event.step, event.digest);
    this.#sameAsReference(event.step, event.digest);
    this.#committed = Math.max(this.#committed, event.step);
  }

  #disk({ kind, path, process }: DiskOperation): void {
    if (kind === "request") {
      if (path.startsWith("run/log/")) this.check();
      return;
    }
    const name = basename(path);
    if (kind === "open" && dirname(path).endsWith("/generations")) {
      const generation = parseGenerationName(name);
      if (generation !== undefined && !this.#writers.has(generation)) {
        this.#writers.set(generation, process);
      }
    }
    if (kind !== "rename" || name !== manifestName) return;
    const generation = parseCheckpointName(basename(dirname(path)))?.generation ?? 0;
    const owner = this.#writers.get(generation);
    if (owner !== process) {
      throw new SafetyError(`${process} commits under generation ${generation} of ${owner}`); // S3
    }
    this.check();
  }

  /** Frees the numbers of claims that were not on disk when power was lost. */
  #powerIsBack(): void {
    const { disk } = this.#cluster.machine;
    const paths = pathsOf(this.#directory);
    for (const generation of [...this.#writers.keys()]) {
      if (this.#directory === storedDirectory) break; // The bucket loses nothing.
      if (!disk.exists(paths.generation(generation))) this.#writers.delete(generation);
    }
    this.check();
  }

  #sameAsReference(cut: number, digest: string): void {
    const expected = this.#reference?.digests.get(cut);
    if (this.#reference === undefined || expected === digest) return;
    throw new SafetyError(`the digest at cut ${cut} is ${digest}, the reference run's ${expected}`);
  }
}
