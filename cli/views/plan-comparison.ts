// Output of `osiris plan` that compares two plans, or explains the placement of tables.

import { type JobPlan, type MachineConstants, type Stage, stages } from "../../internal.ts";
import { aligned, bytes, percent, shortTime } from "../support/format.ts";
import { stageNames } from "./plan-report.ts";

/** A plan with the name that it is compared by. */
export interface NamedPlan {
  readonly name: string;
  readonly found: JobPlan;
  readonly constants: MachineConstants;
}

/** Most moved tables that have a line each. */
const movedShown = 20;

/** Two plans as lines: their figures side by side, and the tables that they place differently. */
export function comparisonLines(path: string, plans: readonly NamedPlan[]): string[] {
  const cells = (
    head: string,
    of: (found: Feasible) => number,
    text: (value: number) => string,
  ) => {
    const values = plans.map(({ found }) => (found.isFeasible ? of(found) : undefined));
    const [a, b] = values;
    const change = a !== undefined && b !== undefined && a > 0 ? signed(b / a - 1) : "";
    return [head, ...values.map((value) => (value === undefined ? "-" : text(value))), change];
  };
  const rows = [
    ["", ...plans.map(({ name }) => name), ""],
    cells("predicted step", ({ assessment }) => assessment.step, shortTime),
    ...stages.map((stage: Stage) => {
      return cells(
        `  ${stageNames[stage]}`,
        ({ assessment }) => assessment.stages[stage],
        shortTime,
      );
    }),
    cells("largest load", ({ assessment }) => assessment.score, shortTime),
    cells("fullest device", mostBytes, bytes),
    cells("lacking there", ({ assessment }) => assessment.lacksBytes, bytes),
    cells("shards", ({ plan }) => plan.shards.length, String),
  ];
  const without = plans.filter(({ found }) => !found.isFeasible);
  return [
    `${path}: ${plans.map(({ name }) => name).join(" beside ")}`,
    ...aligned(rows.filter((row) => !row.every((cell, i) => i === 0 || cell === "0 ns"))),
    ...without.map(({ name }) => `No plan was found that fits with ${name}.`),
    ...movedLines(plans),
  ];
}

/** The comparison as one object, for JSON. */
export function comparisonOf(plans: readonly NamedPlan[]): object {
  return {
    report: "plans",
    plans: plans.map(({ name, found, constants }) => {
      const { source } = constants;
      if (!found.isFeasible) return { name, source, isFeasible: false };
      const { assessment, sha256 } = found;
      return { name, source, isFeasible: true, sha256, assessment };
    }),
    moved: movedTables(plans),
  };
}

type Feasible = Extract<JobPlan, { isFeasible: true }>;

function mostBytes({ assessment }: Feasible): number {
  return assessment.devices.reduce((most, { bytes: own }) => Math.max(most, own), 0);
}

function signed(share: number): string {
  return `${share < 0 ? "-" : "+"}${percent(Math.abs(share))}`;
}

function movedTables([a, b]: readonly NamedPlan[]) {
  if (a?.found.isFeasible !== true || b?.found.isFeasible !== true) return [];
  const placesOf = ({ plan }: Feasible) => {
    const places = new Map<string, string>();
    for (const { table, scheme, device } of plan.shards) {
      const [head, devices] = places.get(table)?.split(" on ") ?? [scheme, ""];
      places.set(table, `${head} on ${devices === "" ? device : `${devices}, ${device}`}`);
    }
    return places;
  };
  const [before, after] = [placesOf(a.found), placesOf(b.found)];
  return [...before].flatMap(([table, was]) => {
    const is = after.get(table);
    return is === undefined || is === was ? [] : [{ table, was, is }];
  });
}

function movedLines(plans: readonly NamedPlan[]): string[] {
  const moved = movedTables(plans);
  if (moved.length === 0) return [];
  const lines = moved.slice(0, movedShown).map(({ table, was, is }) => `  ${table}: ${was}; ${is}`);
  const rest = moved.length - lines.length;
  return ["Tables placed differently", ...lines, ...(rest > 0 ? [`  and ${rest} more`] : [])];
}

/** The reason for each table's placement. */
export function reasonLines(found: JobPlan): string[] {
  if (!found.isFeasible) return [];
  const { score } = found.assessment;
  const lines = (found.reasons ?? []).flatMap((own) => {
    const where = own.devices.length === 0 ? "on every device" : `on ${own.devices.join(", ")}`;
    const dearest = stages
      .filter((stage) => own.stages[stage] > 0)
      .sort((a, b) => own.stages[b] - own.stages[a])
      .slice(0, 3)
      .map((stage) => `${stageNames[stage]} ${shortTime(own.stages[stage])}`);
    const { otherCut, bestMove } = own;
    const cut = otherCut && `${otherCut.scheme} it would take ${shortTime(otherCut.cost)}`;
    const move =
      bestMove &&
      `from ${bestMove.from} to ${bestMove.to} the largest load would be ` +
        `${shortTime(bestMove.score)} (${signed(bestMove.score / score - 1)})`;
    const more = [cut, move].filter((part) => part !== undefined);
    return [
      `  ${own.table}: ${own.scheme} ${where}, ${shortTime(own.cost)}: ${dearest.join(", ")}`,
      ...(more.length === 0 ? [] : [`    ${more.join("; ")}`]),
    ];
  });
  return ["Reasons for the placement of each table", ...lines];
}
