// The frames of the preprocessing service. A split is a run of blocks of samples
// (src/data/cache/blocks.ts) that a worker makes from the files, and a reader needs.
//
//   reader ──▶ master    want      all splits that it needs now or next, repeated until they arrive
//   worker ──▶ master    lease     a request for a split; answered when there is one
//   worker ──▶ master    working   the worker is alive, and makes the split
//   worker ──▶ reader    data      a part of a split's blocks, raw; between threads of one host no
//                                  frame, but shared memory (split-shelves.ts)
//   worker ──▶ master    done      the split is sent, or why it cannot be made
//   pool   ──▶ master    gone      a worker's thread has ended
//   master ──▶ reader    failed    why a split will not come
//   worker ──▶ master    session   a request for the session: the data that splits are made from
//   master ──▶ workers   here      a run that has splits
//
// Any frame may be lost or duplicated: readers repeat their requests until they are served, a
// worker that stops reporting loses its split to another, and repeated blocks are identical.

import { z } from "zod";
import { FrameCorruptError } from "../../errors/errors.ts";
import { decodeBody, encodeBody } from "../../wire/messages/body.ts";
import { errorRecord } from "../../wire/messages/fields.ts";
import { headerOf } from "../../wire/messages/headers.ts";
import { subjectOf } from "../../wire/messages/subjects.ts";
import type { Frame } from "../../wire/messages/transport.ts";

const count = z.int().min(0);

const split = z.object({
  stream: z.enum(["training", "evaluation", "test"]),
  /** Blocks first .. end-1. */
  first: count,
  end: count,
});

/** A run of blocks of one stream. */
export type Split = z.infer<typeof split>;

/** Most splits that one reader may request at a time: those of a batch, and the next ones. */
export const splitsMax = 1024;

const schemas = {
  want: z.object({
    reader: count,
    /** The requested splits, most urgent first. */
    splits: z.array(split).max(splitsMax),
    /** Splits that the reader holds and will need next. */
    buffered: count,
    /** Total time for which the reader has waited for splits, in milliseconds. */
    stalledMs: z.number().min(0),
  }),
  lease: z.object({
    worker: z.string().min(1).max(200),
    /** Time since the worker's last request, and the part of it that was spent on splits. */
    forMs: z.number().min(0),
    busyMs: z.number().min(0),
  }),
  /** `lease`: the number of the lease; left out: there is no split now. */
  leased: z.object({
    lease: count.optional(),
    reader: count.optional(),
    split: split.optional(),
  }),
  /** A worker's heartbeat while it makes a split. */
  working: z.object({ worker: z.string().min(1).max(200), lease: count }),
  done: z.object({
    worker: z.string(),
    lease: count,
    samples: count,
    error: errorRecord.optional(),
  }),
  gone: z.object({ worker: z.string() }),
  failed: z.object({ split, error: errorRecord }),
  session: z.object({ session: z.unknown() }),
  /** `version`: of the package; workers of another version might make other samples. */
  here: z.object({ run: z.string(), generation: count, version: z.string() }),
};

export type SplitFrames = {
  readonly [Name in keyof typeof schemas]: z.infer<(typeof schemas)[Name]>;
};
export type SplitFrameName = keyof typeof schemas;

/** The run and generation that a service serves, in its cluster. */
export interface SplitPlace {
  readonly cluster: string;
  readonly run: string;
  readonly generation: number;
}

/** Actions that the master receives. */
export type MasterAction = "want" | "lease" | "working" | "done" | "gone" | "session";

/** The subject of an action that the master receives. */
export function masterSubject(place: SplitPlace, action: MasterAction): string {
  return subjectOf({ ...place, role: "splits", index: 0, action });
}

/** The subject of an action that a reader receives. */
export function readerSubject(
  place: SplitPlace,
  reader: number,
  action: "data" | "failed",
): string {
  return subjectOf({ ...place, role: "splits", index: 1 + reader, action });
}

/** The subject on which masters announce work, for workers that belong to no host. */
export function hereSubject(cluster: string): string {
  const action = "here";
  return subjectOf({ cluster, run: "cluster", generation: 0, role: "splits", index: 0, action });
}

/** A frame's payload and headers. */
export function encodeFrame<Name extends SplitFrameName>(_: Name, body: SplitFrames[Name]) {
  return encodeBody(body, "application/msgpack");
}

/** Decodes a frame. @throws FrameCorruptError */
export function decodeFrame<Name extends SplitFrameName>(
  name: Name,
  frame: Pick<Frame, "subject" | "headers" | "payload">,
): SplitFrames[Name] {
  const { data, error } = schemas[name].safeParse(decodeBody(frame));
  if (error !== undefined) throw new FrameCorruptError(frame.subject, `it is no \`${name}\``);
  return data as SplitFrames[Name];
}

const partHeader = "osiris-split";

/** A part of a split's bytes: its offset `at`, and the size of the split. */
export interface SplitPart {
  readonly split: Split;
  readonly at: number;
  readonly bytes: number;
}

/** The header of a part: its bytes are the frame's payload. */
export function partHeaders({ split: { stream, first, end }, at, bytes }: SplitPart) {
  return { [partHeader]: [stream, first, end, at, bytes].join(" ") };
}

/** Reads which part of which split a frame holds. @throws FrameCorruptError */
export function partOf({ subject, headers, payload }: Frame): SplitPart {
  const [stream, ...numbers] = (headerOf(headers, partHeader) ?? "").split(" ");
  const [first, end, at = -1, bytes = -1] = numbers.map(Number);
  const { data } = split.safeParse({ stream, first, end });
  const isPart = Number.isSafeInteger(at) && Number.isSafeInteger(bytes) && at >= 0;
  if (data === undefined || !isPart || at + payload.length > bytes) {
    throw new FrameCorruptError(subject, "it is no part of a split");
  }
  return { split: data, at, bytes };
}

/** The name of a split, as a map key and for display. */
export function nameOf({ stream, first, end }: Split): string {
  return `${stream} ${first} ${end}`;
}
