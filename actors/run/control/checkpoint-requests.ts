// Requests of the training coordinator around a cut: to the checkpoint coordinator, and to the tiers
// that keep rows beside a checkpoint.

import { fromPromise } from "xstate";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { durableRanks } from "../../../storage/tiers/shape.ts";
import { type Address, type MessageEvent, request } from "../../runtime/mailbox.ts";
import type { RequestInput } from "./coordinator-requests.ts";

const checkpoint: Address = { role: "checkpoint", index: 0 };

/** Resolves once all devices have taken this cut, after which they may train on. */
export const cutting = fromPromise<MessageEvent<"checkpoint.taken">["body"], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, job, metrics, step, arithmetic, command, plan } = input;
    const [taken] = await request({
      network,
      mailbox,
      to: [checkpoint],
      type: "checkpoint.cut",
      body: {
        ...{ command, cut: step, arithmetic, best: metrics.isBest, metrics },
        means: plan?.means,
      },
      answer: (message) =>
        message.type === "checkpoint.taken" && message.body.command === command
          ? { from: 0, answer: message.body }
          : undefined,
      deadlineMs: deadlinesOf(job).cut,
      signal,
    });
    if (taken === undefined) throw new RangeError("Nothing was taken");
    return taken;
  },
);

/** Resolves once the checkpoint that the writers are writing is committed. */
export const committing = fromPromise<MessageEvent<"checkpoint.committed">["body"], RequestInput>(
  async ({ input, signal }) => {
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
  },
);

/**
 * Has durable tiers flush their rows beside the last checkpoint; resolves to one answer per tier.
 */
export const persisting = fromPromise<MessageEvent<"tier.persisted">["body"][], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, job, manifest, command, layout } = input;
    const hasDurable = job.model.tables.some(({ keep }) => keep === "durable");
    const devices = hasDurable && layout !== undefined ? durableRanks(layout().topology) : [];
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
  },
);
