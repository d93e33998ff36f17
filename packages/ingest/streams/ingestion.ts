// The state of one ingestion: the join, the columns, the open files, and their common position.

import {
  type Disk,
  IngestForeignError,
  type StoredMessage,
  type StreamFacts,
  StreamTrimmedError,
} from "../../../internal.ts";
import { FeatureColumns, inferredRows } from "./feature-columns.ts";
import type { HeldDirectory } from "./held-directory.ts";
import { type IngestSpec, settingsOf } from "./ingest-options.ts";
import { Join, type Placed } from "./join.ts";
import { type Decoded, eventIn, type FeaturesMessage, featuresIn } from "./messages.ts";
import { PartWriter } from "./part-writer.ts";
import {
  commitPosition,
  type IngestCounts,
  type IngestedFile,
  type IngestState,
  type Position,
} from "./position.ts";
import { BadMessages, type Quarantine } from "./quarantine.ts";

export interface IngestionInput {
  readonly disk: Disk;
  readonly home: string;
  readonly held: Pick<HeldDirectory, "check">;
  readonly spec: IngestSpec;
  readonly position: Position | undefined;
  readonly facts: { readonly features: StreamFacts; readonly events: StreamFacts };
}

/** The result of an ingestion. */
export interface Ingested {
  readonly directory: string;
  /** Files written by this ingestion. */
  readonly files: readonly string[];
  /** Rows after the last finished file, in the open end. */
  readonly openRows: number;
  /** Messages of features that are not joined yet, because later events may belong to them. */
  readonly waiting: number;
  readonly counts: IngestCounts;
  readonly quarantine: Quarantine;
  readonly unknownNames: readonly string[];
}

export type ReadFeatures = Decoded<FeaturesMessage> & { readonly sequence: number };

type Next = () => Promise<StoredMessage | undefined>;

export class Ingestion {
  readonly #input: IngestionInput;
  readonly #join: Join;
  readonly #columns: FeatureColumns;
  readonly #bad: BadMessages;
  readonly #counts: { featuresMessages: number; eventsMessages: number };
  readonly #written: string[] = [];
  #position: Position;
  /** Sequence of the last message taken from each stream. */
  #featuresAt: number;
  #eventsAt: number;
  #part: PartWriter;
  /** Index of the time span in which the part's first row was added. */
  #span = 0;

  /** @throws IngestForeignError where the position belongs to other options or streams */
  constructor(input: IngestionInput) {
    const { spec, position, facts } = input;
    this.#input = input;
    const begun = { features: facts.features.first, events: facts.events.first };
    const none = { version: 1, parts: 0, files: [] } as const;
    this.#position = position ?? { ...none, settings: settingsOf(spec), begun };
    checkPosition(input);
    const finished = position?.finished;
    const { features, events, counts, quarantine } = finished ?? {};
    const places = features && events && { features: features.resume, events: events.resume };
    this.#join = new Join(spec, places, counts);
    const { unknownValues = 0, featuresMessages = 0, eventsMessages = 0 } = counts ?? {};
    const names = [...(finished?.unknownNames ?? [])];
    this.#columns = new FeatureColumns(spec, position?.columns, { count: unknownValues, names });
    this.#bad = new BadMessages(spec.quarantineMax, quarantine);
    this.#counts = { featuresMessages, eventsMessages };
    this.#featuresAt = features?.sequence ?? this.#position.begun.features - 1;
    this.#eventsAt = events?.sequence ?? this.#position.begun.events - 1;
    this.#part = this.#newPart();
  }

  /** The first message to read from each stream. */
  get from(): { readonly features: number; readonly events: number } {
    const { finished, begun } = this.#position;
    if (finished === undefined) return begun;
    const { features, events } = finished;
    return { features: features.resume.sequence, events: events.resume.sequence };
  }

  get rows(): number {
    return this.#join.counts.rows;
  }

