// The samples a second of Neo's models: the paper's figures beside predictions, the efficiency of
// many hosts, and what bounds F and I.

import { percent } from "../../../../cli/support/format.ts";
import { ClusterTooSmallError } from "../../../../internal.ts";
import type { Prediction } from "../../model.ts";
import { predicted, speedOf, speedText, type Variant } from "./variants.ts";

/** Machines, and the format of products: A100s have two. */
export const platforms = [
  { hardware: "zionex", precision: "tensorFloat32" },
  { hardware: "zionex", precision: "float32" },
  { hardware: "v100-prototype", precision: "float32" },
] as const;
const platformName = ({ hardware, precision }: (typeof platforms)[number]) =>
  precision === "float32" ? hardware : `${hardware}, TF32`;
/** The headline's configuration: rows in float16, and vectors in 16 bits. */
export const tuned = { isHalf: true, isQuantised: true } as const;
export const hostCounts = [1, 2, 4, 8, 16];
export const headlines = [
  { model: "model-a", paper: 1.2e6, isFromMemory: true, efficiency: 0.5, within: 0.35 },
  { model: "model-f", paper: 1.7e6, isFromMemory: false, efficiency: undefined, within: 1 },
  { model: "model-i", paper: 3.4e6, isFromMemory: true, efficiency: 0.75, within: 0.35 },
] as const;

/** A headline's variant: fewer hosts have as many rows each. */
export function headlineOn(
  model: string,
  platform: Pick<Variant, "hardware" | "precision">,
  hosts: number,
): Variant {
  const plan = model === "model-f" ? ({ plan: "row-wise" } as const) : {};
  return { model, ...platform, hosts, rows: hosts / 16, ...tuned, ...plan };
}

export function memoryMark(isFromMemory: boolean): string {
  return isFromMemory ? " from memory" : "";
}

export function speedLines(): string[] {
  const rows = headlines.flatMap(({ model, paper, isFromMemory, within }) =>
    platforms.map((platform) => {
      const speeds = hostCounts.map((hosts) => speedOf(headlineOn(model, platform, hosts)));
      const ratio = (speeds.at(-1) ?? 0) / paper;
      const isNear = ratio <= 1 + within && ratio >= (within === 1 ? 0.5 : 1 - within);
      const cells = [`\`${model}\``, platformName(platform), ...speeds.map(speedText)];
      const beside = `${speedText(paper)}${memoryMark(isFromMemory)}`;
      return `| ${[...cells, beside, ratio.toFixed(2), isNear ? "yes" : "**no**"].join(" | ")} |`;
    }),
  );
  return [
    "## Samples a second",
    "",
    "Rows in float16, vectors in float16 and their gradients in bfloat16; products in float32, or in TensorFloat-32, in",
    "which A100s compute float32 on tensor cores. Which of them the paper used is not known here. A device has as many",
    "samples on any number of hosts, and a host as many rows: fewer hosts have shorter tables.",
    "",
    "| model | machines | 8 devices | 16 | 32 | 64 | 128 | the paper, 128 | ours over it | near |",
    "|---|---|---|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "![Predicted samples per second of model-A and model-I over devices](pictures/clusters.svg)",
    "",
    "*Near* is within 35 % for A and I, and within a factor of 2 for F. At 70 % of the float32 peak none reaches the paper's",
    "figure of A, which takes 17.9 TFLOP/s of each device (3 × 638 MFLOP a sample).",
    "",
    ...efficiencyLines(),
  ];
}

