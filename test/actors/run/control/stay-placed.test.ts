// A new generation keeps tables on their devices, and follows pins, only where the hosts have the
// memory for their rows and buffers.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { followPins } from "../../../../actors/run/control/follow-pins.ts";
import { stayPlaced } from "../../../../actors/run/control/stay-placed.ts";
import { shardPlacesOf } from "../../../../actors/run/state/shard-places.ts";
import { prepareData } from "../../../../actors/threads/data/prepare-data.ts";
import { layoutOfGeneration } from "../../../../actors/threads/generation-layout.ts";
import { generationSpecOf, hostPlaces } from "../../../../actors/threads/generation-spec.ts";
import { hostMemoryOf } from "../../../../actors/threads/host-memory.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { packPlan, unpackPlan } from "../../../../src/planner/packed-plan.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { atOnce } from "../../../../src/ports/turns.ts";
import { startDirectory } from "../../../data/data-files.ts";

const rows = { x: 1_000_000, y: 900_000, lost: 800_000, other: 300_000 };
const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };

/** A job with these tables; and the input of its generation on hosts of one device each. */
async function startJob(t: ExecutionContext) {
  const home = startDirectory(t);
  const tables = Object.entries(rows).map(([name, own]) => ({ name, rows: own, dim: 8 }));
  const job = resolveJob({
    model: { kind: "dlrm", dense: 2, tables, bottom: [8], top: [1] },
    data: { kind: "synthetic", samples: 64, dense: 2, batchSize: 32, cache: join(home, "cache") },
    checkpoint: { directory: join(home, "checkpoints") },
  });
  const { statistics: _, goOn: __, ...data } = await prepareData(job, realDisk, () => {});
  const inputOf = (hosts: number, devices: readonly number[]) => {
    const shards = job.model.tables.map(({ name: table }, i) => {
      const [scheme, tier] = ["table-wise", "memory"] as const;
      return { table, scheme, tier, ...tile, device: devices[i] ?? 0 };
    });
    const plan = packPlan({ devices: { hosts: 1, perHost: hosts }, shards }, job.model.tables);
    const report = { by: "auto", stepSeconds: 1, imbalance: 1, memoryBytes: [1, 1] } as const;
    return {
      ...{ scope: { run: "r", generation: 1 }, job, plan: data, placement: { plan, report } },
      ...{ hosts: Array.from({ length: hosts }, (_, host) => ({ host, devices: 1 })) },
      ...{ step: 0, latest: undefined, sliceCounts: undefined, network: {} },
    };
  };
  return { job, inputOf };
}

test("a placement with too many rows for a host gives way to the searched plan", async (t) => {
  const { job, inputOf } = await startJob(t);
  const [before, now] = [inputOf(3, [0, 1, 2, 2]), inputOf(2, [0, 1, 1, 0])];
  const { topology } = layoutOfGeneration(generationSpecOf(before));
  const shards = shardPlacesOf(topology, job.optimizer.sparse);
  const former = { generation: 1, hosts: before.hosts, memoryBytes: 1, pins: [], shards };
  const spec = generationSpecOf(now);
  const needed = hostPlaces(spec).map((place) => {
    const { tableBytes, otherBytes } = hostMemoryOf(job, layoutOfGeneration(spec), place);
    return tableBytes + otherBytes;
  });
  const stays = (memoryBytes: number) =>
    atOnce(stayPlaced(now.placement, former, now, undefined, [memoryBytes, memoryBytes]));
  t.is(stays(Math.max(...needed)), now.placement);
  const { plan, report } = stays(2 * Math.max(...needed));
  const devices = plan && unpackPlan(plan, job.model.tables).shards.map(({ device }) => device);
  t.deepEqual(devices, [0, 1, 0, 1]);
  const note = "the tables stay where they were, as far as possible";
  t.deepEqual(report, { by: "auto", note }, "the predictions were of the searched plan");
});

test("a pin is not followed to a host that has room for the rows alone", async (t) => {
  const { job, inputOf } = await startJob(t);
  const pin = { table: "lost", ...tile, device: 0, isFrozen: true };
  const spec = generationSpecOf({ ...inputOf(2, [0, 1, 1, 0]), pins: [pin] });
  const [place = { first: 0, count: 1 }] = hostPlaces(spec);
  const { tableBytes } = hostMemoryOf(job, layoutOfGeneration(spec), place);
  const { followed, ignored } = followPins([pin], inputOf(2, [0, 1, 1, 0]), [tableBytes, 1e9]);
  t.deepEqual(followed, []);
  t.regex(ignored[0]?.reason ?? "", /^host:0 would need 0\.\d+ GB of 0\.\d+ GB$/);
});
