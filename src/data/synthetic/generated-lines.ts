// Writes generated samples as lines of text.

import { closeSync, openSync, writeFileSync } from "node:fs";
import { InputUnusableError } from "../../errors/errors.ts";
import type { ResolvedSyntheticOptions, TableShape } from "../options.ts";
import type { Sample } from "../sample.ts";
import { type GeneratedReport, generateSamples } from "./synthetic.ts";

const linesAtOnce = 4096;

/** The samples and the format of a generated text file. */
export interface GeneratedLines {
  readonly options: ResolvedSyntheticOptions;
  readonly tables: readonly TableShape[];
  /** The first line. @default none */
  readonly header?: string | undefined;
  /** The line of the sample at `index`, without the line break. */
  lineOf(sample: Sample, index: number): string;
  /** Called every 4096 samples, with the number of samples written so far. */
  onProgress?: ((samples: number) => void) | undefined;
}

/** Writes the samples to `path`. @throws InputUnusableError if it cannot be written */
export function writeGeneratedLines(from: GeneratedLines, path: string): GeneratedReport {
  const { options, tables, onProgress } = from;
  try {
    const descriptor = openSync(path, "w");
    try {
      let lines: string[] = from.header === undefined ? [] : [from.header];
      let written = 0;
      let index = 0;
      const report = generateSamples(options, tables, (sample) => {
        lines.push(from.lineOf(sample, index++));
        if (lines.length < linesAtOnce) return;
        writeFileSync(descriptor, `${lines.join("\n")}\n`);
        written += lines.length;
        lines = [];
        onProgress?.(written);
      });
      if (lines.length > 0) writeFileSync(descriptor, `${lines.join("\n")}\n`);
      return report;
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write samples to ${path}: ${reason}`, { cause });
  }
}