  /**
   * Rebuilds the join's window as of the end of the last finished file, by replaying messages.
   * Resolves to false if the ingestion was stopped before the replay was complete.
   */
  async replay(nextFeatures: Next, nextEvent: Next, isStopped: () => boolean): Promise<boolean> {
    const { finished } = this.#position;
    if (finished === undefined) return true;
    const { spec, home } = this.#input;
    const { features, events } = finished;
    for await (const message of behind(features, nextFeatures, isStopped)) {
      const decoded = this.read(message);
      if (decoded.kind !== "bad") this.#join.replayFeatures(decoded);
    }
    for await (const message of behind(events, nextEvent, isStopped)) {
      const decoded = eventIn(message, spec);
      if (decoded.kind !== "bad")
        this.#join.replayEvent({ ...decoded, sequence: message.sequence });
    }
    if (isStopped()) return false;
    const isSame =
      this.#join.featuresMs === features.timeMs && this.#join.eventsMs === events.timeMs;
    if (isSame) return true;
    throw new IngestForeignError(home, "its files are not those of its streams' messages");
  }

  read(message: StoredMessage): ReadFeatures {
    const { sequence } = message;
    const decoded = featuresIn(message, this.#input.spec);
    const fault =
      decoded.kind === "message" ? this.#columns.faultOf(decoded.message.features) : undefined;
    return fault === undefined ? { ...decoded, sequence } : { kind: "bad", fault, sequence };
  }

  needsEvents(decoded: ReadFeatures): boolean {
    return decoded.kind !== "bad" && this.#join.needsEvents(decoded);
  }

  takeEvent(message: StoredMessage): void {
    const { sequence } = message;
    const { spec } = this.#input;
    const decoded = eventIn(message, spec);
    this.#eventsAt = sequence;
    this.#counts.eventsMessages++;
    this.#bad.add(spec.events, sequence, decoded.kind === "bad" ? decoded.fault : undefined);
    if (decoded.kind !== "bad") this.#join.takeEvent({ ...decoded, sequence });
  }

  /** Takes features that need no more events. Returns the files that this message finishes. */
  takeFeatures(decoded: ReadFeatures): readonly string[] {
    const { spec } = this.#input;
    this.#featuresAt = decoded.sequence;
    this.#counts.featuresMessages++;
    this.#bad.add(
      spec.features,
      decoded.sequence,
      decoded.kind === "bad" ? decoded.fault : undefined,
    );
    if (decoded.kind !== "bad") this.#takeGood(decoded);
    return this.#isPartFull() ? this.#finish() : [];
  }

