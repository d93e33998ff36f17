// The plan of a generation on other devices than the former one had: tables stay where they are, as
// far as that is about as fast as the plan that was searched (src/planner/stay.ts).

import type { JobSpec } from "../../../src/job/job.ts";
import { packPlan, unpackPlan } from "../../../src/planner/packed-plan.ts";
import {
  type Plan,
  type PlannedDevice,
  type Scheme,
  schemeOf,
} from "../../../src/planner/shards.ts";
import { type PlacedPart, stayInPlace } from "../../../src/planner/stay.ts";
import type { Steps } from "../../../src/ports/turns.ts";
import type { RunPlan } from "../../../src/training/planning/plan-report.ts";
import { type Topology, tableOf } from "../../../src/training/topology/topology.ts";
import type { HostShare } from "../../host/membership.ts";
import { layingOut } from "../../threads/generation-layout.ts";
import { generationSpecOf, hostPlaces } from "../../threads/generation-spec.ts";
import { type ShardPlace, type ShardPlaces, shardPlacesOf } from "../state/shard-places.ts";
import { lackingIn } from "./follow-pins.ts";

/** Schemes whose parts must be on devices of one host: their plans are not changed. */
const hostSchemes: readonly Scheme[] = ["table-row-wise", "table-column-wise", "grid"];

/**
 * The placement, changed so that the shards of the former generation stay where they are. `former`:
 * its shards; undefined: they are not known. `fleet`: the devices, where hosts are unequal.
 * `memoryBytes`: of each host.
 */
export function* stayPlaced(
  placement: RunPlan,
  former: ShardPlaces | undefined,
  input: Parameters<typeof generationSpecOf>[0],
  fleet: readonly PlannedDevice[] | undefined,
  memoryBytes: readonly number[],
): Steps<RunPlan> {
  const { job, hosts } = input;
  const { by, placement: requested } = placement.report;
  // Devices that only serve rows have the last ranks, also after devices joined or left. Their
  // tables follow the plan, so rows do not stay where they were.
  if (former === undefined || by === "plan" || (requested?.servers ?? 0) > 0) return placement;
  const devicesOf = (shares: readonly HostShare[]) => shares.map(({ devices }) => devices).join();
  if (devicesOf(hosts) === devicesOf(former.hosts)) return placement; // Nothing moves.
  const schemes = schemesOf(placement, job);
  if ([...schemes.values()].some((scheme) => hostSchemes.includes(scheme))) return placement;
  const spec = generationSpecOf({ ...input, placement, pins: [] });
  const { topology } = yield* layingOut(spec);
  yield;
  const searched = shardPlacesOf(topology, job.optimizer.sparse);
  if ([...searched, ...former.shards].some(({ isCached }) => isCached)) return placement;
  const tables = new Map(job.model.tables.map(({ name }, table) => [name, table]));
  const costed = (shards: readonly ShardPlace[]) =>
    shards.map((one) => costOf(one, tables.get(one.table) ?? -1, topology));
  yield;
  const placed = stayInPlace({
    former: costed(former.shards),
    searched: costed(searched),
    devices: spec.devices,
    fleet,
    rankOf: (device) => rankNow(device, former.hosts, hosts),
  });
  if (placed === undefined) return placement;
  yield;
  const { sha256: _sha256, ...searchedReport } = placement.report;
  // The predictions are of the plan that was searched.
  const { stepSeconds: _, imbalance: __, memoryBytes: ___, ...report } = searchedReport;
  const shards = placed.map((part): Plan["shards"][number] => {
    const { table, firstBlock, blocks, firstQuantum, quanta, device } = part;
    const scheme = schemes.get(table) ?? "table-wise";
    return { table, scheme, tier: "memory", firstBlock, blocks, firstQuantum, quanta, device };
  });
  const devices = { hosts: 1, perHost: spec.devices };
  const plan = packPlan({ devices, shards }, job.model.tables);
  const lack = yield* lackingIn({ ...spec, placement: plan }, memoryBytes);
  if (lack !== undefined) return placement;
  return {
    ...placement,
    plan,
    report: {
      ...report,
      note: report.note ?? "the tables stay where they were, as far as possible",
    },
  };
}

function schemesOf({ plan }: RunPlan, { model }: JobSpec): Map<string, Scheme> {
  if (plan === undefined) return new Map(model.tables.map((one) => [one.name, schemeOf(one)]));
  return new Map(unpackPlan(plan, model.tables).shards.map(({ table, scheme }) => [table, scheme]));
}

function costOf(shard: ShardPlace, table: number, { input, idsMaxOf }: Topology): PlacedPart {
  const { rowBlocks } = tableOf(input.model.tables, table);
  const ids = Math.max(1, idsMaxOf[table] ?? 1);
  return { ...shard, cost: (ids * shard.columns * shard.blocks) / rowBlocks };
}

/** The present rank of a device of the former hosts; undefined: the device is lost. */
function rankNow(
  device: number,
  former: readonly HostShare[],
  hosts: readonly HostShare[],
): number | undefined {
  const was = hostPlaces({ hosts: [...former] }).findLast(({ first }) => first <= device);
  const now = was && hostPlaces({ hosts: [...hosts] }).find(({ host }) => host === was.host);
  if (was === undefined || now === undefined) return undefined;
  const at = device - was.first;
  return at < was.count && at < now.count ? now.first + at : undefined;
}
