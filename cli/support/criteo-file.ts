// Which kind of Criteo file this is: the tab-separated logs, or text with a header that names
// the same columns. Told by the first line.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import { criteo, csv, type DataOptions, InputUnusableError } from "../../index.ts";

/** Longest first line that is looked at. */
const peekBytesMax = 64 * 1024;

/**
 * The data section for a file with Criteo's columns, plain or gzip; the tables are `C1`..`C26`.
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
      `${path} is no Criteo file: expected 40 fields by tabs, or a header with the columns ` +
        `Label, I1..I13 and C1..C26; \`${label === undefined ? "Label" : missing}\` is missing`,
    );
  }
  const logged = dense.map((column) => ({ column, log: true }));
  return csv(path, { ...options, label, dense: logged, categorical, delimiter });
}

async function firstLineOf(path: string): Promise<string> {
  try {
    const head = await peek(path);
    const isGzip = head[0] === 0x1f && head[1] === 0x8b;
    const file = createReadStream(path);
    const input = isGzip ? file.pipe(createGunzip()) : file;
    // Readline does not hand on a stream's error: the error is raced.
    const failed = new Promise<never>((_, reject) => {
      file.on("error", reject);
      input.on("error", reject);
    });
    failed.catch(() => {});
    const lines = createInterface({ input })[Symbol.asyncIterator]();
    const { value } = await Promise.race([lines.next(), failed]);
    file.destroy();
    return String(value ?? "").slice(0, peekBytesMax);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
}

async function peek(path: string): Promise<Buffer> {
  for await (const chunk of createReadStream(path, { end: 1 })) return chunk as Buffer;
  return Buffer.alloc(0);
}
