// The pictures of docs/performance.md: how the cost of a step grows, and figures of other benches
// beside their limits. One command measures, in about eight minutes, and draws:
//
//   npm run draw -- charts                # with --draw: draws the committed rows again
//
// A test compares the committed pictures with what this program draws from the committed rows.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { scaleLinear, scaleLog } from "d3-scale";
import { at, rowsOfJson, svgOf, text } from "../../cli/views/svg.ts";
import { type BenchRow, figureOf } from "../row.ts";

/** A picture, and the benches whose rows it shows. */
interface Charted {
  readonly rows: string;
  readonly picture: string;
  readonly benches: readonly (readonly string[])[];
  readonly draw: (rows: readonly BenchRow[]) => string;
}

const products = ["forward", "dInput", "dWeight"].map((what) => `gemm.f32.square.${what}.peak`);
const kernels = [
  ...products,
  "layerNorm.f32.648",
  "interaction.f32.64",
  "lookup.f32",
  "update.f32",
];
export const charts: readonly Charted[] = [
  {
    rows: "docs/pictures/charts/growth.jsonl",
    picture: "docs/pictures/charts/growth.svg",
    benches: [["growth"]],
    draw: drawGrowth,
  },
  {
    rows: "docs/pictures/charts/limits.jsonl",
    picture: "docs/pictures/charts/limits.svg",
    benches: [["kernels", "--only", ...kernels]],
    draw: drawLimits,
  },
];

/** One part of the picture: an axis, its title, and the meaning of its dashed line. */
interface Panel {
  readonly axis: string;
  readonly title: string;
  readonly ideal: string;
  /** Whether the values of the axis are on a logarithmic scale. */
  readonly isLog: boolean;
}

const panels: readonly Panel[] = [
  { axis: "batch", title: "samples of a batch", ideal: "in proportion", isLog: true },
  { axis: "tables", title: "tables", ideal: "in proportion", isLog: true },
  { axis: "rows", title: "rows of each table", ideal: "no growth", isLog: true },
  { axis: "devices", title: "devices: the busiest", ideal: "in proportion", isLog: false },
  { axis: "devices.work", title: "devices: all together", ideal: "no more", isLog: false },
  { axis: "hosts", title: "hosts of two devices", ideal: "as one host", isLog: false },
];

const [panelWidth, panelHeight, columns, head] = [300, 240, 3, 62];

/** Draws how the cost of a step grows: a panel for each varied size, with the ideal growth. */
export function drawGrowth(rows: readonly BenchRow[]): string {
  const lines = Math.ceil(panels.length / columns);
  const size = { width: columns * panelWidth + 20, height: head + lines * panelHeight + 10 };
  return svgOf({ ...size, title: "How the cost of a step grows" }, [
    text(24, 30, "Processor time of a step, times that of the base", "title"),
    text(
      24,
      50,
      "line: measured, with its 10th and 90th percentile; dashed: what is ideal",
      "small",
    ),
    ...panels.flatMap((panel, index) => {
      const left = 10 + (index % columns) * panelWidth;
      const top = head + Math.floor(index / columns) * panelHeight;
      return drawPanel(panel, rows, { left, top });
    }),
  ]);
}

