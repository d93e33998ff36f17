// The log of a run: the lines that its processes wrote about it, stored beside its checkpoints, so
// that the lines outlive the process. Its size is bounded. It is for people; nothing is restored
// from it (law 6). An object store, which appends nothing, keeps no lines.
//
//   logs/leader-000000000000.jsonl      JSON lines of source `leader`, from byte 0 of its log on
//   logs/host-1-000000524301.jsonl
//
// Invariants
//   L1. A source is one process at a time. A line is appended whole; a torn line is ignored.
//   L2. A line that cannot be written is lost. The writer neither waits nor fails.

import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { isObjectAddress } from "../../src/ports/object-store.ts";

/** A source starts a new file once its current one has this size. */
const segmentBytesMax = 512 * 1024;
/** Files kept for each source; the oldest is removed. */
const segmentsMax = 4;

interface Segment {
  readonly path: string;
  readonly source: string;
  /** Offset of its first byte in the source's whole log. */
  readonly from: number;
}

function folderOf(directory: string): string | undefined {
  return isObjectAddress(directory) ? undefined : join(directory, "logs");
}

/** The log writer of one source. */
export class RunLog {
  /** Undefined: no lines are kept. */
  readonly #folder: string | undefined;
  readonly #source: string;
  #segment: Segment | undefined;
  #bytes = 0;

  /** `source`: letters, digits and `-`. */
  constructor(directory: string, source: string) {
    this.#folder = folderOf(directory);
    this.#source = source;
  }

  /** Appends a line of JSON; `append` adds the line's end. L2 */
  append(line: string): void {
    if (this.#folder === undefined) return;
    try {
      const segment = this.#room(this.#folder);
      appendFileSync(segment.path, `${line}\n`);
      this.#bytes += Buffer.byteLength(line) + 1;
    } catch {
      this.#segment = undefined; // The next line opens the newest file again.
    }
  }

  #room(folder: string): Segment {
    if (this.#segment === undefined) {
      mkdirSync(folder, { recursive: true });
      const last = this.#own(folder).at(-1);
      this.#segment = last ?? this.#at(folder, 0);
      this.#bytes = last === undefined ? 0 : statSync(last.path).size;
      if (this.#bytes > 0 && readFileSync(this.#segment.path).at(-1) !== newline) {
        appendFileSync(this.#segment.path, "\n"); // L1
        this.#bytes++;
      }
    }
    if (this.#bytes >= segmentBytesMax) {
      this.#segment = this.#at(folder, this.#segment.from + this.#bytes);
      this.#bytes = 0;
      for (const { path } of this.#own(folder).slice(0, 1 - segmentsMax))
        rmSync(path, { force: true });
    }
    return this.#segment;
  }

  #at(folder: string, from: number): Segment {
    const name = `${this.#source}-${String(from).padStart(12, "0")}.jsonl`;
    return { path: join(folder, name), source: this.#source, from };
  }

  #own(folder: string): Segment[] {
    return segmentsIn(folder).filter(({ source }) => source === this.#source);
  }
}

/** Lines of a run's log, and the cursor of the next page. */
export interface RunLogPage {
  /** As written: `time`, `level`, `message`, and the fields that identify the subject. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** `after` for the next page. */
  readonly next: string;
}

/**
 * Reads the log in a checkpoint directory: lines of all sources, by time; lines of one source keep
 * the order in which it wrote them. A directory without a log has no lines.
 */
export function readRunLog(
  directory: string,
  options: {
    /** Only this run's lines. Several runs may have trained in one directory. */
    readonly run?: string;
    /** `next` of the previous page. @default from the first line that is kept */
    readonly after?: string;
    /** At most this many lines. @default all */
    readonly most?: number;
    /** Only this many lines from the end of the log; the next page continues after them. */
    readonly last?: number;
  } = {},
): RunLogPage {
  const { run, after = "", most = Number.POSITIVE_INFINITY, last } = options;
  const cursor = cursorOf(after);
  const folder = folderOf(directory);
  const sources = folder === undefined ? [] : sourcesIn(folder, cursor);
  const lines: Record<string, unknown>[] = [];
  while (lines.length < most) {
    const heads = sources.flatMap((one) => headOf(one, run) ?? []);
    const [first, ...others] = heads;
    if (first === undefined) break;
    const next = others.reduce((a, b) => (timeOf(b) < timeOf(a) ? b : a), first);
    next.take();
    lines.push(next.fields);
  }
  for (const { source, from, at } of sources) cursor.set(source, from + at);
  const shown = last === undefined ? lines : lines.slice(Math.max(0, lines.length - last));
  const next = [...cursor].map(([source, at]) => `${source}:${at}`).join(",");
  return { lines: shown, next };
}

/** The next line of a source. */
interface Head {
  readonly fields: Record<string, unknown>;
  take(): void;
}

/** The reader of one source: it opens file by file, and only as needed. */
interface Source {
  readonly source: string;
  /** Files after the current one. */
  readonly rest: Segment[];
  bytes: Buffer;
  /** Offset of the buffer's first byte in the source's whole log. */
  from: number;
  /** Offset of the next line in the buffer. */
  at: number;
  head?: Head | undefined;
}

const newline = 0x0a;

/** The readers of all sources, from the cursor on. */
function sourcesIn(folder: string, cursor: ReadonlyMap<string, number>): Source[] {
  const all = segmentsIn(folder);
  return [...new Set(all.map(({ source }) => source))].map((source) => {
    const kept = all.filter((one) => one.source === source);
    const place = cursor.get(source) ?? 0;
    const rest = kept.slice(
      Math.max(
        0,
        kept.findLastIndex(({ from }) => from <= place),
      ),
    );
    const one = { source, rest, bytes: Buffer.alloc(0), from: place, at: 0 };
    if (openNext(one)) one.at = Math.max(place - one.from, 0);
    return one;
  });
}

/** Opens the next file; false: there are no more files. */
function openNext(one: Source): boolean {
  const segment = one.rest.shift();
  if (segment === undefined) return false;
  one.bytes = bytesOf(segment);
  one.from = segment.from;
  one.at = 0;
  return true;
}

/** The next line. Skips torn lines and lines of other runs, the latter without parsing them. */
function headOf(one: Source, run: string | undefined): Head | undefined {
  const name = run === undefined ? "" : JSON.stringify(run);
  while (one.head === undefined) {
    const end = one.bytes.indexOf(newline, one.at) + 1;
    if (end === 0 && !openNext(one)) return undefined;
    if (end === 0) continue;
    const text = one.bytes.toString("utf8", one.at, end - 1);
    const fields = text.includes(name) ? fieldsIn(text) : undefined;
    const take = () => {
      one.at = end;
      one.head = undefined;
    };
    if (fields !== undefined && (run === undefined || fields.run === run))
      one.head = { fields, take };
    else take();
  }
  return one.head;
}

/** The file's bytes; empty where another process has just removed the file. */
function bytesOf({ path }: Segment): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

function fieldsIn(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function timeOf({ fields }: Head): string {
  return String(fields.time ?? "");
}

function cursorOf(text: string): Map<string, number> {
  const places = [...text.matchAll(/([\w-]+):(\d{1,15})/g)];
  return new Map(places.map(([, source = "", at]) => [source, Number(at)]));
}

/** The log's files, ordered by source and offset. */
function segmentsIn(folder: string): Segment[] {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const [, source = "", from] = /^([\w-]+)-(\d{12})\.jsonl$/.exec(name) ?? [];
    return source === "" ? [] : [{ path: join(folder, name), source, from: Number(from) }];
  });
}
