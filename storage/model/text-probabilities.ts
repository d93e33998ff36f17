// Writes predictions as CSV or JSON Lines; where the name of the file ends in `.gz`, compressed: a
// member of gzip for each batch, which readers take as one file.

import { gzipSync } from "node:zlib";
import type { DiskFile } from "../../src/ports/disk.ts";
import { type ProbabilityWriter, shownNumber, type WrittenColumns } from "./predict-report.ts";

/** Text that goes to a file, compressed where asked. */
export function textOut(target: DiskFile, isZipped: boolean): (text: string | Buffer) => void {
  let at = 0;
  return (text) => {
    const plain = Buffer.from(text as string);
    const bytes = isZipped ? gzipSync(plain) : plain;
    target.write(bytes, at);
    at += bytes.length;
  };
}

/** Rows as lines of CSV, behind a header. */
export function csvWriter(
  target: DiskFile,
  { kept, names }: WrittenColumns,
  isZipped: boolean,
): ProbabilityWriter {
  const write = textOut(target, isZipped);
  write(`${["row", ...kept, ...names].map(quoted).join(",")}\n`);
  return {
    write(rows, keptValues, values) {
      const lines = rows.map((row, i) => {
        const own = keptValues.map((column) => quoted(column[i] ?? ""));
        const numbers = values.map((column) => shownNumber(column[i]));
        return `${[row, ...own, ...numbers].join(",")}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}

/** Rows as objects of JSON, a line each. */
export function jsonWriter(
  target: DiskFile,
  { kept, names }: WrittenColumns,
  isZipped: boolean,
): ProbabilityWriter {
  const write = textOut(target, isZipped);
  return {
    write(rows, keptValues, values) {
      const lines = rows.map((row, i) => {
        const own = kept.map((name, c) => [name, JSON.stringify(keptValues[c]?.[i] ?? null)]);
        const numbers = names.map((name, c) => [name, shownNumber(values[c]?.[i]) || "null"]);
        const members = [["row", String(row)], ...own, ...numbers];
        return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
