// The rows of a bench as a page for people: each figure as a bar, with its spread and its limit.
// One file, without a script.

import { type BenchRow, figureOf } from "./row.ts";

const width = 520;

/** The page's text. Rows with one unit share a scale. */
export function htmlOf(bench: string, machine: string, rows: readonly BenchRow[]): string {
  const units = [...new Set(rows.map(({ unit }) => unit))];
  const sections = units.map((unit) =>
    sectionOf(
      unit,
      rows.filter((row) => row.unit === unit),
    ),
  );
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escaped(bench)}</title><style>${style}</style></head>`,
    `<body><h1>npm run bench -- ${escaped(bench)}</h1><p>${escaped(machine)}</p>`,
    "<p>Bar: the median. Thin line: from the 10th to the 90th percentile. Mark: the limit.</p>",
    ...sections,
    "</body></html>",
    "",
  ].join("\n");
}

const style = `body { font: 14px system-ui, sans-serif; margin: 24px; color-scheme: light dark; }
  td { padding: 2px 10px 2px 0; white-space: nowrap; font-variant-numeric: tabular-nums; }
  .bar { fill: #4493f8; } .spread { stroke: currentColor; } .limit { stroke: #cf222e; stroke-width: 2; }`;

function sectionOf(unit: string, rows: readonly BenchRow[]): string {
  const most = Math.max(
    ...rows.flatMap(({ figure, limit = 0, spread }) => [figure, limit, ...spread]),
  );
  const at = (value: number) => ((width * Math.max(0, value)) / (most > 0 ? most : 1)).toFixed(1);
  const lines = rows.map(
    ({ name, figure, spread: [low, high], limit, limitIs = "limit", ratio }) => {
      const mark =
        limit === undefined
          ? ""
          : `<line class="limit" x1="${at(limit)}" x2="${at(limit)}" y1="0" y2="16"/>`;
      const beside =
        limit === undefined || ratio === undefined
          ? ""
          : `${Math.round(100 * ratio)} % of ${figureOf(limit)} (${escaped(limitIs)})`;
      const label = `${escaped(name)}: ${figureOf(figure)} ${escaped(unit)}`;
      return (
        `<tr><td>${escaped(name)}</td><td>${figureOf(figure)} ${escaped(unit)}</td>` +
        `<td><svg role="img" aria-label="${label}" width="${width + 4}" height="16">` +
        `<rect class="bar" y="3" height="10" width="${at(figure)}"/>` +
        `<line class="spread" x1="${at(low)}" x2="${at(high)}" y1="8" y2="8"/>${mark}</svg></td>` +
        `<td>${beside}</td></tr>`
      );
    },
  );
  return `<table>${lines.join("\n")}</table>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
