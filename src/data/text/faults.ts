// Faults of lines, and their counts. Faults are grouped by kind and column, not by value, so that a
// broken column is one reason and not a million.

import { DataRejectedError } from "../../errors/errors.ts";
import type { CacheMeta, QuarantinedLine, RejectedReason } from "../cache/cache-format.ts";
import { linesOf, placeOf } from "../data-kinds.ts";
import type { ResolvedFileOptions } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";

export interface LineFault {
  /** The reason, in the same words for every line with this fault in this column. */
  readonly kind: string;
  /** The faulty text, as shown in messages; undefined if the kind says everything. */
  readonly got?: string | undefined;
  /** The option that would accept such a line. */
  readonly advice?: string | undefined;
}

/** A fault in one sentence. */
export function sentenceOf({ kind, got }: LineFault): string {
  return got === undefined ? kind : `${kind}, got ${got}`;
}

/** Formats text with one byte per character for a message. */
export function show(text: string | undefined): string {
  if (text === undefined) return "nothing";
  const readable = decodeText(text);
  return `\`${readable.length > 40 ? `${readable.slice(0, 37)}...` : readable}\``;
}

/** Decodes text with one byte per character as UTF-8. */
export function decodeText(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** Number of most frequent reasons that a cache stores and an error reports. */
const reasonsMax = 3;

/** Further details of a fault's position. */
export interface BadPlace {
  readonly rowGroup?: number | undefined;
  readonly recordBatch?: number | undefined;
  readonly lines?: number;
}

/** The bad lines of some files, as plain data. */
export interface BadLinesState {
  readonly count: number;
  readonly kept: readonly QuarantinedLine[];
  readonly reasons: readonly RejectedReason[];
}

/** Collects the bad lines of files. */
export class BadLines {
  readonly #keptMax: number;
  readonly #kept: QuarantinedLine[] = [];
  /** By kind. Bounded, because there are few kinds per column. */
  readonly #reasons = new Map<string, { count: number; first: Omit<RejectedReason, "count"> }>();
  #count = 0;

  /** Keeps the first `keptMax` lines. */
  constructor(keptMax: number) {
    this.#keptMax = keptMax;
  }

  get count(): number {
    return this.#count;
  }

  /** Adds a bad line, or `within.lines` consecutive bad lines with the same fault. */
  add(file: string, line: number, fault: LineFault, within: BadPlace = {}): void {
    const { rowGroup, recordBatch, lines = 1 } = within;
    const piece = recordBatch === undefined ? {} : { recordBatch };
    const place = { file, line, ...(rowGroup === undefined ? piece : { rowGroup }) };
    if (this.#kept.length < this.#keptMax) this.#kept.push({ ...place, reason: sentenceOf(fault) });
    this.#count += lines;
    const known = this.#reasons.get(fault.kind);
    if (known !== undefined) known.count += lines;
    else this.#reasons.set(fault.kind, { count: lines, first: { ...fault, ...place } });
  }

  /** All reasons, in the order of their first lines. */
  state(): BadLinesState {
    const reasons = [...this.#reasons.values()].map(({ count, first }) => ({ ...first, count }));
    return { count: this.#count, kept: this.#kept, reasons };
  }

  /** Adds the bad lines of a further file. */
  absorb({ count, kept, reasons }: BadLinesState): void {
    this.#count += count;
    this.#kept.push(...kept.slice(0, Math.max(0, this.#keptMax - this.#kept.length)));
    for (const { count: times, ...first } of reasons) {
      const known = this.#reasons.get(first.kind);
      if (known !== undefined) known.count += times;
      else this.#reasons.set(first.kind, { count: times, first });
    }
  }

  /**
   * The summary that a cache stores. Equally frequent reasons are in the order of their first
   * lines.
   */
  summary(): CacheMeta["quarantine"] {
    const { count, kept, reasons } = this.state();
    const most = reasons.toSorted((a, b) => b.count - a.count).slice(0, reasonsMax);
    return { count, kept, reasons: most };
  }
}

/** Checks that at most the fraction `rejectedMax` of the lines is bad. @throws DataRejectedError */
export function checkRejected(
  data: Pick<ResolvedFileOptions, "kind" | "paths" | "rejectedMax">,
  { samples, quarantine }: Pick<CacheMeta, "samples" | "quarantine">,
): void {
  const { count, reasons } = quarantine;
  const { paths, rejectedMax } = data;
  const word = linesOf(data);
  const lines = samples + count;
  if (count <= rejectedMax * lines) return;
  const shown = reasons.map((reason) => {
    const { kind, count: times, got } = reason;
    const example = got === undefined ? "" : `: got ${got}`;
    return `${times.toLocaleString("en-US")} × ${kind} (${placeOf(reason)}${example})`;
  });
  const advice = [...new Set(reasons.flatMap((reason) => reason.advice ?? []))];
  const ways = [...advice, `correct the ${word}`, "or raise `rejectedMax`"];
  const message =
    `Expected at most ${percent(rejectedMax)} of the ${word} of ${named(paths)} to be bad ` +
    `(\`rejectedMax\`), got ${count.toLocaleString("en-US")} of ` +
    `${lines.toLocaleString("en-US")}, ${percent(count / lines)}: ${shown.join("; ")}. ` +
    `To go on: ${ways.join("; ")}`;
  throw new DataRejectedError(message, { lines, rejected: count });
}

/** Names files in a message. */
export function named(paths: readonly string[]): string {
  const [first = "", ...others] = paths.map(shownPath);
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

function percent(share: number): string {
  return `${Number((100 * share).toPrecision(3))} %`;
}
