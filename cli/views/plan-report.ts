// The report of `osiris plan`, as lines for people and as an object for JSON.

import {
  type DeviceChoice,
  type JobPlan,
  type MachineConstants,
  type MeasuredLinks,
  type PlacementSpec,
  type PlanReport,
  plainPlacement,
  type Stage,
  stages,
} from "../../internal.ts";
import type { LearnedSearch } from "../../packages/sharding/index.ts";
import { bytes, count, percent, plural, shortTime } from "../support/format.ts";
import { choiceLine } from "../support/machine.ts";

/** Most devices with a line each; of more devices, the first ones and the last have a line. */
const devicesShown = 32;
/** Most alternatives that are listed. */
const alternativesShown = 12;

export const stageNames: Readonly<Record<Stage, string>> = {
  read: "waiting for data",
  inputExchange: "input exchange",
  prefetch: "prefetch",
  lookup: "lookup",
  outputExchange: "output exchange",
  dense: "dense layers",
  backwardExchange: "backward exchange",
  update: "update",
  allReduce: "all-reduce",
  overhead: "fixed costs",
};

/** Source of the data's statistics: the counted samples, if any, and the given pooling factor. */
export interface StatisticsSource {
  readonly samples: number | undefined;
  readonly poolingFactor: number | undefined;
  readonly data: { readonly kind: string; readonly ikjt?: unknown };
  readonly fixed: FixedParts;
  /** Groups of features whose lists may be deduplicated; left out: not measured. */
  readonly ikjt?: readonly GroupOfLists[] | undefined;
  /** The measured links that the prediction counts with; left out: those of the constants. */
  readonly links?: LinksSource | undefined;
}

/** Links between machines, as hosts of a run measured them. */
interface LinksSource {
  readonly machines: readonly string[];
  readonly measured: MeasuredLinks;
}

/** The parts of the arithmetic that a job has chosen, or that are written in it. */
interface FixedParts {
  readonly slices: number;
  readonly model: {
    readonly tables: readonly { readonly name: string; readonly rowBlocks: number }[];
  };
  readonly placement: PlacementSpec;
}

/** A group of features, and what deduplication of its lists would save. */
interface GroupOfLists {
  readonly features: readonly string[];
  readonly factor: number;
  readonly predicted: number;
  readonly isChosen: boolean;
}

/** The report as lines. */
export function reportOf(
  path: string,
  found: JobPlan<LearnedSearch>,
  constants: MachineConstants,
  statistics: StatisticsSource,
  choice?: DeviceChoice,
): string[] {
  const links =
    statistics.links === undefined
      ? []
      : [
          `Links of each host: ${linksLine(statistics.links.measured)}, measured between ${statistics.links.machines.join(", ")}`,
        ];
  const ofConstants = [`Predicted with: ${constants.source}`, ...links];
  const times = [...ofConstants, `Statistics: ${sentenceOf(statistics)}`].join("\n");
  if (!found.isFeasible) {
    return [
      `No plan was found that fits ${path}.`,
      ...found.unmet.slice(0, devicesShown).map(({ sentence, lacksBytes }) => {
        return `  ${sentence}${lacksBytes > 0 ? `: ${bytes(lacksBytes)} too few` : ""}`;
      }),
      ...(found.relaxations.length === 0
        ? ["No single change was found that would help."]
        : ["Any one of these would do, each verified by planning with it:"]),
      ...found.relaxations.map(({ sentence, score }) => {
        return `  ${sentence} (then ${shortTime(score)})`;
      }),
      times,
    ];
  }
  const { plan, sha256, missing } = found;
  const { hosts, perHost } = plan.devices;
  const shards = plural(plan.shards.length, "shard");
  return [
    `${path}: ${shards} on ${plural(hosts * perHost, "device")} of ${plural(hosts, "host")}`,
    ...(choice === undefined ? [] : [choiceLine(choice)]),
    ...missing.map((sentence) => `  ! ${sentence}`),
    "",
    ...deviceLines(found),
    "",
    ...tableLines(found),
    ...listLines(statistics),
    ...placementLines(statistics.fixed),
    fixedLine(statistics.fixed),
    ...stepLines(found),
    "",
    ...learnedLines(found),
    ...alternativeLines(found),
    times,
    `Plan                 sha256:${sha256}`,
  ];
}

function placementLines({ placement }: FixedParts): string[] {
  const said = placementOf(placement);
  return said === "" ? [] : [`Placement            ${said}`];
}

/** Maximum number of tables for which the report lists row blocks. */
const cutShown = 8;

/** The slices of a batch, and the row blocks of tables that have several. */
function fixedLine({ slices, model }: FixedParts): string {
  const cut = model.tables.filter(({ rowBlocks }) => rowBlocks > 1);
  const shown = cut.slice(0, cutShown).map(({ name, rowBlocks }) => `${name} ${rowBlocks}`);
  const more = cut.length > cutShown ? [`${cut.length - cutShown} tables more`] : [];
  const blocks = cut.length === 0 ? "" : `; row blocks: ${[...shown, ...more].join(", ")}`;
  return `Fixed by the job     ${plural(slices, "slice")}${blocks}`;
}

