// What the tasks of a device do in a step, counted: ids, rows, vectors, products. The seconds of a
// task are a sum over these units, each with a cost that `osiris calibrate` fits to steps of small
// jobs (task-probes.ts).

import {
  deviceCount,
  distinctIds,
  distinctOfTile,
  distinctRows,
  loadOf,
  type Plan,
  type PlannedTable,
  rowShare,
  type Setting,
  type StepTaskName,
  tileColumns,
} from "../../../internal.ts";

/** The units of a task, and how many of each it has. `step`: 1, whatever is in the step. */
export type Units = Readonly<Record<string, number>>;

/** Both passes over the dense layers are counted once, whether early or late. */
export type CostedTask = Exclude<
  StepTaskName,
  "forwardEarly" | "forwardLate" | "backwardEarly" | "backwardLate" | "checkpoint"
>;
export type TaskUnits = Readonly<
  Partial<Record<CostedTask | "forward" | "backward" | "between", Units>>
>;

/** Elements of vectors that are rounded for the exchange. */
export interface WireFormat {
  readonly forward: string;
  readonly backward: string;
}

/** The units of a device, by task. */
export function taskUnits(
  setting: Setting,
  plan: Plan,
  rank: number,
  format: WireFormat,
): TaskUnits {
  const { workload, devices } = setting;
  const { tables } = workload;
  const b = workload.batchSize / deviceCount(devices);
  const sum = (of: (table: PlannedTable) => number) =>
    b * tables.reduce((all, table) => all + of(table), 0);
  const own = {
    bag: sum(({ lookups = 1 }) => lookups),
    id: sum(({ poolingFactor }) => poolingFactor),
    element: sum(({ lookups = 1, dim }) => lookups * dim),
  };
  const held = heldUnits(setting, plan, rank, false);
  const copied = heldUnits(setting, plan, rank, true);
  const dense = {
    step: 1,
    layer: workload.denseLayers,
    product: (b * workload.denseFlop) / 6,
    activation: b * workload.denseActivations,
    ownProduct: b * workload.denseOwnProducts,
    parameter: workload.denseParameters,
  };
  const table = tables.length;
  const reads = ({ step, shard, bag, id, idColumn, rowColumn, element }: typeof held) => ({
    ...{ step, shard, bag, id, idColumn, rowColumn, element },
  });
  const updates = ({ step, shard, id, idColumn, row, rowColumn }: typeof held) => ({
    ...{ step, shard, id, idColumn, row, rowColumn },
  });
  return {
    batch: { step: 1 },
    ids: { step: 1, table, bag: own.bag, id: own.id },
    receiveIds: { step: 1, shard: held.shard, bag: held.bag, id: held.id, cached: held.cached },
    tiers: { step: 1, missed: held.missed, missedColumn: held.missedColumn },
    lookup: { ...reads(held), ...coded(format.forward, held.element) },
    ...(copied.shard > 0 && { lookupReplicas: reads(copied) }),
    receiveReads: {
      step: 1,
      table,
      bag: own.bag,
      element: own.element,
      ...coded(format.forward, own.element),
    },
    forward: dense,
    backward: dense,
    sendGradients: {
      step: 1,
      table,
      bag: own.bag,
      element: own.element,
      ...coded(format.backward, own.element),
    },
    receiveGradients: {
      step: 1,
      shard: held.shard,
      bag: held.bag,
      element: held.element,
      ...coded(format.backward, held.element),
    },
    updateRows: updates(held),
    allReduce: { step: 1, parameter: workload.denseParameters },
    updateDense: { step: 1, layer: workload.denseLayers, parameter: workload.denseParameters },
    losses: { step: 1 },
    between: { step: 1 },
  };
}

function coded(format: string, elements: number): Units {
  if (format === "float32") return {};
  return format.endsWith("16") ? { half: elements } : { scaled: elements };
}

/** The units of the shards, or of the copies, on a device. */
function heldUnits(setting: Setting, plan: Plan, rank: number, areCopies: boolean) {
  const { workload, devices } = setting;
  const samples = workload.batchSize / (areCopies ? deviceCount(devices) : 1);
  const tables = new Map(workload.tables.map((table) => [table.name, table]));
  const sums = {
    step: 1,
    shard: 0,
    bag: 0,
    id: 0,
    idColumn: 0,
    element: 0,
    row: 0,
    rowColumn: 0,
    cached: 0,
    missed: 0,
    missedColumn: 0,
  };
  for (const shard of plan.shards) {
    const table = tables.get(shard.table);
    if (table === undefined || shard.device !== (areCopies ? "all" : rank)) continue;
    const columns = tileColumns(table, shard);
    const ids = samples * table.poolingFactor * rowShare(table, shard, table.idShares);
    const bags = samples * (table.lookups ?? 1);
    const rows = distinctOfTile(table, shard, samples);
    sums.shard += 1;
    sums.bag += bags;
    sums.id += ids;
    sums.idColumn += ids * columns;
    sums.element += bags * columns;
    sums.row += rows;
    sums.rowColumn += rows * columns;
    if (shard.tier !== "cached") continue;
    const load = loadOf(setting, table, shard);
    const all = distinctRows(table, samples);
    const draws = samples * table.poolingFactor;
    const missed = distinctIds({
      rows: table.rows,
      draws,
      zipf: table.zipf,
      hot: Math.floor(table.rows * load),
    });
    sums.cached += rows;
    sums.missed += all > 0 ? (rows * Math.min(all, missed)) / all : 0;
    sums.missedColumn += columns * (all > 0 ? (rows * Math.min(all, missed)) / all : 0);
  }
  return sums;
}
