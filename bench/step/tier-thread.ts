// A tier's thread in the benches of whole steps.

import { workerData } from "node:worker_threads";
import { GenerationAbortedError } from "../../src/errors/errors.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { createTierEnd } from "../../storage/tiers/ring.ts";
import { serveTier } from "../../storage/tiers/serve.ts";
import { recordShardsOf } from "../../storage/tiers/shape.ts";
import { type TierMemory, tierPlaceOf } from "./tier-memory.ts";
import type { TrainWork } from "./train-work.ts";

export interface TierThreadData {
  readonly work: TrainWork;
  readonly rank: number;
  readonly tier: TierMemory;
}

const { work, rank, tier } = workerData as TierThreadData;
const topology = topologyOf(work.input, work.devices);
const place = tierPlaceOf(work, topology, rank, tier, 1);
const { tiers } = work.input;
if (tiers === undefined || work.backing === undefined) throw new RangeError("There are no tiers");
try {
  await serveTier({
    end: createTierEnd(place),
    shards: recordShardsOf(topology, rank, place.shape),
    place: { root: work.backing.directory, owner: "bench", generation: 1, device: rank },
    pageCache: work.backing.pageCache,
    ...{ tiers, kernels: openKernels("auto"), clock: realClock, disk: realDisk },
    deadlineMs: 600_000,
    report: () => {},
  });
} catch (error) {
  if (!(error instanceof GenerationAbortedError)) throw error;
}