/** The sentence on the source of bag sizes and of the popularity of ids. */
function sentenceOf({ samples, poolingFactor, data }: StatisticsSource): string {
  const bags =
    poolingFactor === undefined ? "" : `, but ${poolingFactor} ids in every bag as given`;
  if (samples !== undefined) return `from the data cache, ${count(samples)} samples${bags}`;
  if (data.kind === "synthetic") return `as the job says of its generated data${bags}`;
  const assumed = `${poolingFactor ?? 1} ids in every bag, popular by Zipf's law`;
  return `assumed (${assumed}): there is no data cache yet; a run of the job makes it`;
}

type Feasible = Extract<JobPlan<LearnedSearch>, { isFeasible: true }>;

function deviceLines({ assessment }: Feasible): string[] {
  const { devices, lacksBytes, hostBytes } = assessment;
  const mostOnHost = Math.max(...hostBytes);
  const line = (cells: readonly string[]) => {
    return cells.map((cell, i) => (i === 0 ? cell.padEnd(8) : cell.padStart(12))).join("");
  };
  const lines = devices.map(({ cost, bytes: held, shards }, device) => {
    return line([String(device), shortTime(cost), bytes(held), count(shards)]);
  });
  const shown =
    lines.length <= devicesShown
      ? lines
      : [...lines.slice(0, devicesShown - 1), "…", ...lines.slice(-1)];
  const mean = devices.reduce((sum, { cost }) => sum + cost, 0) / devices.length;
  const balance = mean === 0 ? 1 : assessment.score / mean;
  return [
    line(["device", "load", "memory", "shards"]),
    ...shown,
    `Largest load         ${shortTime(assessment.score)}, ${balance.toFixed(3)} of the mean`,
    ...(mostOnHost > 0 ? [`Rows below caches    ${bytes(mostOnHost)} on the fullest host`] : []),
    ...(lacksBytes > 0
      ? [
          `Too little memory    ${bytes(lacksBytes)} on the fullest device or host: plan anew, without --plan, or ` +
            "for more devices",
        ]
      : []),
  ];
}

/** The tier of each table, where tables may be cached, with the shares of rows by tier. */
function tableLines({ tables }: Feasible): string[] {
  if (tables.length === 0) return [];
  const lines = tables.flatMap(({ table, tier, reason, wholeBytes, ...caches }) => {
    const head = `  ${table.padEnd(19)}${tier}, as ${reason}`;
    const { rows, moreHbm, moreDdr, hbmBytes, ddrBytes } = caches;
    if (rows === undefined || moreHbm === undefined || moreDdr === undefined) return [head];
    const held = `HBM ${bytes(hbmBytes)} and DDR ${bytes(ddrBytes)} of ${bytes(wholeBytes)}`;
    const from = `${percent(rows.hbm)} from HBM, ${percent(rows.ddr)} from DDR`;
    const more = `${percent(moreHbm.hbm)} with 1 GiB more HBM`;
    const below = `${percent(rows.ssd)} from SSD, ${percent(moreDdr.ssd)} with 1 GiB more DDR`;
    return [head, `    ${held}: ${from}, ${more}; ${below}`];
  });
  return ["Tables, and where the rows of a batch are expected", ...lines, ""];
}

/** Which lists are deduplicated, and why. */
function listLines({ ikjt, data }: StatisticsSource): string[] {
  if (data.ikjt === undefined) return [];
  if (ikjt === undefined) {
    return ["Lists                not measured: there is no data cache yet, as a run makes it", ""];
  }
  if (ikjt.length === 0) return ["Lists                none repeats often enough to share", ""];
  const lines = ikjt.map(({ features, factor, predicted, isChosen }) => {
    const times = `${factor.toFixed(2)} for each distinct one (by the formula ${predicted.toFixed(2)})`;
    return `  ${features.join(", ").padEnd(19)}${times}: ${isChosen ? "deduplicated" : "left as they are"}`;
  });
  return ["Repeated lists within a slice of a batch, and their deduplication", ...lines, ""];
}

function stepLines({ assessment }: Feasible): string[] {
  const { traffic } = assessment;
  const sent = [
    `ids ${bytes(traffic.input)}`,
    `pooled ${bytes(traffic.forward)}`,
    `gradients ${bytes(traffic.backward)}`,
    `dense ${bytes(traffic.dense)}`,
  ];
  return [
    `Exchanged a step     ${sent.join(", ")}`,
    ...(traffic.acrossHosts > 0 ? [`  between hosts      ${bytes(traffic.acrossHosts)}`] : []),
    `Predicted step       ${shortTime(assessment.step)}`,
    ...stages.map((stage) => {
      return `  ${stageNames[stage].padEnd(19)}${shortTime(assessment.stages[stage])}`;
    }),
  ];
}

