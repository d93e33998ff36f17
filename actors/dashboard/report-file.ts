// A report of one run: one file of HTML with the page, its styles and the run's events inside it.
// It asks nobody anything, and its own policy forbids every script but the one in it.

import { createHash } from "node:crypto";
import type { ReportData } from "./page-api.ts";
import { readPageFile } from "./page-files.ts";

/** The file's text. @throws InputUnusableError where the page was not built */
export function reportText(data: ReportData): string {
  // What would end the element it stands in is written otherwise; both mean the same.
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
