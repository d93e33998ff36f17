// Draws predicted against measured milliseconds of plans on this machine's threads, for two
// predictors: the cost networks, and the formulas of the planner. The rows are the bench's output:
//
//   npm run bench -- sharding --only sharding.threads --costs FILE --json
//     | gzip -9n > docs/pictures/learned-sharding.jsonl.gz
//   npm run draw -- predictions

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { scaleLog } from "d3-scale";
import { z } from "zod";

export const files = {
  rows: "docs/pictures/learned-sharding.jsonl.gz",
  picture: "docs/pictures/learned-sharding.svg",
};

const rowSchema = z.object({ name: z.string(), figure: z.number(), limit: z.number().optional() });

/** Measured and predicted milliseconds of a plan. */
export interface PredictedPlan {
  readonly way: string;
  readonly measured: number;
  readonly networks: number;
  readonly formulas: number;
}

/** The output of the bench, which is committed in compressed form. */
export function readRows(): string {
  return gunzipSync(readFileSync(files.rows)).toString("utf8");
}

const planName = /^sharding\.threads\.plan\.(\d+)\.(.+)$/;
const byFormulas = "sharding.threads.formulas.";

/** The plans in the output of the bench. */
export function plansIn(text: string): PredictedPlan[] {
  const rows = text
    .trimEnd()
    .split("\n")
    .flatMap((line) => {
      const row = rowSchema.safeParse(JSON.parse(line));
      return row.success ? [row.data] : [];
    });
  const formulas = new Map(rows.map(({ name, limit }) => [name, limit]));
  return rows.flatMap(({ name, figure, limit }) => {
    const [, set, way = ""] = planName.exec(name) ?? [];
    const other = formulas.get(`${byFormulas}${set}.${way}`);
    if (set === undefined || limit === undefined || other === undefined) return [];
    return [{ way, measured: figure, networks: limit, formulas: other }];
  });
}

const [width, height] = [760, 420];
const frames = [
  { left: 64, right: 364, title: "cost networks", of: "networks" },
  { left: 432, right: 732, title: "formulas, calibrated", of: "formulas" },
] as const;
const [top, bottom] = [72, 372];

const style = `<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11.5px; fill: #59636e; }
  .grid { stroke: #d1d9e0; }
  .same { stroke: #1f2328; stroke-width: 1.2; }
  .plan { fill: #0969da; fill-opacity: 0.6; }
  .learned { fill: #bc4c00; fill-opacity: 0.9; }
</style>`;

/** The whole picture, as the text of an SVG. */
export function drawPredictions(plans: readonly PredictedPlan[]): string {
  const all = plans.flatMap(({ measured, networks, formulas }) => [measured, networks, formulas]);
  const ends = [Math.min(...all) / 1.1, Math.max(...all) * 1.1];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">`,
    "<title>Predicted against measured costs of plans</title>",
    style,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="10"/>`,
    text(24, 30, "The embedding part of a step, predicted against measured, in ms", "title"),
    `<circle class="learned" cx="70" cy="402" r="4"/>`,
    text(80, 406, "plans of the learned search", "small"),
    `<circle class="plan" cx="438" cy="402" r="4"/>`,
    text(448, 406, "plans of others", "small"),
    ...frames.flatMap(({ left, right, title, of }) => {
      const x = scaleLog(ends, [left, right]);
      const y = scaleLog(ends, [bottom, top]);
      const ticks = [1, 2, 5, 10, 20, 50, 100].filter(
        (ms) => ms > (ends[0] ?? 0) && ms < (ends[1] ?? 0),
      );
      return [
        text(left, top - 12, `predicted by ${title}`, "small"),
        text(right - 54, bottom + 34, "measured", "small"),
        ...ticks.flatMap((ms) => [
          `<path class="grid" d="M${at(x(ms))} ${top}V${bottom}M${left} ${at(y(ms))}H${right}"/>`,
          text(x(ms) - 4, bottom + 16, String(ms), "small"),
          text(left - 20, y(ms) + 4, String(ms), "small"),
        ]),
        `<path class="same" d="M${left} ${bottom}L${right} ${top}"/>`,
        ...plans.map((plan) => {
          const kind = plan.way === "learned" ? "learned" : "plan";
          const place = `cx="${at(x(plan.measured))}" cy="${at(y(plan[of]))}"`;
          return `<circle class="${kind}" ${place} r="3"/>`;
        }),
      ];
    }),
    "</svg>",
    "",
  ].join("\n");
}

/** A rounded coordinate, so that the picture is the same on every machine. */
function at(coordinate: number): number {
  return Math.round(coordinate * 10) / 10;
}

function text(left: number, baseline: number, words: string, kind: string): string {
  return `<text x="${at(left)}" y="${at(baseline)}" class="${kind}">${words}</text>`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(files.picture, drawPredictions(plansIn(readRows())));
}
