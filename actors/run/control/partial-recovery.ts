// Partial recovery: a job may allow the surviving state of a failed generation to be used. The job
// supervisor then requests the surviving devices to write their parts, and makes a checkpoint from
// them (CPR, Maeng et al., MLSys 2021). If that fails, the run continues from the last checkpoint.
//
// Sends   device.dump to all devices but the lost ones, answered by device.dumped
//
// Invariants
//   V1. The generation is over: every device that answers has stopped stepping.

import { fromPromise } from "xstate";
import { StepTimeoutError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { devicesOf, type HostShare } from "../../host/membership.ts";
import {
  type Address,
  type MessageEvent,
  type Network,
  openMailbox,
  request,
} from "../../runtime/mailbox.ts";
import { hostPlaces } from "../../threads/generation-spec.ts";
import type { RunRecord } from "../state/run-record.ts";
import type { Claimed } from "./claim-generation.ts";

export interface PartialRecoveryInput {
  readonly network: Network;
  readonly record: RunRecord;
  readonly job: JobSpec;
  readonly hosts: readonly HostShare[];
  readonly claimed: Claimed | undefined;
  /** The actor that failed first. */
  readonly offender: string;
}

type Answer = MessageEvent<"device.dumped">["body"];

/** Share of the step deadline within which devices must have written their parts. */
const partialRecoveryShare = 0.5;

export const recoveringPartly = fromPromise<void, PartialRecoveryInput>(
  async ({ input, signal }) => {
    const { network, record, job, hosts, claimed, offender } = input;
    if (claimed === undefined) return;
    const { store, generation } = claimed;
    const scope = { run: record.run, generation };
    const before = await store.latest();
    const left = ranksLeft(hosts, offender);
    const answers = new Map<number, Answer>();
    const [first] = left;
    if (before === undefined || first === undefined) return;
    try {
      await request({
        network,
        mailbox: openMailbox(network, scope, { role: "job", index: 0 }),
        to: left.map((index): Address => ({ role: "device", index })),
        type: "device.dump",
        body: { first },
        answer: (message) => {
          if (message.type !== "device.dumped") return undefined;
          answers.set(message.body.device, message.body);
          return { from: left.indexOf(message.body.device), answer: true };
        },
        deadlineMs: partialRecoveryShare * job.stepDeadlineMs,
        signal,
      });
    } catch (error) {
      if (!(error instanceof StepTimeoutError)) throw error; // No answer: lost too.
    }
    const surviving = left.flatMap((rank) => answers.get(rank) ?? []);
    const steps = surviving[0]?.steps ?? 0;
    const common = { job, run: record.run, generation, createdBy: network.createdBy };
    const devices = devicesOf(hosts);
    const { saved } = deadlinesOf(job);
    const committed = await store
      .within(saved)
      .commitPartial({ ...common, steps, devices, surviving });
    if (committed === undefined) return;
    const { manifest, lost } = committed;
    const { rows, samples, pls } = lost;
    const gone = Array.from({ length: devices }, (_, rank) => rank).filter(
      (one) => !answers.has(one),
    );
    const span = { fromStep: before.cut, step: manifest.cut, devices: gone };
    record.append(generation, { type: "run.partial", ...span, rows, samples, pls });
  },
);

/**
 * Ranks of the surviving devices: all but the offending device, or but those of the offending host.
 */
function ranksLeft(hosts: readonly HostShare[], offender: string): number[] {
  const [role, index] = offender.split(":");
  return hostPlaces({ hosts: [...hosts] }).flatMap(({ host, first, count }) => {
    if (role === "host" && host === Number(index)) return [];
    const ranks = Array.from({ length: count }, (_, i) => first + i);
    return role === "device" ? ranks.filter((rank) => rank !== Number(index)) : ranks;
  });
}
