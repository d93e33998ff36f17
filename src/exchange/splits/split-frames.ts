// The frames of the preprocessing service: who says what to whom. A split is a run of blocks of the
// samples (src/data/cache/blocks.ts) that a worker makes of the files, and a reader needs.
//
//   reader ──▶ master    want      all splits that it needs now or next, again and again
//   worker ──▶ master    lease     a question for a split; answered when there is one
//   worker ──▶ master    working   it lives, and makes the split
//   worker ──▶ reader    data      a part of a split's blocks, raw: of a thread to a reader of its
//                                  host no frame, but through shared memory (split-shelves.ts)
//   worker ──▶ master    done      the split is sent, or why it cannot be made
//   pool   ──▶ master    gone      a worker's thread has ended
//   master ──▶ reader    failed    why a split will not come
//   worker ──▶ master    session   a question for what the splits are of
//   master ──▶ workers   here      a run that has splits
//
// Any of them may be lost or come twice: readers say what they need until they have it, a worker
// that says nothing has lost its split to another, and blocks that come again are the same.

import { z } from "zod";
import { FrameCorruptError } from "../../errors/errors.ts";
import { decodeBody, encodeBody } from "../../wire/messages/body.ts";
import { headerOf } from "../../wire/messages/headers.ts";
import { errorRecord } from "../../wire/messages/messages.ts";
import { subjectOf } from "../../wire/messages/subjects.ts";
import type { Frame } from "../../wire/messages/transport.ts";

const count = z.int().min(0);

const split = z.object({
  stream: z.enum(["training", "evaluation", "test"]),
  /** Its blocks are first .. end-1. */
  first: count,
  end: count,
});

/** A run of blocks of one stream. */
export type Split = z.infer<typeof split>;

/** Splits that one reader may want at a time: those of a batch, and the next ones. */
export const splitsMax = 1024;

const schemas = {
  want: z.object({
    reader: count,
    /** What it waits for first. */
    splits: z.array(split).max(splitsMax),
    /** Splits that it has, and will need next. */
    buffered: count,
    /** How long it has waited for splits so far, in milliseconds. */
    stalledMs: z.number().min(0),
  }),
  lease: z.object({
    worker: z.string().min(1).max(200),
    /** The time since its last question, and how much of it was spent on splits. */
    forMs: z.number().min(0),
    busyMs: z.number().min(0),
  }),
  /** `lease`: its number; left out: there is no split now. */
  leased: z.object({
    lease: count.optional(),
    reader: count.optional(),
    split: split.optional(),
  }),
  /** The worker is at a split, and lives. */
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
  /** `version`: of the package; workers of another one might make other samples. */
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

/** What the master hears. */
export type MasterAction = "want" | "lease" | "working" | "done" | "gone" | "session";

/** The subject of what the master hears. */
export function masterSubject(place: SplitPlace, action: MasterAction): string {
  return subjectOf({ ...place, role: "splits", index: 0, action });
}

/** The subject of what a reader hears. */
export function readerSubject(
  place: SplitPlace,
  reader: number,
  action: "data" | "failed",
): string {
  return subjectOf({ ...place, role: "splits", index: 1 + reader, action });
}

/** The subject on which masters say that there is work, for workers that belong to no host. */
export function hereSubject(cluster: string): string {
  const action = "here";
  return subjectOf({ cluster, run: "cluster", generation: 0, role: "splits", index: 0, action });
}

/** A frame's payload and headers. */
export function encodeFrame<Name extends SplitFrameName>(_: Name, body: SplitFrames[Name]) {
  return encodeBody(body, "application/msgpack");
}

/** What a frame says. @throws FrameCorruptError */
export function decodeFrame<Name extends SplitFrameName>(
  name: Name,
  frame: Pick<Frame, "subject" | "headers" | "payload">,
): SplitFrames[Name] {
  const { data, error } = schemas[name].safeParse(decodeBody(frame));
  if (error !== undefined) throw new FrameCorruptError(frame.subject, `it is no \`${name}\``);
  return data as SplitFrames[Name];
}

const partHeader = "osiris-split";

/** A part of a split's bytes: where it begins, and how many bytes the split has. */
export interface SplitPart {
  readonly split: Split;
  readonly at: number;
  readonly bytes: number;
}

/** The header of a part: its bytes are the frame's payload. */
export function partHeaders({ split: { stream, first, end }, at, bytes }: SplitPart) {
  return { [partHeader]: [stream, first, end, at, bytes].join(" ") };
}

/** Which part of which split a frame has. @throws FrameCorruptError */
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

/** The name of a split, for tables of splits and for people. */
export function nameOf({ stream, first, end }: Split): string {
  return `${stream} ${first} ${end}`;
}
