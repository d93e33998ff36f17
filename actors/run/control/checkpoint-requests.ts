// Requests of the training coordinator around a cut: to the checkpoint coordinator, and to tiers
// that keep rows beside a checkpoint.

import { fromPromise } from "xstate";
import type { JobSpec } from "../../../src/job/job.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { durableRanks } from "../../../storage/tiers/shape.ts";
import type { HostShare } from "../../host/membership.ts";
import {
  type Address,
  type Mailbox,
  type MessageEvent,
  type Network,
  request,
} from "../../runtime/mailbox.ts";
import type { GenerationLayout } from "../../threads/generation-layout.ts";
import type { DataPlan } from "../../threads/generation-schema.ts";
import { hostPlaceOf } from "../../threads/generation-spec.ts";
import type { RunMetrics } from "../state/run-metrics.ts";
import type { RunStore } from "./run-store.ts";
import { type Transfer, transferDeadlines } from "./transfer-deadlines.ts";

/** The part of the coordinator's context from which these requests are built. */
export interface CheckpointRequestInput extends Omit<Transfer, "job" | "hosts"> {
  readonly hosts: readonly HostShare[];
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly job: JobSpec;
  readonly command: number;
  readonly plan: DataPlan | undefined;
  /** Hash of the newest checkpoint's manifest. */
  readonly manifest: string | undefined;
  readonly step: number;
  readonly metrics: RunMetrics;
  readonly arithmetic: string;
  readonly sets: readonly string[];
  /** Undefined until the generation is assembled. */
  readonly layout: (() => GenerationLayout) | undefined;
  /** The cut that was taken and is not committed yet. */
  readonly taken: { readonly step: number } | undefined;
  readonly leaving: readonly number[];
  readonly left: readonly number[];
}

const checkpoint: Address = { role: "checkpoint", index: 0 };

/** Resolves once all devices have taken this cut, after which they may train on. */
export const cutting = fromPromise<
  MessageEvent<"checkpoint.taken">["body"],
  CheckpointRequestInput
>(async ({ input, signal }) => {
  const { network, mailbox, metrics, step, arithmetic, sets, command, plan, leaving } = input;
  const [taken] = await request({
    network,
    mailbox,
    to: [checkpoint],
    type: "checkpoint.cut",
    body: {
      ...{ command, cut: step, arithmetic, sets: [...sets], best: metrics.isBest, metrics },
      means: plan?.means,
      leaving: [...leaving],
    },
    answer: (message) =>
      message.type === "checkpoint.taken" && message.body.command === command
        ? { from: 0, answer: message.body }
        : undefined,
    deadlineMs: transferDeadlines(input).cut,
    signal,
  });
  if (taken === undefined) throw new RangeError("Nothing was taken");
  return taken;
});

/** Resolves once the checkpoint that the writers are writing is committed. */
export const committing = fromPromise<
  MessageEvent<"checkpoint.committed">["body"],
  CheckpointRequestInput
>(async ({ input, signal }) => {
  const { network, mailbox, taken } = input;
  const [committed] = await request({
    network,
    mailbox,
    to: [checkpoint],
    type: "checkpoint.commit",
    body: { cut: taken?.step ?? 0 },
    answer: (message) =>
      message.type === "checkpoint.committed" && message.body.cut === taken?.step
        ? { from: 0, answer: message.body }
        : undefined,
    deadlineMs: Number.POSITIVE_INFINITY, // The checkpoint coordinator has the deadline.
    signal,
  });
  if (committed === undefined) throw new RangeError("Nothing was committed");
  return committed;
});

/** The checkpoints that the store has at the end of the run. */
export const listing = fromPromise<
  Awaited<ReturnType<RunStore["list"]>>,
  { readonly store: RunStore }
>(({ input }) => input.store.list());

/**
 * Has durable tiers flush their rows beside the last checkpoint; resolves to one answer per tier.
 */
export const persisting = fromPromise<
  MessageEvent<"tier.persisted">["body"][],
  CheckpointRequestInput
>(async ({ input, signal }) => {
  const { network, mailbox, job, manifest, command, layout, left } = input;
  const hosts = [...input.hosts];
  const hasDurable = job.model.tables.some(({ keep }) => keep === "durable");
  const ranks = hasDurable && layout !== undefined ? durableRanks(layout().topology) : [];
  const devices = ranks.filter((rank) => !left.includes(hostPlaceOf({ hosts }, rank).host));
  if (devices.length === 0 || manifest === undefined) return [];
  return await request({
    network,
    mailbox,
    to: devices.map((index) => ({ role: "tier", index })),
    type: "tier.persist",
    body: { command, manifest },
    answer: (message) =>
      message.type === "tier.persisted" && message.body.command === command
        ? { from: devices.indexOf(message.body.device), answer: message.body }
        : undefined,
    // All dirty rows are flushed: as much disk traffic as in many steps.
    deadlineMs: deadlinesOf(job).persist,
    signal,
  });
});
