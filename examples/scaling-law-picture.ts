// Draws log loss over compute, from the results of scaling-law.ts: the points, and the fitted law
// of each architecture.

import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { fitPowerLaw, lawAt } from "./power-law.ts";

/** The drawn fields of a point. */
interface Shown {
  readonly point: string;
  readonly flops: number;
  readonly logLoss: number;
  readonly bestLogLoss: number;
}

const [width, height] = [760, 440];
const frame = { left: 70, right: 640, top: 56, bottom: 380 };

const architectures = [
  { name: "dlrm", title: "DLRM" },
  { name: "wukong", title: "Wukong" },
  { name: "dcnV2", title: "DCN v2" },
] as const;

const style = `<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .title { font-size: 15px; font-weight: 600; }
  .tick { font-size: 11.5px; fill: #59636e; }
  .grid { stroke: #d1d9e0; }
  .best { stroke: #59636e; stroke-dasharray: 4 4; }
  .law { fill: none; stroke-width: 1.6; }
  .dlrm { stroke: #bc4c00; fill: #bc4c00; }
  .wukong { stroke: #0969da; fill: #0969da; }
  .dcnV2 { stroke: #1a7f37; fill: #1a7f37; }
  .law.dlrm, .law.wukong, .law.dcnV2 { fill: none; }
</style>`;

/** The picture as SVG text. */
export function drawScalingLaw(all: readonly Shown[]): string {
  const best = all[0]?.bestLogLoss ?? 0;
  const megaflops = all.map(({ flops }) => flops / 1e6);
  const losses = all.map(({ logLoss }) => logLoss);
  const x = scaleLog(
    [Math.min(...megaflops) / 1.3, Math.max(...megaflops) * 1.3],
    [frame.left, frame.right],
  );
  const y = scaleLinear(
    [Math.min(best, ...losses) - 0.004, Math.max(...losses) + 0.004],
    [frame.bottom, frame.top],
  );
  const [from = 1, to = 1] = x.domain();
  const tries = Array.from({ length: 60 }, (_, i) => from * (to / from) ** (i / 59));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">`,
    "<title>Log loss over compute for each sample: DLRM, Wukong, DCN v2</title>",
    style,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="10"/>`,
    text(frame.left, 30, "Log loss on new samples over MFLOP a sample (forward)", "title"),
    ...y
      .ticks(6)
      .flatMap((tick) => [
        `<path class="grid" d="M${frame.left} ${at(y(tick))}H${frame.right}"/>`,
        text(frame.left - 44, y(tick) + 4, tick.toFixed(2), "tick"),
      ]),
    ...[0.01, 0.03, 0.1, 0.3, 1].map((tick) => text(x(tick) - 10, 402, String(tick), "tick")),
    `<path class="best" d="M${frame.left} ${at(y(best))}H${frame.right}"/>`,
    text(frame.right + 8, y(best) + 4, "the truth", "tick"),
    ...architectures.flatMap(({ name, title }) => {
      const own = all.filter(({ point }) => point.startsWith(`${name}-`));
      const law = fitPowerLaw(own.map((one) => ({ x: one.flops / 1e6, y: one.logLoss })));
      const curve = line<number>(
        (of) => at(x(of)),
        (of) => at(y(lawAt(law, of))),
      );
      return [
        `<path class="law ${name}" d="${curve.digits(1)(tries)}"/>`,
        ...own.map(({ flops, logLoss }) => {
          const [cx, cy] = [at(x(flops / 1e6)), at(y(logLoss))];
          return `<circle class="${name}" cx="${cx}" cy="${cy}" r="4"/>`;
        }),
        text(frame.right + 8, y(lawAt(law, to)) + 4, title),
      ];
    }),
    "</svg>",
    "",
  ].join("\n");
}

/** Rounds a coordinate, so that the picture is the same on every machine. */
function at(coordinate: number): number {
  return Math.round(coordinate * 10) / 10;
}

function text(left: number, top: number, words: string, kind?: string): string {
  const own = kind === undefined ? "" : ` class="${kind}"`;
  return `<text x="${at(left)}" y="${at(top)}"${own}>${words}</text>`;
}
