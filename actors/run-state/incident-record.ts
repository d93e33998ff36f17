// An incident, as events and results publish it (docs/wire.md): first cause first, then what was
// done, then how it ended. Types follow from the schemas.

import { z } from "zod";
import { errorRecord } from "../../src/wire/messages/messages.ts";
import type { Wait } from "../runtime/wait-graph.ts";

const count = z.int().min(0);
const list = <Item extends z.ZodType>(item: Item) => z.array(item).readonly();

const wait: z.ZodType<Wait> = z.object({
  who: z.string(),
  whom: z.string(),
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
    /** The message that it was at, or the part of its life. */
    context: z.string(),
    error: errorRecord,
    host: count.optional(),
    /** Steps that were done. */
    step: count.optional(),
    /** The batch of the step that came next: its pass, and its number in it, both from 0. */
    batch: z.object({ pass: count, index: count }).readonly().optional(),
    /** Who noticed, where the offender itself said nothing. */
    noticedBy: z.string().optional(),
    /** Who waited for whom. */
    waits: list(wait).optional(),
  })
  .readonly();

/** First cause: what, where and when. */
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

/** What a supervisor did about an incident. */
export type IncidentAction = z.output<typeof incidentAction>;

export const incidentEnd = z
  .object({
    /** `restored`: from a checkpoint; `mended`: without; `failed`: the run ended by it. */
    how: z.enum(["restored", "mended", "failed"]),
    /** The generation that goes on, and the step from which. */
    generation: count,
    step: count,
    /** From when it was noticed to the first step after it. */
    ...afterMs,
  })
  .readonly();

/** How an incident ended. */
export type IncidentEnd = z.output<typeof incidentEnd>;

const followed = { actor: z.string(), code: z.string(), message: z.string(), ...afterMs };
export const incidentRecord = incidentCause
  .unwrap()
  .extend({
    generation: count,
    /** What failed because of it, as far as it was heard of. */
    followed: list(z.object(followed)),
    actions: list(incidentAction),
    /** Left out while it lasts. */
    end: incidentEnd.optional(),
  })
  .readonly();

/** One incident, whole. */
export type IncidentRecord = z.output<typeof incidentRecord>;
