// docs/papers.md: what the papers report beside what the simulator predicts, and beside what
// benches measured. Everything in it is computed, or written here; `npm run papers` writes it.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { bytes, count, percent } from "../../../../cli/support/format.ts";
import { ClusterTooSmallError, packageFile } from "../../../../internal.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import { type PaperModel, paperModels } from "../../papers/models.ts";
import { type Capacity, capacities, placesOf } from "./capacity.ts";
import { claims, unclaimed } from "./claims.ts";
import { predicted, speedOf, speedText, type Variant } from "./variants.ts";
import { zionLines } from "./zion.ts";

/** The page's lines. */
export function papersPage(): string[] {
  return [
    "# The papers, and Osiris",
    "",
    "What the papers behind Osiris report, beside what `osiris simulate-cluster` predicts for the",
    "machines that they had, and beside what this project measured. `npm run papers` writes this page.",
    "",
    "- **From memory**: a paper's figure that was remembered and not read; it is a comparison, no target.",
    "- **No figure here is fitted to a paper's result.** Predictions rest on the hardware files",
    "  ([docs](what-if.md)), whose figures are from data sheets, papers or assumed, as each",
    "  file says; on the models below; and on a plan of the planner for each number of hosts, so that imbalance is the",
    "  plan's. The shares of the links between hosts that collectives reach are from two measured collectives of the",
    "  prototype (from memory).",
    "  The seconds to sort an id (`idSort`) were 5 ns, assumed, in the first form of this page, where they",
    "  decided a step; then they were derived from the bytes that a radix sort moves. No paper's figure",
    "  enters them.",
    "",
    ...modelLines(),
    ...speedLines(),
    ...ladderLines(),
    ...capacityLines(),
    ...serverLines(),
    ...zionLines(),
    ...claimLines(),
    `<!-- inputs ${inputsHash()} -->`,
  ];
}

/** The hash of what the predictions rest on, beside the code. */
export function inputsHash(): string {
  const hash = createHash("sha256");
  for (const name of kinds) hash.update(readFileSync(packageFile(`hardware/${name}.yaml`)));
  hash.update(JSON.stringify(paperModels));
  return hash.digest("hex").slice(0, 16);
}

/** The kinds of machines of the page. */
const kinds = ["zionex", "v100-prototype", "cpu-ps", "big-basin", "zion"];

export function modelLines(): string[] {
  const number = (value: number) => (value >= 1e12 ? `${value / 1e12} T` : `${value / 1e9} G`);
  const line = (model: PaperModel) => {
    const { name, parameters, megaflops, tables, dims, pooling, layers, width, batch, from } =
      model;
    const columns =
      dims[0] === dims[1] ? `${dims[0]}` : `${dims[0]} to ${dims[1]}, mean ${dims[2]}`;
    const cells = [
      ...[`\`${name}\``, number(parameters), megaflops ?? "–", tables, columns, pooling],
      ...[`${layers} × ${width}`, batch, from === "memory" ? "from memory" : "assumed"],
    ];
    return `| ${cells.join(" | ")} |`;
  };
  return [
    "## The models",
    "",
    "`osiris simulate-cluster model-a --hardware zionex --hosts 16` takes a model by its name. Parameters and operations of",
    "`model-a`, `-f` and `-i` are the paper's; the other figures of a line are as its last column says. Of the numbers of",
    "tables only orders of magnitude are remembered. The rest is spread by rules (`packages/what-if/papers/models.ts`).",
    "`model-a` and `model-f` are A2 and F1 of the paper's first version (from memory).",
    "",
    "| model | parameters | MFLOP a sample | tables | columns | ids of a bag | layers | samples a device | other figures |",
    "|---|---|---|---|---|---|---|---|---|",
    ...paperModels.map(line),
    "",
  ];
}

/** Machines, and the format of products: A100s have two. */
const platforms = [
  { hardware: "zionex", precision: "tensorFloat32" },
  { hardware: "zionex", precision: "float32" },
  { hardware: "v100-prototype", precision: "float32" },
] as const;
const platformName = ({ hardware, precision }: (typeof platforms)[number]) =>
  precision === "float32" ? hardware : `${hardware}, TF32`;
/** The headline's configuration: rows in float16, and vectors in 16 bits. */
const tuned = { isHalf: true, isQuantised: true } as const;
export const hostCounts = [1, 2, 4, 8, 16];
const headlines = [
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
  return { model, ...platform, hosts, rows: hosts / 16, ...tuned };
}

