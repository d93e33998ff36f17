// The program of a tier's thread: serves its device until the generation ends.
//
// Tells  serving · paused · slow

import { join } from "node:path";
import type { Clock } from "../src/clock.ts";
import type { Cells } from "../src/exchange/cells.ts";
import type { Kernels } from "../src/kernels/kernels.ts";
import { createTierEnd } from "../storage/tiers/ring.ts";
import { serveTier, type TierState } from "../storage/tiers/serve.ts";
import { recordShardsOf } from "../storage/tiers/shape.ts";
import { type Assembly, derive, type GenerationMemory } from "./assembly.ts";

export interface TierReport {
  readonly type: TierState;
}

export interface TierPorts {
  readonly kernels: Kernels;
  readonly cells: Cells;
  readonly clock: Clock;
  tell(report: TierReport): void;
}

/** Where the files of one device's tiers lie in one generation. */
export function tierDirectory({ job, run, generation }: Assembly, device: number): string {
  const { directory = join(job.checkpoint.directory, "tiers") } = job.tiers;
  return join(directory, `${run}-${generation}-${device}`);
}

/** Serves the device of rank `rank`. */
export async function runTier(
  assembly: Assembly,
  memory: GenerationMemory,
  rank: number,
  { kernels, cells, clock, tell }: TierPorts,
): Promise<void> {
  const { topology, tierRings, tierCellBase } = derive(assembly);
  const { tiers, stepDeadlineMs: deadlineMs } = assembly.job;
  const shape = tierRings[rank];
  const ring = memory.tiers[rank];
  if (shape === undefined || ring === undefined) {
    throw new RangeError(`Nothing lies below device ${rank}`);
  }
  const place = { shape, memory: ring, cells, cellBase: tierCellBase(rank), peer: rank };
  await serveTier({
    end: createTierEnd(place),
    shards: recordShardsOf(topology, rank, shape),
    directory: tierDirectory(assembly, rank),
    onState: (type) => tell({ type }),
    ...{ tiers, kernels, clock, deadlineMs },
  });
}
