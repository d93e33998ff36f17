// An incident, as events and results publish it (docs/wire.md): first cause, actions, end. Types
// follow from the schemas.

import { z } from "zod";
import { errorRecord } from "../../../src/wire/messages/fields.ts";
import type { Wait } from "../../runtime/wait-graph.ts";

const count = z.int().min(0);
const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();

const wait: z.ZodType<Wait> = z.object({
  waiter: z.string(),
  awaited: z.string(),
  what: z.string(),
  forMs: z.number(),
  step: count.optional(),
});

export const incidentCause = z
  .object({
    /** Counted from 1 in a run. */
    incident: count,
    /** When it was noticed: ISO 8601. */
    at: z.string(),
    /** The actor that failed: `device:1`. */
    offender: z.string(),
    supervisor: z.string(),
    /** The message that the actor was processing, or the phase of its life cycle. */
    context: z.string(),
    error: errorRecord,
    host: count.optional(),
    /** Completed steps. */
    step: count.optional(),
    /** The batch of the next step: its epoch, and its index in the epoch, both from 0. */
    batch: z.object({ pass: count, index: count }).readonly().optional(),
    /** The actor that noticed the failure, where the offender did not report it. */
    noticedBy: z.string().optional(),
    /** Which actors waited for which, at the time of the failure. */
    waits: list(wait).optional(),
  })
  .readonly();

/** First cause of an incident: error, actor, host, time and step. */
export type IncidentCause = z.output<typeof incidentCause>;

const afterMs = { afterMs: z.number() };
export const incidentAction = z
  .object({
    /** `host:1`, `job:r1` */
    by: z.string(),
    did: z.string(),
    /** Since the incident was noticed. */
    ...afterMs,
  })
  .readonly();

/** An action of a supervisor during an incident. */
export type IncidentAction = z.output<typeof incidentAction>;

export const incidentEnd = z
  .object({
    /**
     * `restored`: from a checkpoint; `mended`: without one; `failed`: the incident ended the run.
     */
    how: z.enum(["restored", "mended", "failed"]),
    /** The generation that continues the run, and its first step. */
    generation: count,
    step: count,
    /** From noticing the incident to the first step after it. */
    ...afterMs,
  })
  .readonly();

export type IncidentEnd = z.output<typeof incidentEnd>;

const followed = { actor: z.string(), code: z.string(), message: z.string(), ...afterMs };
export const incidentRecord = incidentCause
  .unwrap()
  .extend({
    generation: count,
    /** Secondary failures, as far as they were reported. */
    followed: list(z.object(followed)),
    actions: list(incidentAction),
    /** Left out while the incident is open. */
    end: incidentEnd.optional(),
  })
  .readonly();

/** One incident: first cause, secondary failures, actions and end. */
export type IncidentRecord = z.output<typeof incidentRecord>;