function memoryMark(isFromMemory: boolean): string {
  return isFromMemory ? " from memory" : "";
}

function speedLines(): string[] {
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
  const byRows = speedOf({ ...headlineOn("model-f", platforms[0], 16), schemes: ["row-wise"] });
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
    "figure of A, which takes 17.9 TFLOP/s of each device (3 × 638 MFLOP a sample). Our plans of F cut tables by columns of",
    `32, which sends less than the paper's cut by rows: by rows alone 16 hosts of zionex, TF32, have ${speedText(byRows)}.`,
    "",
    ...efficiencyLines(),
  ];
}

function efficiencyLines(): string[] {
  const rows = headlines.flatMap(({ model, efficiency }) =>
    platforms.map((platform) => {
      const [one, all] = [1, 16].map((hosts) => headlineOn(model, platform, hosts));
      if (one === undefined || all === undefined) return "";
      const share = speedOf(all) / (16 * speedOf(one));
      const found = predicted(all);
      const steps = found instanceof ClusterTooSmallError ? undefined : found.steps;
      const exposed = (...channels: readonly string[]) => {
        const seconds = channels.reduce((sum, own) => sum + (steps?.exposed[own] ?? 0), 0);
        return percent(seconds / (steps?.step ?? 1));
      };
      const cells = [
        ...[`\`${model}\``, platformName(platform), percent(share)],
        efficiency === undefined ? "–" : `about ${percent(efficiency)} from memory`,
        ...[exposed("pooled", "partials"), exposed("dPooled", "dPartials"), exposed("gradients")],
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  );
  return [
    "Of the speed of one host, per host, 16 hosts keep:",
    "",
    "| model | machines | efficiency | the paper | wait for vectors | for gradients of vectors | for the all-reduce |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "Waits are shares of a step of 16 hosts. The paper has the all-reduce hidden up to 16 hosts (from memory), and",
    "the exposed all-to-all as what limits the efficiency (from memory). Where products are fast, the backward pass ends",
    "before the gradients are summed, so that the all-reduce of A shows; and one host, which needs no network between hosts,",
    "is so fast that 16 keep less of its speed.",
    "",
  ];
}

const base = { model: "model-a", hosts: 16, isHalf: false, isQuantised: false } as const;
/** The optimisations of model-A, each added to those before. */
const ladder = [
  ["whole tables, dealt in turn", { ...base, isNaive: true }],
  ["+ the planner", base],
  ["+ rows in float16", { ...base, isHalf: true }],
  ["+ vectors in 16 bits", { ...base, ...tuned }],
  ["+ four times the batch", { ...base, ...tuned, batches: 4 }],
] as const;
const paperLadder = ["below 700 k", "about + 20 %", "about + 20 %", "", "+ 87 % in all"];

/** Samples a second of each step of the ladder. */
export function ladderSpeeds(): { readonly name: string; readonly speed: number }[] {
  return ladder.map(([name, variant]) => {
    return { name, speed: speedOf({ ...variant, ...platforms[0] }) };
  });
}

function ladderLines(): string[] {
  const speeds = ladderSpeeds().map(({ speed }) => speed);
  const [first = 1] = speeds;
  const rows = ladder.map(([name], i) => {
    const speed = speeds[i] ?? 0;
    const step = i === 0 ? "" : (speed / (speeds[i - 1] ?? 1)).toFixed(2);
    return `| ${[name, speedText(speed), step, (speed / first).toFixed(2), paperLadder[i]].join(" | ")} |`;
  });
  return [
    "## The ladder on model-A",
    "",
    "128 devices of `zionex`, TF32. The first plan deals whole tables in turn to devices with room, and cuts by rows what fits on",
    "none; its imbalance is that of the tables. The paper's first plan is not known, and was less uneven: compare the other",
    "steps.",
    "",
    "| | samples/s | beside the step before | beside the first | the paper, from memory |",
    "|---|---|---|---|---|",
    ...rows,
    "",
    "![Predicted samples per second of model-A, optimisation by optimisation](pictures/ladder.svg)",
    "",
  ];
}

function capacityLines(): string[] {
  const all = capacities("model-f", readHardware("zionex"), { hosts: 16, perHost: 8 });
  const row = ({ precision, optimizer, bytes: needed, found }: Capacity) => {
    const what = `| ${precision} | \`${optimizer}\` | ${bytes(needed)}`;
    if (!found.isFeasible) return `${what} | refused: ${found.unmet[0]?.sentence ?? ""} |`;
    const { plan, assessment } = found;
    const places = placesOf(plan.shards).map(([place, tables]) => `${tables} ${place}`);
    const most = bytes(Math.max(...assessment.hostBytes));
    return `${what} | ${places.join("; ")}; at most ${most} of a host's memory |`;
  };
  return [
    "## Twelve trillion parameters",
    "",
    "`model-f` on 16 hosts of `zionex`, 5.1 TB in devices and 24 TB beside them (the paper, from memory: 96, 48 and 24 TB; only the",
    "last fits). Its 22 tables have 2.13 billion rows each, as a row number has 31 bits; the paper has about ten (from memory). Without",
    "the disk: the planner keeps rows in devices, or in the memory that the devices of a host share, with a cache in",
    "the devices. By columns of 32 it sends less than by rows, which the paper had to cut by.",
    "",
    "| rows | optimizer | bytes | tables by scheme and place |",
    "|---|---|---|---|",
    ...all.map(row),
    "",
  ];
}

function serverLines(): string[] {
  const rows = headlines.map(({ model }) => {
    const servers = { model, hardware: "cpu-ps", perHost: 1, isHalf: model === "model-f" };
    const hosts = fewestHosts({ ...servers, isQuantised: false, hosts: 1, batch: serverBatch });
    const own = { ...servers, isQuantised: false, hosts, batch: serverBatch };
    const [slow, fast] = [speedOf(own), speedOf(headlineOn(model, platforms[0], 16))];
    const cells = [
      ...[`\`${model}\``, count(hosts), speedText(slow), speedText(fast)],
      ...[`${(fast / slow).toFixed(0)}`, `${((fast / slow) * (hosts / 16)).toFixed(1)}`],
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [
    "## Beside CPU servers",
    "",
    "The paper has up to 40 times the speed of asynchronous parameter servers with its models of production on 128",
    "devices; which model, and how many servers it was compared with, is not known. Here a *synchronous* step is",
    `simulated on as few of \`cpu-ps\` as hold the model, with ${serverBatch} samples each: no asynchronous training, whose`,
    "servers wait less and whose model is another one. Read the ratio as an order of magnitude.",
    "",
    "| model | CPU servers | samples/s | 16 hosts of `zionex` | times | times, for each host |",
    "|---|---|---|---|---|---|",
    ...rows,
    "",
  ];
}

const serverBatch = 200;
const hostsMax = 1024;

/** The fewest hosts, as a power of two, that hold a variant in the memory of their one device. */
function fewestHosts(variant: Variant): number {
  const model = paperModels.find(({ name }) => name === variant.model);
  const bytes = (model?.parameters ?? 0) * (variant.isHalf ? 2 : 4);
  const least = bytes / readHardware(variant.hardware).device.memory.bytes;
  for (let hosts = 2 ** Math.ceil(Math.log2(least)); hosts <= hostsMax; hosts *= 2) {
    const found = predicted({ ...variant, hosts });
    if (found instanceof ClusterTooSmallError) continue;
    if (found.memory.host.used + found.memory.disk.used === 0) return hosts;
  }
  return Number.NaN;
}

/** Claims of papers beside measured figures. */
export function claimLines(): string[] {
  const row = ({
    paper,
    claim,
    isFromMemory = false,
    ours,
    command,
    measured,
  }: (typeof claims)[number]) => {
    const text = measured.figures.reduce((all, figure, i) => all.replace(`{${i}}`, figure), ours);
    const link = `[page](${measured.page.replace(/^docs\//, "").replace(/^packages/, "../packages")})`;
    const commands = command.split(", ").map((one) => `\`${one}\``);
    return `| ${[paper, claim + memoryMark(isFromMemory), text, `${commands.join(", ")}; ${link}`].join(" | ")} |`;
  };
  return [
    "## Claims, and what was measured here",
    "",
    "Measured on two cores, with the commands of each page, not anew by `npm run papers`.",
    "",
    "| paper | claim | measured here | command, page |",
    "|---|---|---|---|",
    ...claims.map(row),
    "",
    "Without a figure here:",
    "",
    ...unclaimed.map((line) => `- ${line}.`),
    "",
  ];
}
