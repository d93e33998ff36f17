// The page's files, as the build bundled them next to the programs: read once, and held plain and
// gzipped.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { InputUnusableError } from "../../../internal.ts";

const folder = new URL("../../../page/", import.meta.url);

const types: Readonly<Record<string, string>> = {
  "index.html": "text/html; charset=utf-8",
  "page.css": "text/css; charset=utf-8",
  "page.js": "text/javascript; charset=utf-8",
};

export const pageFileNames: readonly string[] = Object.keys(types);

export interface PageFile {
  readonly type: string;
  readonly text: string;
  readonly packed: Buffer;
  /** Entity tag, for `If-None-Match`. */
  readonly etag: string;
}

/** Reads a file of the page. @throws InputUnusableError if the page was not built */
export function readPageFile(name: string): PageFile {
  const path = new URL(name, folder);
  try {
    const text = readFileSync(path, "utf8");
    const etag = `"${createHash("sha256").update(text).digest("hex").slice(0, 24)}"`;
    return { type: types[name] ?? "text/plain", text, packed: gzipSync(text), etag };
  } catch (cause) {
    const message = `The dashboard's page is not built: ${path.pathname} is missing; run \`npm run build\``;
    throw new InputUnusableError(path.pathname, message, { cause });
  }
}
