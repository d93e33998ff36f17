// Draws pictures of clusters: samples per second of models over devices, and the timeline of a
// step.
//
//   npm run draw -- clusters              # predicts, about two minutes; --draw: the last rows
//
// A test compares the committed picture with what this program draws of the committed rows.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { scaleLog } from "d3-scale";
import { at, rowsOfJson, svgOf, text } from "../../../cli/views/svg.ts";
import { ClusterTooSmallError, resolveJob } from "../../../internal.ts";
import { drawTimeline } from "../commands/timeline-picture.ts";
import { readHardware } from "../hardware/read-hardware.ts";
import { paperModel } from "../papers/models.ts";
import { predictCluster } from "../predict/predict-cluster.ts";

export const files = {
  rows: "docs/pictures/clusters.jsonl",
  rates: "docs/pictures/clusters.svg",
  timeline: "docs/pictures/cluster-step.svg",
};

/** A predicted rate: `name` is of the model. */
export interface RateRow {
  readonly name: string;
  readonly hardware: string;
  readonly devices: number;
  readonly samplesPerSecond: number;
}

const models = ["model-a", "model-i"] as const;
const kinds = ["zionex", "v100-prototype"] as const;
const hostCounts = [1, 2, 4, 8, 16];
const timeline = { model: "model-i", kind: "zionex", hosts: 16 } as const;

function predictRates(): RateRow[] {
  return models.flatMap((name) =>
    kinds.flatMap((kind) =>
      hostCounts.flatMap((hosts): RateRow[] => {
        const found = predicted(name, kind, hosts);
        if (found === undefined) return [];
        const { devices, samplesPerSecond } = found;
        return [{ name, hardware: kind, devices, samplesPerSecond: Math.round(samplesPerSecond) }];
      }),
    ),
  );
}

/** Undefined: the model does not fit these hosts. */
function predicted(name: string, kind: string, hosts: number) {
  const hardware = readHardware(kind);
  const job = resolveJob(paperModel(name, { devices: hosts * hardware.host.devices }));
  try {
    return predictCluster(job, hardware, { hosts });
  } catch (error) {
    if (error instanceof ClusterTooSmallError) return undefined;
    throw error;
  }
}

const [width, height, left, bottom, top] = [760, 400, 96, 340, 64];

/** Samples per second over devices; the dashed lines grow in proportion. */
export function drawRates(rows: readonly RateRow[]): string {
  const rates = rows.map(({ samplesPerSecond }) => samplesPerSecond);
  const devices = [...new Set(rows.map((row) => row.devices))].sort((a, b) => a - b);
  const x = scaleLog([devices[0] ?? 1, devices.at(-1) ?? 1], [left, width - 170]);
  const y = scaleLog([Math.min(...rates) / 1.2, Math.max(...rates) * 1.2], [bottom, top]);
  const ticks = y.ticks(6).filter((tick) => /^[125]0*$/.test(String(tick)));
  const lines = models.flatMap((name) => kinds.map((kind) => ({ name, kind })));
  return svgOf({ width, height, title: "Predicted samples per second over devices" }, [
    text(24, 30, "Predicted samples per second, a fixed batch for each device", "title"),
    text(24, 50, "blue: zionex; orange: v100-prototype; dashed: in proportion to devices", "small"),
    ...ticks.flatMap((tick) => [
      `<path class="grid" d="M${left} ${at(y(tick))}H${width - 170}"/>`,
      text(24, y(tick) + 4, tick.toLocaleString("en-US"), "small"),
    ]),
    ...devices.map((count) => text(x(count) - 8, bottom + 22, String(count), "small")),
    text(width / 2 - 120, bottom + 44, "devices", "small"),
    ...lines.flatMap(({ name, kind }) => {
      const own = rows.filter((row) => row.name === name && row.hardware === kind);
      const [first, last] = [own[0], own.at(-1)];
      if (first === undefined || last === undefined) return [];
      const points = own.map((row) => `${at(x(row.devices))} ${at(y(row.samplesPerSecond))}`);
      const ideal = (first.samplesPerSecond * last.devices) / first.devices;
      const from = `${at(x(first.devices))} ${at(y(first.samplesPerSecond))}`;
      return [
        `<path class="ideal" d="M${from}L${at(x(last.devices))} ${at(Math.max(top, y(ideal)))}"/>`,
        `<path class="${kind === "zionex" ? "line" : "other"}" d="M${points.join("L")}"/>`,
        text(x(last.devices) + 8, y(last.samplesPerSecond) + 4, `${name}, ${kind}`, "small"),
      ];
    }),
  ]);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  if (!process.argv.includes("--draw")) {
    const lines = predictRates().map((row) => `${JSON.stringify(row)}\n`);
    writeFileSync(files.rows, lines.join(""));
    const { model, kind, hosts } = timeline;
    const found = predicted(model, kind, hosts);
    if (found !== undefined) writeFileSync(files.timeline, drawTimeline(found));
  }
  writeFileSync(files.rates, drawRates(rowsOfJson<RateRow>(readFileSync(files.rows, "utf8"))));
}
