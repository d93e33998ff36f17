// The timeline of a thread: records of its latest work, with times, in a ring of shared memory that
// the host reads for `osiris trace`. Only the thread writes, and it never waits: the oldest records
// are overwritten. No computation reads a timeline.
//
//   bytes 0..7      number of records written so far, float64
//   then, of each   kind · what · step · fromMs · toMs · bytes · peer · id, float64
//
// Invariant
//   T1. A record that may have been overwritten while it was read is left out.

/** The kind of a record. `what` is an index in the list that is named beside the kind. */
export const timelineKinds = [
  "task", // of a device's step: `stepTasks`
  "wait", // of a device: `waitedFor`
  "read", // of a reader: a batch
  "write", // of a writer: a part of a checkpoint
  "sent", // of a bridge: a piece of a channel's round left over the broker, `flownChannels`
  "landed", // of a bridge: a whole round arrived over the broker
  "sentDirect", // over a direct link
  "landedDirect",
] as const;

export type TimelineKind = (typeof timelineKinds)[number];

export interface TimelineRecord {
  readonly kind: TimelineKind;
  readonly what: number;
  /** The step; for a bridge, the round of the route. */
  readonly step: number;
  /** Milliseconds since 1970. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly bytes: number;
  /** The other host's index in the generation. */
  readonly peer: number;
  /** The route: the same number at both ends. */
  readonly id: number;
}

export interface Timeline {
  add(
    kind: TimelineKind,
    what: number,
    step: number,
    fromMs: number,
    toMs: number,
    bytes?: number,
    peer?: number,
    id?: number,
  ): void;
}

const fields = 8;

/** Bytes of a timeline of this many records. */
export function timelineBytes(records: number): number {
  return 8 * (1 + fields * records);
}

/** The timeline in `memory`, from byte `first` on, for its own thread. */
export function openTimeline(memory: SharedArrayBuffer, first: number, records: number): Timeline {
  const ring = new Float64Array(memory, first, 1 + fields * records);
  let written = 0;
  return {
    add(kind, what, step, fromMs, toMs, bytes = 0, peer = 0, id = 0) {
      const at = 1 + fields * (written % records);
      ring[at] = codes[kind];
      ring[at + 1] = what;
      ring[at + 2] = step;
      ring[at + 3] = fromMs;
      ring[at + 4] = toMs;
      ring[at + 5] = bytes;
      ring[at + 6] = peer;
      ring[at + 7] = id;
      ring[0] = ++written;
    },
  };
}

const codes = Object.fromEntries(timelineKinds.map((kind, code) => [kind, code])) as Readonly<
  Record<TimelineKind, number>
>;

/** The records of a timeline that are not overwritten yet, oldest first. */
export function readTimeline(
  memory: SharedArrayBuffer,
  first: number,
  records: number,
): TimelineRecord[] {
  const ring = new Float64Array(memory, first, 1 + fields * records);
  const written = ring[0] ?? 0;
  const copy = ring.slice(1);
  const overwritten = (ring[0] ?? 0) + 1 - records; // One may be half written. T1
  const found: TimelineRecord[] = [];
  for (let at = Math.max(0, written - records, overwritten); at < written; at++) {
    const [code = 0, what = 0, step = 0, fromMs = 0, toMs = 0, bytes = 0, peer = 0, id = 0] =
      copy.subarray(fields * (at % records), fields * (at % records) + fields);
    const kind = timelineKinds[code];
    if (kind !== undefined) found.push({ kind, what, step, fromMs, toMs, bytes, peer, id });
  }
  return found;
}
