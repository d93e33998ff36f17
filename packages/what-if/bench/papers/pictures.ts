// The pictures of docs/what-if.md and docs/papers.md, of predictions that the page has, too:
// samples per second over devices, the ladder of optimisations, and the timeline of a step. `npm
// run papers` writes them beside the page, with their rows; a test draws the rows again.

import { scaleLinear, scaleLog } from "d3-scale";
import { at, svgOf, text } from "../../../../cli/views/svg.ts";
import { ClusterTooSmallError } from "../../../../internal.ts";
import { drawTimeline } from "../../commands/timeline-picture.ts";
import { ladderSpeeds } from "./page.ts";
import { headlineOn, hostCounts } from "./samples-a-second.ts";
import { predicted, speedOf, speedText } from "./variants.ts";

export const files = {
  rows: "docs/pictures/clusters.jsonl",
  rates: "docs/pictures/clusters.svg",
  ladder: "docs/pictures/ladder.svg",
  timeline: "docs/pictures/cluster-step.svg",
};

/** What the pictures show; samples per second are whole numbers. */
export interface PictureRows {
  readonly lines: readonly {
    readonly name: string;
    readonly isOther: boolean;
    readonly points: readonly { readonly devices: number; readonly speed: number }[];
  }[];
  readonly ladder: readonly { readonly name: string; readonly speed: number }[];
}

const platforms = [
  { hardware: "zionex", precision: "tensorFloat32" },
  { hardware: "v100-prototype", precision: "float32" },
] as const;

export function pictureRows(): PictureRows {
  const lines = (["model-a", "model-i"] as const).flatMap((model) =>
    platforms.map((platform) => ({
      name: `${model}, ${platform.hardware}`,
      isOther: platform.hardware !== "zionex",
      points: hostCounts.map((hosts) => {
        const speed = Math.round(speedOf(headlineOn(model, platform, hosts)));
        return { devices: 8 * hosts, speed };
      }),
    })),
  );
  const ladder = ladderSpeeds().map(({ name, speed }) => ({ name, speed: Math.round(speed) }));
  return { lines, ladder };
}

/** A step of model-I on 16 hosts of ZionEX. */
export function timelinePicture(): string {
  const found = predicted(headlineOn("model-i", platforms[0], 16));
  if (found instanceof ClusterTooSmallError) throw found;
  return drawTimeline(found);
}

const [width, height, left, right, bottom, top] = [760, 400, 96, 590, 340, 64];

/** Samples per second over devices; the dashed lines grow in proportion. */
export function drawRates({ lines }: PictureRows): string {
  const points = lines.flatMap((line) => line.points);
  const devices = [...new Set(points.map((point) => point.devices))].sort((a, b) => a - b);
  const speeds = points.map(({ speed }) => speed);
  const x = scaleLog([devices[0] ?? 1, devices.at(-1) ?? 1], [left, right]);
  const y = scaleLog([Math.min(...speeds) / 1.2, Math.max(...speeds) * 1.2], [bottom, top]);
  const ticks = y.ticks(6).filter((tick) => /^[125]0*$/.test(String(tick)));
  return svgOf({ width, height, title: "Predicted samples per second over devices" }, [
    text(24, 30, "Predicted samples per second, a fixed batch for each device", "title"),
    text(
      ...([
        24,
        50,
        "blue: zionex, TF32; orange: v100-prototype; dashed: in proportion",
        "small",
      ] as const),
    ),
    ...ticks.flatMap((tick) => [
      `<path class="grid" d="M${left} ${at(y(tick))}H${right}"/>`,
      text(24, y(tick) + 4, tick.toLocaleString("en-US"), "small"),
    ]),
    ...devices.map((count) => text(x(count) - 8, bottom + 22, String(count), "small")),
    text((left + right) / 2 - 20, bottom + 44, "devices", "small"),
    ...lines.flatMap(({ name, isOther, points: own }) => {
      const [first, last] = [own[0], own.at(-1)];
      if (first === undefined || last === undefined) return [];
      const ideal = (first.speed * last.devices) / first.devices;
      const from = `${at(x(first.devices))} ${at(y(first.speed))}`;
      const way = own.map((point) => `${at(x(point.devices))} ${at(y(point.speed))}`).join("L");
      return [
        `<path class="ideal" d="M${from}L${at(right)} ${at(Math.max(top, y(ideal)))}"/>`,
        `<path class="${isOther ? "other" : "line"}" d="M${way}"/>`,
        text(right + 8, y(last.speed) + 4, name, "small"),
      ];
    }),
  ]);
}

/** A bar for each step of the ladder on model-A. */
export function drawLadder({ ladder }: PictureRows): string {
  const [line, barsLeft, barsRight] = [34, 220, 640];
  const x = scaleLinear(
    [0, Math.max(...ladder.map(({ speed }) => speed))],
    [0, barsRight - barsLeft],
  );
  const size = { width, height: 80 + line * ladder.length };
  return svgOf({ ...size, title: "Predicted ladder of optimisations on model-A" }, [
    text(24, 30, "model-A on 128 devices of zionex, TF32: predicted samples per second", "title"),
    ...ladder.flatMap(({ name, speed }, i) => [
      text(24, 70 + line * i, name),
      bar(barsLeft, 56 + line * i, at(x(speed))),
      text(barsLeft + x(speed) + 8, 70 + line * i, speedText(speed), "small"),
    ]),
  ]);
}

function bar(left: number, top: number, length: number): string {
  return `<rect class="bar" x="${left}" y="${top}" width="${length}" height="20"/>`;
}
