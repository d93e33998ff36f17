// Scaling: decides how many devices a run should have, which shards lie on them, and when that
// changes. The decision follows from the membership and the user's requests; the training
// coordinator carries it out at the end of its step.
//
//   a user requests devices, or a host leaves ─▶ at once
//   a user moves a shard                      ─▶ at once
//   another plan pays (adapting-plan.ts)      ─▶ at once
//   hosts join, or devices become free        ─▶ once no host has joined or left for `settleMs`

import { fromCallback } from "xstate";
import type { JobSpec } from "../../../src/job/job.ts";
import type { ShardPin } from "../../../src/planner/pins.ts";
import { mostDevices } from "../../../src/planner/placement.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { devicesOf, type HostShare, type Membership } from "../../host/membership.ts";
import type { Mailbox, RunScope } from "../../runtime/mailbox.ts";
import type { RunRecord } from "../state/run-record.ts";
import { pinsToFollow } from "../state/shard-places.ts";

/** Hosts rarely join alone, so a run grows this long after the last join. */
const settleMs = 1000;

/** The most devices that a run takes: each computes at least one slice, or is a server. */
export function devicesMax({
  devicesRequested,
  job,
}: Pick<RunRecord, "devicesRequested" | "job">): number {
  const most = mostDevices(job);
  return Math.min(most, devicesRequested ?? (job.devices === 0 ? most : job.devices));
}

export interface ScalingInput {
  readonly network: { readonly clock: Clock };
  readonly record: RunRecord;
  readonly membership: Membership;
  /** The hosts of the run's devices. */
  readonly hosts: readonly HostShare[];
  readonly scope: RunScope;
}

/**
 * Raises run.rescale when the run should have other devices than `hosts`; rechecks on every change
 * of the membership or the requests.
 */
const watchingScale = fromCallback<{ type: string }, ScalingInput>(({ input, sendBack }) => {
  const { network, record, membership, hosts, scope } = input;
  const { clock } = network;
  const requested = record.devicesRequested;
  let cancel = () => {};
  const announced = new Set<number>();
  const rescale = () => sendBack({ type: "run.rescale" });
  const recheck = () => {
    cancel();
    tellIdle(input);
    if (movesFor(record, scope).length > 0) return rescale();
    const isLeft = hosts.some(({ host }) => membership.isLeaving(host));
    if (isLeft) tellDraining(input, announced);
    const wanted = devicesOf(membership.sharesFor(record.run, devicesMax(record)));
    if (wanted === devicesOf(hosts) && !isLeft) return;
    if (isLeft || record.devicesRequested !== requested) rescale();
    else cancel = clock.after(settleMs, rescale);
  };
  const stops = [membership.onFree(recheck), record.onRequest(recheck)];
  recheck();
  return () => {
    cancel();
    for (const stop of stops) stop();
  };
});

/** Publishes run.alert, once for each number of offered devices above the run's slices. */
function tellIdle({ record, membership, scope }: ScalingInput): void {
  const { run, job, devicesRequested, progress } = record;
  const wanted = devicesRequested ?? job.devices;
  const offered = wanted === 0 ? membership.devicesFor(run) : wanted;
  const most = mostDevices(job);
  if (offered <= most || offered === record.idleOf) return;
  record.idleOf = offered;
  const message =
    `The run uses ${most} of ${offered} devices, as \`slices\` of the job is ${job.slices}: ` +
    "a job with more slices uses more devices, but trains a model with other bits";
  const step = progress?.step ?? 0;
  record.append(scope.generation, { type: "run.alert", code: "DEVICES_IDLE", step, message });
}

/** Publishes run.draining for each leaving host of the run, unless `announced` has the host. */
function tellDraining(
  { record, membership, hosts, scope }: ScalingInput,
  announced: Set<number>,
): void {
  for (const { host, drain } of membership.present()) {
    if (drain === undefined || announced.has(host)) continue;
    if (!hosts.some((one) => one.host === host)) continue;
    announced.add(host);
    record.append(scope.generation, { type: "run.draining", host, ...drain });
  }
}

/** The pins that only a new generation would follow; none before this one is assembled. */
export function movesFor(
  { shards, pins }: Pick<RunRecord, "shards" | "pins">,
  { generation }: Pick<RunScope, "generation">,
): readonly ShardPin[] {
  return shards?.generation === generation ? pinsToFollow(shards, pins) : [];
}

/** Records the start of a change, for run.scaled, run.moved and run.adapted. */
export function noteScaling({ record, scope, hosts, network }: ScalingInput): {
  readonly isScaleRequested: true;
} {
  const { generation } = scope;
  const [from, moves] = [devicesOf(hosts), movesFor(record, scope)];
  const begun = record.scaling ?? { generation, from, atMs: network.clock.now(), moves };
  record.scaling = moves.length === 0 ? begun : { ...begun, moves };
  return { isScaleRequested: true };
}

/** Raises run.rescale when a user requests another number of devices. */
export const watchingRequests = fromCallback<{ type: string }, Pick<ScalingInput, "record">>(
  ({ input, sendBack }) => {
    const requested = input.record.devicesRequested;
    return input.record.onRequest(() => {
      if (input.record.devicesRequested !== requested) sendBack({ type: "run.rescale" });
    });
  },
);

/** Raises run.checkpoint when a user requests a checkpoint. */
const watchingCheckpoint = fromCallback<{ type: string }, Pick<ScalingInput, "record">>(
  ({ input: { record }, sendBack }) =>
    record.onRequest(() => {
      if (record.isCheckpointRequested) sendBack({ type: "run.checkpoint" });
    }),
);

/** Actors that raise requests as events of the training coordinator. */
export const watching = { watchingScale, watchingCheckpoint };

/** Keeps leaving hosts in the membership until the generation has released them. */
export const holding = fromCallback<{ type: string }, Pick<ScalingInput, "membership" | "hosts">>(
  ({ input }) => input.membership.hold(input.hosts),
);

/** Requests a pause where a user requested a checkpoint. */
export function requestPauseToSave(
  run: Parameters<typeof requestPause>[0] & Pick<ScalingInput, "record">,
): void {
  if (run.record.isCheckpointRequested) requestPause(run);
}

/**
 * Requests device 0 to pause after its current step; the other devices pause with it. Asynchronous
 * trainers pause independently, so each gets the request.
 */
export function requestPause({
  command,
  mailbox,
  job,
  hosts,
  step,
  ahead,
}: {
  readonly command: number;
  readonly mailbox: Mailbox;
  readonly job: Pick<JobSpec, "mode">;
  readonly hosts: readonly HostShare[];
  readonly step: number;
  readonly ahead: number;
}): void {
  if (step < ahead) return; // The slower trainers must catch up before the cut.
  const addressees = job.mode === "async" ? devicesOf(hosts) : 1;
  for (let index = 0; index < addressees; index++) {
    mailbox.send({ role: "device", index }, "device.pause", { command, afterStep: 0 });
  }
}