function drawPanel(
  { axis, title, ideal, isLog }: Panel,
  rows: readonly BenchRow[],
  { left, top }: { readonly left: number; readonly top: number },
): string[] {
  const [name = "", suffix] = axis.split(".");
  const pattern = new RegExp(`^growth\\.${name}\\.(\\d+)${suffix ? `\\.${suffix}` : ""}$`);
  const points = rows.flatMap((row) => {
    const [, value] = pattern.exec(row.name) ?? [];
    return value === undefined ? [] : [{ value: Number(value), row }];
  });
  const values = points.map(({ value }) => value);
  const highs = points.flatMap(({ row }) => [row.figure, row.spread[1], row.limit ?? 0]);
  const lows = points.flatMap(({ row }) => [row.figure, row.spread[0], row.limit ?? 1]);
  const frame = {
    left: left + 48,
    right: left + panelWidth - 20,
    top: top + 30,
    bottom: top + 196,
  };
  const x = (isLog ? scaleLog() : scaleLinear())
    .domain([Math.min(...values), Math.max(...values)])
    .range([frame.left + 8, frame.right - 8]);
  // Ratios that span more than a factor of 8 are on a logarithmic scale.
  const isWide = Math.max(...highs) / Math.min(...lows) > 8;
  const y = (isWide ? scaleLog() : scaleLinear())
    .domain(
      isWide ? [Math.min(...lows) / 1.3, Math.max(...highs) * 1.3] : [0, 1.15 * Math.max(...highs)],
    )
    .range([frame.bottom, frame.top]);
  const ticks = isWide
    ? y.ticks().filter((tick) => /^(1|0\.0*1|10+)$/.test(String(tick)))
    : y.ticks(4);
  const path = (of: (row: BenchRow) => number) =>
    points
      .map(({ value, row }, i) => `${i === 0 ? "M" : "L"}${at(x(value))} ${at(y(of(row)))}`)
      .join("");
  return [
    text(left + 14, top + 16, title, "title"),
    text(frame.right - 86, top + 226, ideal, "small"),
    `<path class="ideal" d="M${frame.right - 120} ${top + 222}h28"/>`,
    ...ticks.flatMap((tick) => [
      `<path class="grid" d="M${frame.left} ${at(y(tick))}H${frame.right}"/>`,
      text(left + 14, y(tick) + 4, short(tick), "small"),
    ]),
    ...values.map((value) =>
      text(x(value) - 3.2 * short(value).length, frame.bottom + 16, short(value), "small"),
    ),
    `<path class="ideal" d="${path(({ limit = 1 }) => limit)}"/>`,
    `<path class="line" d="${path(({ figure }) => figure)}"/>`,
    ...points.flatMap(({ value, row: { figure, spread } }) => [
      `<path class="spread" d="M${at(x(value))} ${at(y(spread[0]))}V${at(y(spread[1]))}"/>`,
      `<circle class="bar" cx="${at(x(value))}" cy="${at(y(figure))}" r="3"/>`,
    ]),
  ];
}

/** `10k`, `1M`, `0.1` */
function short(value: number): string {
  if (value >= 1e6) return `${value / 1e6}M`;
  if (value >= 10_000) return `${value / 1000}k`;
  return String(value);
}

const [width, rowHeight, above] = [900, 26, 74];
const bars = { left: 330, right: 720 };

/** Draws figures beside their limits: bars in % of the limit, which is a line at 100 %. */
export function drawLimits(all: readonly BenchRow[]): string {
  const rows = all.filter(({ ratio }) => ratio !== undefined);
  const end = Math.max(1.05, ...rows.map(({ ratio = 0 }) => ratio * 1.02));
  const x = scaleLinear([0, end], [bars.left, bars.right]);
  const height = above + rows.length * rowHeight + 30;
  const y = (index: number) => above + index * rowHeight;
  return svgOf({ width, height, title: "Figures of benches beside their limits" }, [
    text(24, 30, "Figures of benches, in % of their limits", "title"),
    text(
      24,
      50,
      "thin line: 10th to 90th percentile; at 100 %: the limit of each row, measured beside it",
      "small",
    ),
    ...x
      .ticks(6)
      .flatMap((tick) => [
        `<path class="grid" d="M${at(x(tick))} ${above - 8}V${height - 24}"/>`,
        text(x(tick) - 10, height - 8, `${Math.round(100 * tick)} %`, "small"),
      ]),
    ...rows.flatMap(({ name, ratio = 0, limit = 1, spread, figure, unit }, index) => {
      const top = y(index);
      const [low, high] = spread.map((value) => at(x(Math.min(end, value / limit))));
      const beside = `${Math.round(100 * ratio)} % · ${figureOf(figure)} ${unit}`;
      const bar = `x="${bars.left}" y="${top}" width="${at(x(ratio) - bars.left)}" height="16"`;
      return [
        text(24, top + 13, name),
        `<rect class="bar" ${bar}/>`,
        `<path class="target" d="M${low} ${top + 8}H${high}"/>`,
        text(bars.right + 12, top + 13, beside, "small"),
      ];
    }),
    `<path class="target" d="M${at(x(1))} ${above - 8}V${height - 24}"/>`,
  ]);
}

function measure({ rows, benches }: Charted): void {
  const program = fileURLToPath(new URL("../run.js", import.meta.url));
  const texts = benches.map((bench) => {
    const own = [program, ...bench, "--json"];
    const { status, stdout } = spawnSync(process.execPath, own, {
      ...{ encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 2 ** 24 },
    });
    if (status !== 0) throw new Error(`bench ${bench[0]} ended with ${status}`);
    return rowsOfJson<BenchRow>(stdout).map((row) => `${JSON.stringify(row)}\n`);
  });
  writeFileSync(rows, texts.flat().join(""));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const chart of charts) {
    if (!process.argv.includes("--draw")) measure(chart);
    const rows = rowsOfJson<BenchRow>(readFileSync(chart.rows, "utf8"));
    writeFileSync(chart.picture, chart.draw(rows));
  }
}