/** The cost of a plan found by learned costs, and the moves of the search. */
function learnedLines({ learned }: Feasible): string[] {
  if (learned === undefined) return [];
  const { best, whole, placements, isComplete } = learned;
  const cost = shortTime((best?.cost ?? 0) / 1000);
  const counted = (kind: string) => best?.steps.filter((step) => step.kind === kind).length ?? 0;
  const others = [
    [counted("rows"), "of rows"],
    [counted("cached"), "below memory"],
    [counted("copied"), "copied"],
  ] as const;
  const cut = [
    `${plural(counted("columns"), "halving")} of columns`,
    ...others.flatMap(([moves, what]) => (moves > 0 ? [`${moves} ${what}`] : [])),
  ].join(", ");
  const without = whole === undefined ? "no room without" : `${shortTime(whole / 1000)} without`;
  return [
    `Learned costs        ${cost} on the slowest device, with ${cut} (${without}), of ${plural(placements, "placement")}`,
    ...(isComplete
      ? []
      : ["                     The search was stopped: this is the best plan so far"]),
    "",
  ];
}

function alternativeLines({ considered }: Feasible): string[] {
  if (considered.length === 0) return [];
  const lines = considered.slice(0, alternativesShown).map(({ proposer, partitioner, score }) => {
    const how = partitioner === "" ? "" : `, ${partitioner}`;
    return `  ${(score === undefined ? "no room" : shortTime(score)).padEnd(10)} ${proposer}${how}`;
  });
  return ["Considered (largest load, how)", ...lines];
}

/** The report as one object; a plan's shards are in it. */
export function jsonOf(
  found: JobPlan<LearnedSearch>,
  { source }: MachineConstants,
  { samples, ikjt, links, fixed: { placement } }: StatisticsSource,
  choice?: DeviceChoice,
): object {
  const statistics = samples === undefined ? { from: "assumed" } : { from: "cache", samples };
  const head = {
    report: "plan",
    source,
    links,
    statistics,
    ...(placement.kind !== "auto" && { placement }),
    ikjt,
    predictions: choice?.predictions,
  };
  if (!found.isFeasible) return { ...head, ...found };
  const { text: _text, ...rest } = found;
  return { ...head, ...rest };
}

/** Placement, prediction and note of a plan; "" for tables "as-written" without a note. */
export function planLine(plan: PlanReport | undefined): string {
  if (plan === undefined) return "";
  const { by, note } = plan;
  const noted = note === undefined ? [] : [`  ! ${note}`];
  return [...(by === "as-written" ? [] : [`  tables by ${placesOf(plan)}`]), ...noted].join("\n");
}

/** Measured links, in words. */
function linksLine({ allToAll, roundSeconds }: MeasuredLinks): string {
  return `${bytes(allToAll)} a second, ${shortTime(roundSeconds)} a round`;
}

/** The same for the report of a run, with the statistics and constants of the plan. */
export function placedLines(plan: PlanReport | undefined): string[] {
  if (plan === undefined) return [];
  const { by, note, constants = "", statistics = false, links } = plan;
  const ids = statistics ? "ids as counted in the data" : "ids as assumed, not counted";
  const between = links === undefined ? "" : `, links of ${linksLine(links)}`;
  const from = `${ids}, ${constants}${between}`;
  const made = by === "as-written" ? [] : [`by ${placesOf(plan)}; from: ${from}`];
  return [...made, ...(note === undefined ? [] : [note])];
}

/** The placement of a job, in words; "" for `auto`. */
function placementOf({ kind, servers }: PlacementSpec = plainPlacement): string {
  const beside = servers === 0 ? "" : `, ${plural(servers, "server")}`;
  return kind === "auto" ? "" : `${kind}${beside}`;
}

function placesOf(plan: PlanReport) {
  const { by, schemes = {}, stepSeconds, imbalance, memoryBytes, placement } = plan;
  const most = memoryBytes?.reduce((all, own) => Math.max(all, own), 0);
  const cut = Object.entries(schemes).map(([scheme, tables]) => `${tables} ${scheme}`);
  const predicted = [
    ...(stepSeconds === undefined ? [] : [`a step ${shortTime(stepSeconds)}`]),
    ...(imbalance === undefined ? [] : [`the busiest device ${imbalance.toFixed(2)} x the mean`]),
    ...(most === undefined ? [] : [`${bytes(most)} a device at most`]),
  ].join(", ");
  const of = [placementOf(placement), cut.join(", ")].filter((one) => one !== "");
  return (
    `${by === "plan" ? "the job's plan" : "a plan for these devices"}: ` +
    `${of.join("; ") || "none"}${predicted && `; predicted: ${predicted}`}`
  );
}
