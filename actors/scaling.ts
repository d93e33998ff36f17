// Scaling: how many devices a run should have, and the watch that tells when it has others. The
// membership and the run's own wish decide; the training coordinator carries it out at a cut.
//
//   asked for (`run.scale`), or a host leaves ─▶ at once
//   hosts came, or devices are back           ─▶ when nobody has come or gone for `settleMs`

import { fromCallback } from "xstate";
import type { Clock } from "../src/clock.ts";
import { devicesOf, type HostShare, type Membership } from "./membership.ts";
import type { RunRecord } from "./run-record.ts";

/** Hosts rarely come alone: time without another after which a run grows. */
const settleMs = 1000;

/** Devices that a run takes where there are so many. */
export function devicesMax({ devicesAsked, job }: RunRecord): number {
  return devicesAsked ?? (job.devices === 0 ? job.slices : job.devices);
}

export interface ScalingInput {
  readonly clock: Clock;
  readonly record: RunRecord;
  readonly membership: Membership;
  /** Whose devices the run has. */
  readonly hosts: readonly HostShare[];
}

/** Tells run.rescale when the run should have other devices: as of now, and from now on. */
export const watchingScale = fromCallback<{ type: string }, ScalingInput>(({ input, sendBack }) => {
  const { clock, record, membership, hosts } = input;
  const asked = record.devicesAsked;
  let cancel = () => {};
  const tell = () => sendBack({ type: "run.rescale" });
  const look = () => {
    cancel();
    const isLeft = hosts.some(({ host }) => membership.isLeaving(host));
    const wanted = devicesOf(membership.shares(devicesMax(record)));
    if (wanted === devicesOf(hosts) && !isLeft) return;
    if (isLeft || record.devicesAsked !== asked) tell();
    else cancel = clock.after(settleMs, tell);
  };
  const forget = [membership.onChange(look), record.onScale(look)];
  look();
  return () => {
    cancel();
    for (const one of forget) one();
  };
});

/** Tells run.rescale when other devices are asked for. */
export const watchingWish = fromCallback<{ type: string }, Pick<ScalingInput, "record">>(
  ({ input, sendBack }) => input.record.onScale(() => sendBack({ type: "run.rescale" })),
);

/** Keeps hosts that are leaving until the generation has let go of them. */
export const holding = fromCallback<{ type: string }, Pick<ScalingInput, "membership" | "hosts">>(
  ({ input }) => input.membership.hold(input.hosts),
);
