// The program of a tier's thread: carries out what its device asks for, one request after the
// other, so that the disk is read and written while the device computes.
//
// Tells  serving · paused · slow
//
// Invariants
//   T1. A request is done when all of it is: a device never sees half of one.
//   T2. What the disk refuses ends the generation, after it had time to make room: a restore puts
//       rows where they can lie, never a wrong row (law 3).

import { join } from "node:path";
import type { Clock } from "../src/clock.ts";
import type { Cells } from "../src/exchange/cells.ts";
import { openKernels } from "../src/kernels/index.ts";
import { openRecords } from "../storage/records/open-records.ts";
import { patient } from "../storage/records/patient-records.ts";
import { createRecordCache } from "../storage/records/record-cache.ts";
import { createCarrier } from "../storage/tiers/carry-out.ts";
import { createTierEnd } from "../storage/tiers/ring.ts";
import { recordShardsOf } from "../storage/tiers/shape.ts";
import { type Assembly, derive, type GenerationMemory } from "./assembly.ts";

export interface TierReport {
  readonly type: "serving" | "paused" | "slow";
}

export interface TierPorts {
  readonly cells: Cells;
  readonly clock: Clock;
  tell(report: TierReport): void;
}

/** A request that takes this much of a step's deadline is told of: the next may miss it. */
const slowShare = 0.1;

/** Where the files of one device's tiers lie in one generation. */
export function tierDirectory({ job, run, generation }: Assembly, device: number): string {
  const { directory = join(job.checkpoint.directory, "tiers") } = job.tiers;
  return join(directory, `${run}-${generation}-${device}`);
}

/** Serves the device of rank `rank` until the generation ends. */
export async function runTier(
  assembly: Assembly,
  memory: GenerationMemory,
  rank: number,
  { cells, clock, tell }: TierPorts,
): Promise<void> {
  const { topology, tierRings, tierCellBase } = derive(assembly);
  const { tiers, stepDeadlineMs } = assembly.job;
  const shape = tierRings[rank];
  const ring = memory.tiers[rank];
  if (shape === undefined || ring === undefined) {
    throw new RangeError(`Nothing lies below device ${rank}`);
  }
  const shards = recordShardsOf(topology, rank, shape);
  const disk = await openRecords(tiers.ssd, {
    directory: tierDirectory(assembly, rank),
    shards,
    keep: "spill",
  });
  const below = patient(disk, {
    clock,
    patienceMs: stepDeadlineMs / 2,
    onFull: (isFull) => tell({ type: isFull ? "paused" : "serving" }),
  });
  const kernels = openKernels(assembly.job.arithmetic);
  const { ddrBytes: bytes, policy } = tiers;
  const store = bytes === 0 ? below : createRecordCache({ below, shards, bytes, policy, kernels });
  const end = createTierEnd({
    shape,
    memory: ring,
    cells,
    cellBase: tierCellBase(rank),
    peer: rank,
  });
  const carry = createCarrier(store);
  let isSlow = false;
  try {
    tell({ type: "serving" });
    for (;;) {
      await end.wait();
      const request = end.next();
      if (request === undefined) continue;
      const startMs = clock.now();
      carry(request); // T1
      end.done();
      if (clock.now() - startMs > stepDeadlineMs * slowShare !== isSlow) {
        isSlow = !isSlow;
        tell({ type: isSlow ? "slow" : "serving" });
      }
    }
  } finally {
    await store.close();
  }
}
