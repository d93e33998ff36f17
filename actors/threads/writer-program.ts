// The program of a writer's thread: writes the checkpoint parts of its device to disk, cut by cut,
// while the device trains on.
//
// Emits  writing · paused · saved · copy

import { createPartQuantiser } from "../../src/embedding/checkpoint/rows-part.ts";
import { StoreFailedError } from "../../src/errors/errors.ts";
import type { Sleep } from "../../src/exchange/atomic-cells.ts";
import { createPipeReader } from "../../src/exchange/byte-pipe.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { isFull } from "../../src/ports/disk-refusals.ts";
import { isInMemory, leftInMemory } from "../../storage/checkpoints/replicas/parts-in-memory.ts";
import type { PartReplica } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { openParts, type PartStore } from "../../storage/checkpoints/store/open-parts.ts";
import { receiveItem } from "../../storage/checkpoints/store/part-stream.ts";
import {
  createSaving,
  type SavedPart,
  type Saving,
} from "../../storage/checkpoints/store/part-writer.ts";
import { type Generation, holdOf, pipePlaceOf } from "./generation-memory.ts";
import { hasBuddies, hostPlaceOf, roomWaitMs } from "./generation-spec.ts";
import { timelineOf } from "./host-timelines.ts";

export type WriterReport =
  /** Writing of a cut has begun or resumed. */
  | { readonly type: "writing" }
  /** The disk is full, and the writer waits for room. */
  | { readonly type: "paused" }
  /** A part was written: its bytes, for the replica caches of hosts. */
  | { readonly type: "copy"; readonly copy: PartReplica }
  /** All parts of the device are on disk, or in memory, to be handed over to the host `to`. */
  | {
      readonly type: "saved";
      readonly cut: number;
      readonly parts: readonly SavedPart[];
      readonly to?: number | undefined;
    };

export interface WriterPorts {
  readonly cells: Cells;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Sleep of the thread while the disk is full; left out, it blocks. */
  readonly sleep?: Sleep | undefined;
  report(report: WriterReport): void;
}

/** Interval between attempts on a full disk. */
const retryMs = 100;

/** Writes the parts of the device of rank `rank`. */
export async function runWriter(
  generation: Generation,
  rank: number,
  ports: WriterPorts,
): Promise<void> {
  const { cells, disk, clock, report } = ports;
  const { spec } = generation;
  const timeline = timelineOf(generation, "writer", rank);
  let partFromMs = 0;
  const { manifest, job } = spec;
  const { directory, differential, bits } = job.checkpoint;
  const about = { generation: spec.generation, owner: `d${rank}`, differential, manifest };
  const end = { cells, isWriter: true };
  const pipe = createPipeReader(pipePlaceOf(generation, rank, end));
  const patiently = patience(roomWaitMs(spec), holdOf(generation), ports);
  let saving: Saving | undefined;
  let isWriting = false;
  let stored = (bytes: Uint8Array) => bytes;
  const copyBytesMax = hasBuddies(spec) ? generation.memory.replicaBytes : 0;
  let copied = createCopier(copyBytesMax);
  /** The host that takes the parts over, because this one leaves. */
  let to: number | undefined;
  const handedBytesMax = Math.floor(copyBytesMax / hostPlaceOf(spec, rank).count);
  const handingOver = ({ packWriter }: Pick<PartStore, "packWriter">) => ({
    packWriter(...place: Parameters<typeof packWriter>) {
      const packs = packWriter(...place);
      return to === undefined ? packs : leftInMemory(packs, handedBytesMax);
    },
  });
  let cut = 0;
  for (;;) {
    const item = await receiveItem(pipe);
    switch (item.kind) {
      case "part": {
        if (!isWriting) report({ type: "writing" });
        isWriting = true;
        partFromMs = clock.epochMs();
        const store = handingOver(openParts(directory, disk));
        const own = saving ?? createSaving({ ...about, store });
        saving = own;
        to = item.to;
        stored = bits === 32 ? (bytes) => bytes : createPartQuantiser(bits);
        await patiently(() => own.begin(item.cut, item.name, item.isWhole));
        copied = createCopier(copyBytesMax);
        cut = item.cut;
        break;
      }
      case "bytes": {
        const bytes = stored(item.bytes);
        await patiently(() => saving?.write(bytes));
        copied.add(bytes);
        break;
      }
      case "leaves":
        if (saving !== undefined) {
          const part = saving.end(item.leaves);
          timeline.add("write", 0, cut, partFromMs, clock.epochMs(), part.bytes);
          const isHandedOver = to !== undefined;
          // A replica of a written part must not take the room of a part that is only in memory.
          if (isHandedOver && !isInMemory(part)) break;
          const { name, bytes, sha256 } = part;
          const memory = copied.memory();
          const copy = { name, cut, generation: spec.generation, bytes, sha256, isHandedOver };
          if (memory !== undefined) report({ type: "copy", copy: { ...copy, memory } });
        }
        break;
      case "cut": {
        pipe.rewind();
        const parts = (await patiently(() => saving?.finish())) ?? [];
        report({ type: "saved", cut: item.cut, parts, to });
        isWriting = false;
        break;
      }
      default:
        item satisfies never;
    }
  }
}

/** Collects the bytes of a part for a replica, unless they are more than `bytesMax`. */
function createCopier(bytesMax: number) {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  return {
    add(piece: Uint8Array): void {
      bytes += piece.length;
      if (bytes <= bytesMax) pieces.push(piece);
      else pieces = [];
    },
    /** The collected bytes; undefined: there were more than `bytesMax`. */
    memory(): SharedArrayBuffer | undefined {
      if (bytes > bytesMax) return undefined;
      const memory = new SharedArrayBuffer(bytes);
      const all = new Uint8Array(memory);
      let at = 0;
      for (const piece of pieces) {
        all.set(piece, at);
        at += piece.length;
      }
      return memory;
    },
  };
}

/** Returns a function that retries a write while the disk is full, for at most `patienceMs`. */
function patience(
  patienceMs: number,
  hold: (isHeld: boolean) => void,
  { clock, sleep, report }: WriterPorts,
) {
  const never = new Int32Array(new SharedArrayBuffer(4));
  return async <Result>(write: () => Result): Promise<Result> => {
    const startMs = clock.now();
    for (let attempt = 0; ; attempt++) {
      try {
        const result = write();
        if (attempt > 0) {
          hold(false);
          report({ type: "writing" });
        }
        return result;
      } catch (error) {
        const mayPass = error instanceof StoreFailedError && isFull(error.cause);
        if (!mayPass || clock.now() - startMs > patienceMs) throw error;
        if (attempt === 0) {
          hold(true);
          report({ type: "paused" });
        }
        if (sleep === undefined) Atomics.wait(never, 0, 0, retryMs);
        else await sleep(never, 0, 0, retryMs);
      }
    }
  };
}
