// Previews a job's data before it is used: unreadable files, missing columns, and the samples of
// the first lines. All problems are found in one go.

import { InputUnusableError, InvalidOptionError } from "../../errors/errors.ts";
import type { CacheMeta } from "../cache/cache-format.ts";
import type { ResolvedTextOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { factsOf } from "../remote/file-facts.ts";
import { Sample } from "../sample.ts";
import type { KeyColumn } from "../split-keys.ts";
import { targetsOf } from "../targets.ts";
import { type Columns, denseOf } from "./columns.ts";
import { BadLines } from "./faults.ts";
import { decodeLine } from "./line-decoder.ts";
import { lineTransforms, MadeLines } from "./made-lines.ts";
import { KeyCollector } from "./split-keys.ts";
import { TextFacts } from "./text-facts.ts";
import { textLines, tooLongReason } from "./text-fields.ts";

/** The result of a preview. */
export interface TextLook {
  readonly files: number;
  /** Total size of the readable files, in bytes. */
  readonly bytes: number;
  /** A sentence for each unusable file, and for each column that a file lacks. */
  readonly problems: readonly string[];
  /** Number of good lines among the previewed lines. */
  readonly samples: number;
  readonly labels: LabelLook;
  readonly rejected: Pick<CacheMeta["quarantine"], "count" | "reasons">;
  /** Value counts of columns whose values may share rows, in the previewed lines. */
  readonly values: CacheMeta["values"];
  readonly warnings: CacheMeta["warnings"];
}

/** Statistics of the labels of the previewed lines. */
export class LabelLook {
  /** Lines whose first label is 1, if it is a class. */
  positives = 0;
  /** Least and greatest value of the first label. */
  readonly range: [number, number] = [Infinity, -Infinity];
  /** Number of lines that have each label. */
  readonly labelled: number[] = [];

  /** Adds the labels of the next good line; a missing label is NaN. */
  add({ labels, label }: Pick<Sample, "labels" | "label">): void {
    for (const [i, one] of labels.entries()) {
      this.labelled[i] = (this.labelled[i] ?? 0) + (Number.isNaN(one) ? 0 : 1);
    }
    if (Number.isNaN(label)) return;
    if (label === 1) this.positives++;
    this.range[0] = Math.min(this.range[0], label);
    this.range[1] = Math.max(this.range[1], label);
  }
}

/** Least number of lines previewed per file, however many files there are. */
const linesMin = 100;

/** Previews the first lines of all files, about `linesMax` in total. */
export async function lookAtText(
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  linesMax: number,
  key?: KeyColumn,
): Promise<TextLook> {
  const keys = key && new KeyCollector(key);
  const problems: string[] = [];
  const transforms = lineTransforms(options);
  const bad = new BadLines(0);
  const targets = targetsOf(options);
  const sample = new Sample({ dense: denseOf(options), features: tables.length, targets });
  const ofFile = Math.max(linesMin, Math.floor(linesMax / options.paths.length));
  const about = new TextFacts();
  let [bytes, samples] = [0, 0];
  const labels = new LabelLook();
  for (const [place, path] of options.paths.entries()) {
    let left = ofFile;
    try {
      bytes += (await factsOf(path)).bytes;
      let columns: Columns | undefined;
      for await (const chunk of textLines(path, options, tables, key)) {
        const { lines, tooLong } = chunk;
        columns ??= about.of(chunk.columns);
        for (const line of tooLong) bad.add(shownPath(path), line, { kind: tooLongReason });
        const some = lines.slice(0, left);
        const texts = some.map(({ text }) => text);
        const first = { place, firstLine: some[0]?.record ?? 1 };
        const made = transforms && new MadeLines(transforms, columns, texts, first);
        for (const [i, { line, text }] of some.entries()) {
          const fault =
            made === undefined
              ? decodeLine(sample, text, columns, keys)
              : made.decode(sample, i, keys);
          if (fault !== undefined) {
            bad.add(shownPath(path), line, fault);
            about.drop();
          } else {
            about.add(sample);
            samples++;
            labels.add(sample);
          }
        }
        left -= lines.length + tooLong.length;
        if (left <= 0) break;
      }
    } catch (error) {
      problems.push(...problemsOf(error, path));
    }
  }
  const { count, reasons } = bad.summary();
  const rejected = { count, reasons };
  const { values, warnings } = about.meta();
  const found = { bytes, problems, samples, labels, rejected, values, warnings };
  return { files: options.paths.length, ...found };
}

/** The messages of an error about a file. @throws the error itself, if the file is not at fault */
export function problemsOf(error: unknown, path: string): string[] {
  if (error instanceof InvalidOptionError) return error.problems.map(({ message }) => message);
  if (error instanceof InputUnusableError) return [error.message];
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined || !(error instanceof Error)) throw error;
  return [`Cannot read the data file ${shownPath(path)}: ${error.message}`];
}
