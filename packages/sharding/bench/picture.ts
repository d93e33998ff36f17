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
import type { BenchRow } from "../../../bench/row.ts";
import { at, rowsOfJson, svgOf, text } from "../../../cli/views/svg.ts";

export const files = {
  rows: "docs/pictures/learned-sharding.jsonl.gz",
  picture: "docs/pictures/learned-sharding.svg",
};

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
export function plansIn(lines: string): PredictedPlan[] {
  const rows = rowsOfJson<Pick<BenchRow, "name" | "figure" | "limit">>(lines);
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

/** The whole picture, as the text of an SVG. */
export function drawPredictions(plans: readonly PredictedPlan[]): string {
  const all = plans.flatMap(({ measured, networks, formulas }) => [measured, networks, formulas]);
  const ends = [Math.min(...all) / 1.1, Math.max(...all) * 1.1];
  return svgOf({ width, height, title: "Predicted against measured costs of plans" }, [
    text(24, 30, "The embedding part of a step, predicted against measured, in ms", "title"),
    `<circle class="less" cx="70" cy="402" r="4"/>`,
    text(80, 406, "plans of the learned search", "small"),
    `<circle class="bar" cx="438" cy="402" r="4"/>`,
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
        `<path class="target" d="M${left} ${bottom}L${right} ${top}"/>`,
        ...plans.map((plan) => {
          const kind = plan.way === "learned" ? "less" : "bar";
          const place = `cx="${at(x(plan.measured))}" cy="${at(y(plan[of]))}"`;
          return `<circle class="${kind}" ${place} r="3" fill-opacity="0.6"/>`;
        }),
      ];
    }),
  ]);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(files.picture, drawPredictions(plansIn(readRows())));
}
