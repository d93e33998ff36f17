// docs/papers.md: what the papers report beside what the simulator predicts, and beside what
// benches measured. Everything in it is computed, or written here; `npm run papers` writes it.

import { createHash } from "node:crypto";
import { bytes, count } from "../../../../cli/support/format.ts";
import { ClusterTooSmallError } from "../../../../internal.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import { type PaperModel, paperModels } from "../../papers/models.ts";
import { type Capacity, capacities, placesOf } from "./capacity.ts";
import { claims, unclaimed } from "./claims.ts";
import {
  headlineOn,
  headlines,
  memoryMark,
  platforms,
  speedLines,
  tuned,
} from "./samples-a-second.ts";
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
    "  prototype (from memory). Ids follow Zipf's law with exponent 1.05, as generated data do: assumed.",
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

/** The hash of the inputs of the predictions, without the code and the comments of files. */
export function inputsHash(): string {
  const hash = createHash("sha256");
  for (const name of kinds) hash.update(JSON.stringify(readHardware(name)));
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

const base = { model: "model-a", hosts: 16, isHalf: false, isQuantised: false } as const;
/** The optimisations of model-A, each added to those before. */
const ladder = [
  ["whole tables, dealt in turn", { ...base, plan: "dealt" }],
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
    "the devices.",
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
    const ofServers = { ...servers, isQuantised: false, hosts, batch: serverBatch };
    const [slow, fast] = [speedOf(ofServers), speedOf(headlineOn(model, platforms[0], 16))];
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
