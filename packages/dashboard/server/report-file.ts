// A report of one run as one HTML file that contains the page, its styles and the run's events. It
// makes no requests, and its content security policy forbids every script except its own.

import { createHash } from "node:crypto";
import type { ReportData } from "./page-api.ts";
import { readPageFile } from "./page-files.ts";

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
