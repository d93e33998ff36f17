// Draws the savings of RecD, row by row: how many times more samples, or fewer bytes, than without,
// and the targets. The rows are the bench's output:
//
//   npm run bench -- dedup --json --data DIRECTORY > docs/pictures/recd.jsonl
//   npm run draw -- savings

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { scaleLinear } from "d3-scale";
import { at, rowsOfJson, svgOf, text } from "../../cli/views/svg.ts";
import type { BenchRow } from "../row.ts";

export const files = { rows: "docs/pictures/recd.jsonl", picture: "docs/pictures/recd.svg" };

/** The rows that are drawn, by name, with their labels. */
const titles: Readonly<Record<string, string>> = {
  "dedup.storage.16.0.9": "bytes of a clustered table, 16 samples a session",
  "dedup.storage.ml100k": "bytes of a clustered table, MovieLens",
  "dedup.log.generated.128": "bytes of a log in shards by session",
  "dedup.transforms": "transforms of rows that repeat",
  "dedup.reader.windows": "reader, Parquet into batches",
  "dedup.train.pooled.8.all": "steps on pooled lists, 8 samples a session",
  "dedup.train.pooled.16.all": "steps on pooled lists, 16 samples",
  "dedup.train.attention.8.all": "steps on encoded sequences, 8 samples",
  "dedup.train.attention.16.all": "steps on encoded sequences, 16 samples",
};

const [width, rowHeight, top] = [760, 34, 74];
const frame = { left: 320, right: 690 };

/** The whole picture, as the text of an SVG. */
export function drawSavings(all: readonly BenchRow[]): string {
  const rows = Object.entries(titles).flatMap(([name, title]) => {
    const { ratio, target } = all.find((row) => row.name === name) ?? {};
    return ratio === undefined ? [] : [{ title, ratio, target }];
  });
  const most = Math.max(1, ...rows.map(({ ratio }) => ratio));
  const x = scaleLinear([0, most * 1.05], [frame.left, frame.right]);
  const height = top + rows.length * rowHeight + 26;
  return svgOf({ width, height, title: "What deduplication of sessions saves" }, [
    text(24, 30, "Sessions deduplicated: times faster, or smaller, than without", "title"),
    text(24, 50, "a line across a bar: what a release must reach", "small"),
    ...x
      .ticks(6)
      .flatMap((tick) => [
        `<path class="grid" d="M${at(x(tick))} ${top - 8}V${height - 22}"/>`,
        text(x(tick) - 4, height - 8, String(tick), "small"),
      ]),
    ...rows.flatMap(({ title, ratio, target }, i) => {
      const y = top + i * rowHeight;
      const bar = `x="${frame.left}" y="${y}" width="${at(x(ratio) - frame.left)}" height="18"`;
      return [
        text(24, y + 14, title),
        `<rect class="${ratio < 1 ? "less" : "bar"}" ${bar}/>`,
        ...(target === undefined
          ? []
          : [`<path class="target" d="M${at(x(target[0]))} ${y - 3}V${y + 21}"/>`]),
        text(x(ratio) + 6, y + 14, ratio.toFixed(2)),
      ];
    }),
  ]);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(files.picture, drawSavings(rowsOfJson(readFileSync(files.rows, "utf8"))));
}