  /** Writes the open end and returns the result. `last`: the features stream's last sequence. */
  end(last: number): Ingested {
    const openRows = this.#writeOpen();
    const { counts, quarantine, unknownNames } = this.#state();
    return {
      directory: this.#input.home,
      files: this.#written,
      openRows,
      waiting: Math.max(0, last - this.#featuresAt),
      counts,
      quarantine,
      unknownNames,
    };
  }

  /** Closes open files without committing them. */
  discard(): void {
    this.#part.discard();
  }

  #takeGood(decoded: Placed<FeaturesMessage>): void {
    const row = this.#join.takeFeatures(decoded);
    if (row === undefined) return;
    this.#columns.learn(row.features);
    if (this.#part.rows === 0) this.#span = this.#spanAt(0);
    this.#part.add(row);
    if (this.#columns.fixed !== undefined || this.#part.rows < inferredRows) return;
    this.#columns.fix();
    this.#part.writeUntyped();
  }

  /** Index of the time span of the features' time, less `agoMs`. */
  #spanAt(agoMs: number): number {
    return Math.floor(((this.#join.featuresMs ?? 0) - agoMs) / this.#input.spec.fileSpanMs);
  }

  #isPartFull(): boolean {
    const { fileRows, latenessMs } = this.#input.spec;
    if (this.#part.rows === 0) return false;
    return this.#part.rows >= fileRows || this.#spanAt(latenessMs) > this.#span;
  }

  /** Finishes the current files and commits the position. I2 */
  #finish(): readonly string[] {
    this.#bad.check(this.#input.spec.rejectedMax);
    const columns = this.#columns.fix();
    const files = this.#part.end(this.#stretch(), false);
    const { open: _, ...before } = this.#position;
    const parts = before.parts + 1;
    this.#commit({ ...before, columns, finished: this.#state(), parts, files }, files);
    this.#bad.beginFile();
    this.#part = this.#newPart();
    return files.map(({ path }) => path);
  }

  /** Writes the open end, unless a longer one exists. Returns its number of rows. */
  #writeOpen(): number {
    const { open } = this.#position;
    // An open end that reaches further was left by an ingestion that was stopped later.
    const [at, eventsAt] = [open?.state.features.sequence ?? -1, open?.state.events.sequence ?? -1];
    const isFurther =
      at > this.#featuresAt || (at === this.#featuresAt && eventsAt >= this.#eventsAt);
    if (open !== undefined && isFurther) {
      this.#part.remove();
      return rowsOf(open.files);
    }
    if (this.#part.rows === 0) return 0;
    this.#bad.check(this.#input.spec.rejectedMax);
    this.#columns.fix();
    const files = this.#part.end(this.#stretch(), true);
    this.#commit({ ...this.#position, open: { state: this.#state(), files } }, files);
    return rowsOf(files);
  }

  #commit(position: Position, files: readonly IngestedFile[]): void {
    const { disk, home, held } = this.#input;
    held.check();
    commitPosition(disk, home, position, this.#position);
    this.#position = position;
    this.#written.push(...files.map(({ path }) => path));
  }

  #newPart(): PartWriter {
    const { disk, home, spec } = this.#input;
    return new PartWriter(disk, { home, spec, first: this.#featuresAt + 1 }, this.#columns);
  }

  #stretch() {
    const { spec } = this.#input;
    const { first } = this.#part;
    return {
      features: { stream: spec.features, first, last: this.#featuresAt },
      events: { stream: spec.events, last: this.#eventsAt },
    };
  }

  #state(): IngestState {
    const { spec, facts } = this.#input;
    const resume = this.#join.resume(this.#featuresAt, this.#eventsAt);
    const quarantine = this.#bad.quarantine;
    const { count: unknownValues, names } = this.#columns.unknown;
    return {
      features: {
        stream: spec.features,
        created: facts.features.created,
        sequence: this.#featuresAt,
        timeMs: this.#join.featuresMs,
        resume: resume.features,
      },
      events: {
        stream: spec.events,
        created: facts.events.created,
        sequence: this.#eventsAt,
        timeMs: this.#join.eventsMs,
        resume: resume.events,
      },
      counts: {
        ...this.#join.counts,
        ...this.#counts,
        badMessages: quarantine.count,
        unknownValues,
      },
      quarantine,
      unknownNames: [...names],
    };
  }
}

/**
 * The messages of a stream from the replay position to the last one taken. @throws
 * StreamTrimmedError where some are no longer in the stream
 */
async function* behind(
  { stream, sequence, resume }: IngestState["features"],
  next: Next,
  isStopped: () => boolean,
): AsyncGenerator<StoredMessage> {
  let at = resume.sequence - 1;
  while (at < sequence) {
    const message = await next();
    if (message === undefined && isStopped()) return;
    if (message === undefined || message.sequence > sequence) {
      throw new StreamTrimmedError(stream, at + 1, message?.sequence ?? sequence + 1);
    }
    at = message.sequence;
    yield message;
  }
}

/** Checks that the position belongs to these options and streams. @throws IngestForeignError */
function checkPosition({ home, spec, position, facts, disk }: IngestionInput): void {
  if (position === undefined) return;
  const requested = Object.entries(settingsOf(spec));
  const settings: Readonly<Record<string, unknown>> = position.settings;
  const other = requested.find(([name, value]) => {
    return JSON.stringify(settings[name]) !== JSON.stringify(value);
  });
  if (other !== undefined) {
    const [name, value] = other;
    const [was, is] = [settings[name], value].map((one) => JSON.stringify(one));
    throw new IngestForeignError(home, `it was ingested with \`${name}\` ${was}, not ${is}`);
  }
  for (const stream of ["features", "events"] as const) {
    const before = (position.open?.state ?? position.finished)?.[stream];
    if (before === undefined) continue;
    const { created, last } = facts[stream];
    if (created !== before.created || last < before.sequence) {
      throw new IngestForeignError(home, `the stream ${spec[stream]} was created again since`);
    }
  }
  const gone = position.open?.files.find(({ path }) => !disk.exists(`${home}/${path}`));
  if (gone !== undefined) {
    throw new IngestForeignError(home, `its file ${gone.path} is missing`);
  }
}

function rowsOf(files: readonly IngestedFile[]): number {
  return files.reduce((sum, { rows }) => sum + rows, 0);
}
