// The program of a tier's thread: serves its device until the generation ends.
//
// Takes  rest { stamp } · flush
// Emits  state · opened · rested · flushed

import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Cells } from "../../src/exchange/cells.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { absoluteName, isObjectAddress } from "../../src/ports/object-store.ts";
import { createTierEnd } from "../../storage/tiers/ring.ts";
import { serveTier, type TierCommand, type TierReport } from "../../storage/tiers/serve.ts";
import { recordShardsOf } from "../../storage/tiers/shape.ts";
import type { TierPlace } from "../../storage/tiers/tier-store.ts";
import { type Generation, holdOf } from "./generation-memory.ts";
import { type GenerationSpec, roomWaitMs } from "./generation-spec.ts";

export interface TierPorts {
  readonly kernels: Kernels;
  readonly cells: Cells;
  readonly clock: Clock;
  readonly disk: Disk;
  readonly pause?: ((ms: number) => void) | undefined;
  readonly afterPauses?: ((task: () => void) => void) | undefined;
  nextCommand(): TierCommand | undefined;
  report(report: TierReport): void;
}

/** The directory of the tier files of a job's run, and the name of their owner. */
export function tierHome({ checkpoint, tiers }: Pick<JobSpec, "checkpoint" | "tiers">) {
  const { directory } = checkpoint;
  const beside = isObjectAddress(directory) ? "tiers" : join(directory, "tiers");
  const { directory: root = beside } = tiers;
  const owner = createHash("sha256").update(absoluteName(directory)).digest("hex").slice(0, 12);
  return { root, owner };
}

/** The place of the tier files of one device. */
export function tierPlace({ job, generation }: GenerationSpec, device: number): TierPlace {
  return { ...tierHome(job), generation, device };
}

/** Serves the tier requests of the device of rank `rank`. */
export async function runTier(
  { spec, layout, memory }: Generation,
  rank: number,
  { cells, afterPauses = (task) => task(), ...ports }: TierPorts,
): Promise<void> {
  const { topology, tierRings, tierCellBase } = layout;
  const { tiers, stepDeadlineMs: deadlineMs } = spec.job;
  const shape = tierRings[rank];
  const [ring, column] = [memory.tiers[rank], memory.columns[rank]];
  if (shape === undefined || ring === undefined) {
    throw new RangeError(`Device ${rank} has no tiers`);
  }
  const place = { shape, memory: ring, cells, cellBase: tierCellBase(rank), peer: rank };
  const hold = holdOf({ layout, memory });
  await serveTier({
    end: createTierEnd(place),
    shards: recordShardsOf(topology, rank, shape),
    place: tierPlace(spec, rank),
    stamp: spec.manifest?.sha256,
    column: column && new Float64Array(column),
    roomMs: roomWaitMs(spec),
    onHold: (isHeld) => afterPauses(() => hold(isHeld)),
    ...{ tiers, deadlineMs, ...ports },
  });
}