function efficiencyLines(): string[] {
  const rows = headlines.flatMap(({ model, efficiency }) =>
    platforms.map((platform) => {
      const all = headlineOn(model, platform, 16);
      const whole = speedOf(all);
      const { steps } = predictedOf(all);
      const wait = (...channels: readonly string[]) => {
        const seconds = channels.reduce((sum, own) => sum + (steps.exposed[own] ?? 0), 0);
        return percent(seconds / steps.step);
      };
      const one = 16 * speedOf(headlineOn(model, platform, 1));
      const cells = [
        ...[`\`${model}\``, platformName(platform), percent(whole / one)],
        efficiency === undefined ? "–" : `about ${percent(efficiency)} from memory`,
        ...[wait("pooled", "partials"), wait("dPooled", "dPartials")],
        percent(1 - whole / speedOf({ ...all, without: "all-reduce" })),
        percent(speedOf({ ...all, without: "scale-out" }) / one),
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  const modelA = headlineOn("model-a", platforms[0], 16);
  const { byTask, ...flights } = predictedOf(modelA).steps;
  const { backwardLate = 0, backwardEarly = 0, updateRows = 0 } = byTask;
  const backward = milliseconds(backwardLate + backwardEarly);
  const flight = milliseconds(flightOf(flights, "gradients"));
  const alone = predictedOf({ ...modelA, without: "all-reduce" }).steps;
  const exchanged = flightOf(alone, "dPooled") + updateRows;
  const beside = backwardLate + Math.max(exchanged, backwardEarly);
  const hides = beside >= flightOf(flights, "gradients") ? "hide" : "do not hide";
  return [
    "Of the speed of one host, per host, 16 hosts keep:",
    "",
    "| model | machines | efficiency | the paper | wait for vectors | for gradients of vectors | shorter without the all-reduce | efficiency, no time between hosts |",
    "|---|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "Waits are shares of a step of 16 hosts; streams that wait at once count each. *Shorter* is a step whose all-reduce",
    "takes no time: within a percent of nothing, it is hidden, as in the paper up to 16 hosts (from memory). A hides it behind",
    `products in float32. In TF32 its backward pass takes ${backward}, and its gradients ${flight} of the links between`,
    "hosts: A has 319 million parameters, as its operations say. By the paper's equation of the backward pass (from memory),",
    `exchanges do not slow each other: ${milliseconds(beside)} of layers, gradients of vectors and row updates ${hides} these. Here`,
    "gradients of vectors and of layers cross one interface, of which either alone reaches some 0.6 (from memory), so that",
    "their bytes add up; no order of buckets hides that. The paper has the exposed all-to-all as what limits the efficiency",
    "(from memory); the last column says",
    "what would be left without any time between hosts: what devices lose to each other.",
    "",
    ...boundsLines(),
    ...lossLines(),
  ];
}

/** Seconds in which bytes of a channel are in flight. */
function flightOf(
  { inFlight, hidden }: Pick<Prediction["steps"], "inFlight" | "hidden">,
  channel: string,
): number {
  return (inFlight[channel] ?? 0) + (hidden[channel] ?? 0);
}

function predictedOf(variant: Variant): Prediction {
  const found = predicted(variant);
  if (found instanceof ClusterTooSmallError) throw found;
  return found;
}

function milliseconds(seconds: number): string {
  return `${(1e3 * seconds).toFixed(0)} ms`;
}

/** Model-F in variants, each beside what limits it. */
function boundsLines(): string[] {
  const all = headlineOn("model-f", platforms[0], 16);
  const { plan: _, ...planned } = all;
  const row = ([name, variant]: readonly [string, Variant]) => {
    const { samplesPerSecond, steps, bottleneck } = predictedOf(variant);
    const limit = `${bottleneck.name} ${percent(bottleneck.share)}`;
    return `| ${[name, speedText(samplesPerSecond), milliseconds(steps.step), limit].join(" | ")} |`;
  };
  return [
    "### What bounds model-F",
    "",
    "The paper's tables, about ten with 5 billion rows each (from memory), exceed a host, and so they were cut by rows over",
    "all devices (from memory). Ours have fewer rows each, as a row number has 31 bits, and a host has room for one: the",
    "planner keeps each table on one host, which then sends whole vectors, and no other host sends parts of them. That is",
    "an easier problem than the paper's. So the tables above have F cut by rows over all hosts; here are both.",
    "",
    "| 16 hosts of `zionex`, TF32 | samples/s | step | limited by |",
    "|---|---|---|---|",
    ...(
      [
        ["by rows over all hosts", all],
        ["the same, each row as popular as others", { ...all, zipf: 0 }],
        ["the same, vectors in float32", { ...all, isQuantised: false }],
        ["the same, no time between hosts", { ...all, without: "scale-out" }],
        ["as planned", planned],
        ["as planned, each row as popular as others", { ...planned, zipf: 0 }],
      ] as const
    ).map(row),
    "",
    "By rows, vectors between hosts bound F: each host has a part of every table, and so sends a vector of 256 columns for",
    "each table and for each sample of all other hosts, and is sent its gradient. The 20 ids of a bag share one vector, so",
    "that neither popularity nor what lies below device memory counts. With sums in float32, F comes near the paper's 1.7 M.",
    "In which format the paper added them up is not known here, so the tables above keep 16 bits. As planned, F is bound",
    "by what misses caches, and so by how popular rows are, which is assumed. The planner counts no seconds of disks, which",
    "then decide: where all rows are as popular, its plan is slower than the one by rows.",
    "",
  ];
}

/** Model-I without some of its costs, one at a time. */
function lossLines(): string[] {
  const row = ([name, more]: readonly [string, Partial<Variant>]) => {
    const [one = 0, all = 0] = [1, 16].map((hosts) =>
      speedOf({ ...headlineOn("model-i", platforms[0], hosts), ...more }),
    );
    return `| ${[name, speedText(one), speedText(all), percent(all / (16 * one))].join(" | ")} |`;
  };
  return [
    "### What costs model-I its efficiency",
    "",
    "| `zionex`, TF32 | 8 devices | 128 | efficiency |",
    "|---|---|---|---|",
    ...(
      [
        ["as above", {}],
        ["no time between hosts", { without: "scale-out" }],
        ["no sums over the columns of rows (SGD)", { sparse: "sgd" }],
        ["70 ids in the bags of every table", { isEven: true }],
        ["70 ids, and no time between hosts", { isEven: true, without: "scale-out" }],
      ] as const
    ).map(row),
    "",
    "A host alone is bound by the arrival of its samples. Time between hosts and unequal devices cost 16 hosts about as",
    "much: without either they keep some 60 %, and without both 95 %. Between hosts, 70 ids for each vector, vectors, and",
    "sums of rows share the links. Devices are unequal as ids are spread exponentially over bags (assumed): one table in ten",
    "is more work than a device's share, and has to be cut. A cut costs more than it divides: by columns, each part sorts all",
    "ids and reads narrower rows, and row-wise Adagrad reads gradients twice, as the exact mean of squares of a row spans all",
    "parts (SGD has none). By rows, each part sends its own vectors. How unequal the paper's tables are is not known.",
    "",
  ];
}
