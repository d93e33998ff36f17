// Joins two streams into a table of Parquet files. The table's position records how far both
// streams were read. After a stop or crash at any point, the next ingestion resumes from there, and
// the files equal those of an uninterrupted ingestion.
//
//   features ──▶ ┌──────┐  rows   ┌────────────┐  files, then their position
//   events   ──▶ │ join │ ──────▶ │ PartWriter │ ──────────▶ directory
//                └──────┘         └────────────┘
//
// Invariants
//   I1. The order in which messages are taken depends only on the messages: events are taken until
//       the next message of features needs no more of them, then this message. The ends of files
//       depend only on the messages, too.
//   I2. A finished file has all rows of its range of messages in the features' stream. The rows
//       after the last finished file are the open end: the next ingestion makes them again.
//   I3. A message is identified by its stream and sequence; a redelivered message is skipped.

import {
  type Clock,
  type Disk,
  makeDurableDirectory,
  onDisk,
  realClock,
  realDisk,
  type StoredMessage,
  type StreamFacts,
  type StreamSource,
} from "../../../internal.ts";
import { readyCodec } from "../warehouse/codecs.ts";
import { holdDirectory } from "./held-directory.ts";
import { type IngestJoinOptions, resolveIngest } from "./ingest-options.ts";
import { type Ingested, Ingestion } from "./ingestion.ts";
import { openPosition } from "./position.ts";

/** Options of an ingestion besides its join. */
export interface IngestRunOptions {
  /** Whether to keep reading new messages until the signal, instead of the present ones only. */
  readonly follow?: boolean | undefined;
  /** Stops the ingestion, after the rows read so far are written. */
  readonly signal?: AbortSignal | undefined;
  /** Called when files are finished, and at intervals while messages are read. */
  readonly onProgress?: ((progress: IngestProgress) => void) | undefined;
  /** @default the machine's own */
  readonly disk?: Disk | undefined;
  /** @default the machine's own */
  readonly clock?: Clock | undefined;
}

/** The progress of an ingestion. */
export interface IngestProgress {
  /** Messages of both streams read so far, and the number to read that were there at the start. */
  readonly read: number;
  readonly total: number;
  /** Files finished since the last call; usually none. */
  readonly finished: readonly string[];
  readonly rows: number;
}

/** The result of an ingestion. */
export interface IngestReport extends Ingested {
  /** Whether the signal stopped it. */
  readonly stopped: boolean;
}

/**
 * Ingests two streams of `source` into the directory `out`.
 * @throws InvalidOptionError, IngestForeignError, StreamTrimmedError, WindowFullError,
 * DataRejectedError; StoreFailedError where the disk fails, TransportLostError
 */
export async function ingestStreams(
  source: StreamSource,
  options: IngestJoinOptions,
  run: IngestRunOptions = {},
): Promise<IngestReport> {
  const spec = resolveIngest(options);
  await readyCodec(spec.codec);
  const { disk = realDisk, signal = new AbortController().signal } = run;
  const home = spec.out.replace(/(?<=.)\/+$/, "");
  onDisk("write", home, () => makeDurableDirectory(disk, home));
  using held = holdDirectory(disk, home, run.clock ?? realClock);
  const position = openPosition(disk, home);
  const facts = {
    features: await source.facts(spec.features),
    events: await source.facts(spec.events),
  };
  const ingestion = new Ingestion({ disk, home, held, spec, position, facts });
  const from = ingestion.from;
  const total = leftOf(facts.features, from.features) + leftOf(facts.events, from.events);
  const inner = new AbortController();
  const stop = () => inner.abort();
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  const reader = (stream: "features" | "events") => {
    const { created, last } = facts[stream];
    const until = run.follow === true ? undefined : last;
    return source.read(spec[stream], { created, from: from[stream], until, signal: inner.signal });
  };
  const features = reader("features");
  const events = reader("events");
  const counted = { read: 0 };
  const publish = (finished: readonly string[] = []) => {
    const { read } = counted;
    run.onProgress?.({ read, total: Math.max(total, read), finished, rows: ingestion.rows });
  };
  // I3
  const inOrder = (stream: AsyncGenerator<StoredMessage, void>): Next => {
    let last = 0;
    return async () => {
      for (;;) {
        const { value } = await stream.next();
        if (!value) return undefined;
        if (value.sequence <= last) continue;
        last = value.sequence;
        if (++counted.read % reportEvery === 0) publish();
        return value;
      }
    };
  };
  try {
    const [nextFeatures, nextEvent] = [inOrder(features), inOrder(events)];
    if (await ingestion.replay(nextFeatures, nextEvent, () => signal.aborted)) {
      await pump(ingestion, { features: nextFeatures, events: nextEvent, publish });
    }
    return { ...ingestion.end(facts.features.last), stopped: signal.aborted };
  } finally {
    ingestion.discard();
    signal.removeEventListener("abort", stop);
    stop();
    await Promise.all([features.return(), events.return()]);
  }
}

/** Messages between two calls of `onProgress`. */
const reportEvery = 1000;

type Next = () => Promise<StoredMessage | undefined>;

/** Takes messages until a stream ends. I1 */
async function pump(
  ingestion: Ingestion,
  streams: { features: Next; events: Next; publish: (finished: readonly string[]) => void },
): Promise<void> {
  for (;;) {
    const message = await streams.features();
    if (message === undefined) return;
    const decoded = ingestion.read(message);
    while (ingestion.needsEvents(decoded)) {
      const event = await streams.events();
      if (event === undefined) return;
      ingestion.takeEvent(event);
    }
    const finished = ingestion.takeFeatures(decoded);
    if (finished.length > 0) streams.publish(finished);
  }
}

function leftOf({ last }: StreamFacts, from: number): number {
  return Math.max(0, last - from + 1);
}
