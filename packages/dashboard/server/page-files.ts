// The page's files, as the build bundled them next to the programs: read once, and held plain and
// gzipped; and the report of one run as one HTML file, which contains the page, its styles and the
// run's events. The report makes no requests, and its content security policy forbids every script
// except its own.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { InputUnusableError } from "../../../internal.ts";
import type { ReportData } from "./page-api.ts";

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

/** The text of the file. @throws InputUnusableError if the page was not built */
export function reportText(data: ReportData): string {
  // Escapes text that would end the enclosing element; the meaning stays the same.
  const script = readPageFile("page.js").text.replace(/<\/(script)/gi, "<\\/$1");
  const style = readPageFile("page.css").text;
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const policy =
    `default-src 'none'; script-src '${hashOf(script)}'; style-src '${hashOf(style)}'; ` +
    "img-src data: blob:; base-uri 'none'; form-action 'none'";
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
    `<title>Osiris report</title><style>${style}</style></head>`,
    '<body><div id="page"></div>',
    `<script type="application/json" id="report-data">${json}</script>`,
    `<script type="module">${script}</script></body></html>`,
    "",
  ].join("\n");
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
