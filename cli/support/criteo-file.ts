// Detects the kind of a Criteo file by its first line: tab-separated logs without a header, or text
// with a header that names the same columns.

import { criteo, csv, type DataOptions, InputUnusableError } from "../../internal.ts";
import { readLines } from "../../src/data/text/text-lines.ts";

/**
 * The data section for a file with Criteo's columns, plain or packed; the tables are `C1`..`C26`.
 * @throws InputUnusableError where it cannot be read, or has other columns
 */
export async function criteoData(
  path: string,
  options: { readonly batchSize: number; readonly cache?: string; readonly epochs?: number },
): Promise<DataOptions> {
  const line = await firstLineOf(path);
  const tabs = line.split("\t");
  if (tabs.length === 40 && /^[01]$/.test(tabs[0] ?? "")) return criteo.tsv(path, options);
  const delimiter = tabs.length > 1 ? "\t" : ",";
  const names = line.split(delimiter).map((name) => name.trim().replace(/^"|"$/g, ""));
  const label = names.find((name) => name.toLowerCase() === "label");
  const dense = Array.from({ length: 13 }, (_, index) => `I${index + 1}`);
  const categorical = Array.from({ length: 26 }, (_, index) => `C${index + 1}`);
  const missing = [...dense, ...categorical].find((name) => !names.includes(name));
  if (label === undefined || missing !== undefined) {
    throw new InputUnusableError(
      path,
      `${path} is not a Criteo file: expected 40 fields by tabs, or a header with the columns ` +
        `Label, I1..I13 and C1..C26; \`${label === undefined ? "Label" : missing}\` is missing`,
    );
  }
  const logged = dense.map((column) => ({ column, log: true }));
  return csv(path, { ...options, label, dense: logged, categorical, delimiter });
}

/** The first line, as a text in which each byte is a character. */
async function firstLineOf(path: string): Promise<string> {
  for await (const { lines } of readLines(path)) return lines[0] ?? "";
  return "";
}
