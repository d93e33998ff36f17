// Scaling: how many devices a run should have, and the watch that tells when it has others. The
// membership and the run's own wish decide; the training coordinator carries it out at a cut.
//
//   asked for (`run.scale`), or a host leaves ─▶ at once
//   hosts came, or devices are back           ─▶ when nobody has come or gone for `settleMs`

import { fromCallback } from "xstate";
import type { Clock } from "../../src/ports/clock.ts";
import { devicesOf, type HostShare, type Membership } from "../host/membership.ts";
import type { RunRecord } from "../run-state/run-record.ts";

/** Hosts rarely come alone: time without another after which a run grows. */
const settleMs = 1000;

/** Devices that a run takes where there are so many. */
export function devicesMax({ devicesAsked, job }: Pick<RunRecord, "devicesAsked" | "job">): number {
  return devicesAsked ?? (job.devices === 0 ? job.slices : job.devices);
}

export interface ScalingInput {
  readonly network: { readonly clock: Clock };
  readonly record: RunRecord;
  readonly membership: Membership;
  /** Whose devices the run has. */
  readonly hosts: readonly HostShare[];
}

/** Tells run.rescale when the run should have other devices: as of now, and from now on. */
export const watchingScale = fromCallback<{ type: string }, ScalingInput>(({ input, sendBack }) => {
  const { network, record, membership, hosts } = input;
  const { clock } = network;
  const asked = record.devicesAsked;
  let cancel = () => {};
  const tell = () => sendBack({ type: "run.rescale" });
  const look = () => {
    cancel();
    const isLeft = hosts.some(({ host }) => membership.isLeaving(host));
    const wanted = devicesOf(membership.sharesFor(record.run, devicesMax(record)));
    if (wanted === devicesOf(hosts) && !isLeft) return;
    if (isLeft || record.devicesAsked !== asked) tell();
    else cancel = clock.after(settleMs, tell);
  };
  const forget = [membership.onFree(look), record.onWish(look)];
  look();
  return () => {
    cancel();
    for (const one of forget) one();
  };
});

/** Tells run.rescale when other devices are asked for. */
export const watchingWish = fromCallback<{ type: string }, Pick<ScalingInput, "record">>(
  ({ input, sendBack }) => {
    const asked = input.record.devicesAsked;
    return input.record.onWish(() => {
      if (input.record.devicesAsked !== asked) sendBack({ type: "run.rescale" });
    });
  },
);

/** Tells run.checkpoint when a checkpoint is asked for. */
export const watchingCheckpoint = fromCallback<{ type: string }, Pick<ScalingInput, "record">>(
  ({ input: { record }, sendBack }) =>
    record.onWish(() => {
      if (record.isCheckpointAsked) sendBack({ type: "run.checkpoint" });
    }),
);

/** Keeps hosts that are leaving until the generation has let go of them. */
export const holding = fromCallback<{ type: string }, Pick<ScalingInput, "membership" | "hosts">>(
  ({ input }) => input.membership.hold(input.hosts),
);
