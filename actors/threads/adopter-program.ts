// The program of an adopter's thread: fetches the parts of a device of a leaving host, then writes
// them to the store. The leaving host waits only for the fetches.
//
//   a leaving host ══pieces══▶ memory of this host ──▶ packs of the store
//
// Invariants
//   A1. A part is held once this host has all its bytes, in memory or in the store.
//   A2. A part is saved, with its hash, only after it is on disk.

import { PeerLostError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { subjectOf } from "../../src/wire/messages/subjects.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import {
  type PartReplica,
  replicaBytesMax,
} from "../../storage/checkpoints/replicas/replica-cache.ts";
import { fetchReplica } from "../../storage/checkpoints/replicas/replica-transfer.ts";
import { openParts } from "../../storage/checkpoints/store/open-parts.ts";
import type { SavedPart } from "../../storage/checkpoints/store/part-writer.ts";
import type { Connection } from "../runtime/mailbox.ts";
import type { Generation, GenerationMemory } from "./generation-memory.ts";
import { hostPlaceOf, type SpecHead } from "./generation-spec.ts";

/** The task of an adopter's thread. */
export interface AdopterTask {
  readonly program: "adopter";
  readonly spec: SpecHead;
  readonly memory: GenerationMemory;
  /** The device of the leaving host. */
  readonly index: number;
  readonly cluster: string;
  readonly connection: Connection;
  /** Bytes that fit into the replica cache of this host. */
  readonly roomBytes: number;
}

/** Parts to take over. Of their places only hash and bytes count. */
export interface AdopterCommand {
  readonly cut: number;
  readonly parts: readonly SavedPart[];
}

export type AdopterReport =
  /** A part came: its bytes, for the replica cache of this host. */
  | { readonly type: "copy"; readonly copy: PartReplica }
  /** A1 */
  | { readonly type: "held"; readonly names: readonly string[] }
  /** A2 */
  | { readonly type: "saved"; readonly parts: readonly SavedPart[] };

export interface AdopterPorts {
  readonly clock: Clock;
  readonly disk: Disk;
  dial(connection: Connection, name: string): Promise<Transport>;
  take(): AdopterCommand | undefined;
  report(report: AdopterReport): void;
}

/** Interval at which an idle thread looks for a command. */
const idleMs = 20;

/** Runs until its thread is ended. */
export async function runAdopter(
  { spec }: Generation,
  { index: device, cluster, connection, roomBytes }: Omit<AdopterTask, "program">,
  { clock, disk, dial, take, report }: AdopterPorts,
): Promise<never> {
  const { run, generation, job } = spec;
  const { host, position } = hostPlaceOf(spec, device);
  const transport = await dial(connection, `osiris-${cluster}-adopter`);
  const role = { role: "copies", index: position, action: "fetch" } as const;
  const subject = subjectOf({ cluster, run, generation, ...role });
  const patienceMs = job.stepDeadlineMs; // Missing heartbeats reveal a lost host earlier.
  const how = { transport, subject, clock, patienceMs, isOver: () => false, onPiece: () => {} };
  const store = openParts(job.checkpoint.directory, disk);
  let left = roomBytes;
  let packed = 0;

  /** Writes parts that were fetched. */
  const save = (cut: number, some: readonly Fetched[]) => {
    const packs = store.packWriter(generation, cut, `a${device}n${packed++}`);
    const parts = some.map(({ part, memory }) => {
      packs.begin(part.name);
      for (let at = 0; at < part.bytes; at += pieceBytes) {
        const bytes = Math.min(pieceBytes, part.bytes - at);
        packs.write(Uint8Array.from(new Uint8Array(memory, at, bytes)));
      }
      const written = packs.end();
      if (written.sha256 !== part.sha256) {
        throw new PeerLostError(`host:${host}`, `it sent ${part.name} with a wrong hash`);
      }
      return { ...written, base: part.base, leaves: part.leaves };
    });
    packs.finish();
    report({ type: "saved", parts });
  };

  const unsaved: { readonly cut: number; readonly some: Fetched[] }[] = [];
  for (;;) {
    const command = take();
    if (command === undefined) {
      const next = unsaved.shift();
      if (next !== undefined) save(next.cut, next.some);
      else await new Promise<void>((resume) => clock.after(idleMs, resume));
      continue;
    }
    const { cut, parts } = command;
    const held: Fetched[] = [];
    for (const part of parts) {
      const { name, bytes, sha256 } = part;
      const memory = new SharedArrayBuffer(bytes);
      const copy = { name, cut, generation, bytes, sha256, memory };
      const answer = await fetchReplica(copy, how);
      if (answer !== "there") {
        throw new PeerLostError(
          `host:${host}`,
          `it left before ${name} was handed over: ${answer}`,
        );
      }
      if (bytes > left || bytes > replicaBytesMax) {
        save(cut, [{ part, memory }]); // No room to hold it.
        continue;
      }
      left -= bytes;
      report({ type: "copy", copy });
      held.push({ part, memory });
    }
    report({ type: "held", names: held.map(({ part }) => part.name) }); // A1
    if (held.length > 0) unsaved.push({ cut, some: held });
  }
}

/** A part in the memory of this host. */
interface Fetched {
  readonly part: SavedPart;
  readonly memory: SharedArrayBuffer;
}

/** Most bytes that are passed to the store at once, in unshared memory. */
const pieceBytes = 1024 * 1024;
