// The scheduling policy of the queue: which waiting runs get devices now, and which running ones
// make room. A pure function of the records and of the allocation of devices.
//
//   interrupted runs first · then by priority · then by submission
//
// Invariants
//   W1. A run starts when all its devices are free (gang scheduling), or when nothing else runs: it
//       then waits for hosts.
//   W2. A run that waits for devices is not overtaken by later runs, so that large runs do not
//       starve; a run that waits for its tenant's quota, or for another run's directory, is.
//   W3. A run is preempted only by a run of higher priority, and only if that run can then start.

import { absoluteName } from "../../src/ports/object-store.ts";
import { quotaOf, type Tenants } from "../../src/wire/tenancy/tenants.ts";
import type { Membership } from "../host/membership.ts";
import { devicesMax } from "../run/control/scaling.ts";
import type { RunRecord } from "../run/state/run-record.ts";

export interface QueueState {
  /** Runs that may want devices, in queue order (active-runs.ts). */
  readonly waiting: Iterable<RunRecord>;
  /** Runs with an allocation, in the order in which they got it. */
  readonly running: readonly RunRecord[];
  readonly membership: Membership;
  readonly tenants: Tenants;
}

export interface QueueMove {
  /** The run to start. */
  readonly start?: RunRecord;
  /** The runs to preempt, and the run that they make room for. */
  readonly preempt?: { readonly victims: readonly RunRecord[]; readonly for: RunRecord };
}

/** The next scheduling action; empty: none. The caller repeats the call until it is empty. */
export function nextMove({ waiting, running, membership, tenants }: QueueState): QueueMove {
  const isKeptBack = hindrances(running, membership, tenants);
  const first = firstOf(waiting, (one) => {
    return !running.includes(one) && !one.isPauseRequested && !isKeptBack(one); // W2
  });
  if (first === undefined) return {};
  const wanted = devicesWanted(first, membership);
  if (running.length === 0 || membership.devicesFor(first.run) >= wanted) {
    return { start: first }; // W1
  }
  const victims = victimsFor(first, wanted, running, membership);
  return victims.length === 0 ? {} : { preempt: { victims, for: first } }; // W2
}

/** Devices that a run waits for before it starts. */
export function devicesWanted(
  record: Pick<RunRecord, "devicesRequested" | "job">,
  { minDevices }: Membership,
): number {
  const { devicesRequested, job } = record;
  const wanted = devicesRequested ?? (job.devices === 0 ? minDevices : job.devices);
  return Math.min(wanted, devicesMax(record));
}

/** Most devices that a run may have: the rest of its tenant's quota after its other runs. */
export function quotaLeft(
  run: string,
  tenantOf: (run: string) => string | undefined,
  { membership, tenants }: Pick<QueueState, "membership" | "tenants">,
): number {
  const tenant = tenantOf(run);
  const { devicesMax: most } = quotaOf(tenants, tenant);
  if (most === undefined) return Number.POSITIVE_INFINITY;
  const others = [...membership.takers].filter((one) => one !== run && tenantOf(one) === tenant);
  return most - others.reduce((sum, one) => sum + membership.takenBy(one), 0);
}

/** The first record that fits; stops iterating there. */
function firstOf(
  records: Iterable<RunRecord>,
  isWanted: (record: RunRecord) => boolean,
): RunRecord | undefined {
  for (const record of records) if (isWanted(record)) return record;
  return undefined;
}

/**
 * Whether a run must wait for a reason besides devices: its directory is in use, or its tenant's
 * quota.
 */
function hindrances(
  running: readonly RunRecord[],
  membership: Membership,
  tenants: Tenants,
): (record: RunRecord) => boolean {
  const directories = new Set(running.map(directoryOf));
  const used = new Map<string | undefined, { runs: number; devices: number }>();
  for (const { run, tenant } of running) {
    const { runs, devices } = used.get(tenant) ?? nothing;
    used.set(tenant, { runs: runs + 1, devices: devices + membership.takenBy(run) });
  }
  return (record) => {
    if (directories.size > 0 && directories.has(directoryOf(record))) return true;
    const { runningMax, devicesMax: ownMax } = quotaOf(tenants, record.tenant);
    const { runs, devices } = used.get(record.tenant) ?? nothing;
    if (runs >= (runningMax ?? Number.POSITIVE_INFINITY)) return true;
    return devices + devicesWanted(record, membership) > (ownMax ?? Number.POSITIVE_INFINITY);
  };
}

const nothing = { runs: 0, devices: 0 } as const;

/** Key of a run's directory: two runs in one directory would fence each other. */
function directoryOf({ job }: RunRecord): string {
  return absoluteName(job.checkpoint.directory);
}

/**
 * The runs to preempt, lowest priority and latest submission first; empty if they are not enough.
 * W3
 */
function victimsFor(
  record: RunRecord,
  wanted: number,
  running: readonly RunRecord[],
  membership: Membership,
): RunRecord[] {
  const yielding = running.filter(({ isYieldRequested }) => isYieldRequested);
  const taken = (some: readonly RunRecord[]) =>
    some.reduce((sum, { run }) => sum + membership.takenBy(run), 0);
  let free = membership.devicesFor(record.run) + taken(yielding);
  const victims: RunRecord[] = [];
  const candidates = running
    .filter(({ isYieldRequested, job }) => !isYieldRequested && job.priority < record.job.priority)
    .reverse()
    .sort((a, b) => a.job.priority - b.job.priority);
  for (const victim of candidates) {
    if (free >= wanted) break;
    victims.push(victim);
    free += membership.takenBy(victim.run);
  }
  return free >= wanted ? victims : [];
}
