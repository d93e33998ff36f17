// What the tasks of a device do in a step, counted: ids, rows, vectors, products. The seconds of a
// task are a sum over these units, each with a cost that `osiris calibrate --machine` fits to steps
// of small jobs (task-probes.ts). The shards of a plan are counted in one pass for all devices.

import {
  deviceCount,
  distinctIds,
  distinctOfTile,
  distinctRows,
  type ExchangeSpec,
  type Graph,
  loadOf,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  placeBytesOf,
  rowShare,
  type Setting,
  type StepTaskName,
  sizeOf,
  tileColumns,
  tileRows,
} from "../../../internal.ts";

export const unitNames = [
  ...(["step", "table", "shard", "bag", "id", "idColumn", "row", "rowColumn", "element"] as const),
  ...(["cached", "missed", "missedColumn", "read", "half", "scaled"] as const),
  ...(["layer", "block", "parameter", "product", "activation"] as const),
  ...(["own", "shared", "small", "moved"] as const),
] as const;

/** Units of a task, and how many of each it has. `step`: 1, whatever is in the step. */
export type Units = Readonly<Partial<Record<(typeof unitNames)[number], number>>>;

/**
 * `between` is time of a step outside its tasks; `fetch` that of the tiers' thread, for the rows of
 * a step.
 */
export type CostedTask = Exclude<StepTaskName, "checkpoint"> | "between" | "fetch";

export type TaskUnits = Readonly<Partial<Record<CostedTask, Units>>>;

/** A planned job whose tasks are counted. */
export interface CountedJob {
  readonly setting: Setting;
  readonly plan: Plan;
  readonly graph: Graph;
  readonly exchange: Pick<ExchangeSpec, "forward" | "backward">;
  /** Samples of each device; left out: equally many. */
  readonly samples?: readonly number[];
}

/** Returns the function from a device to its units, by task. */
export function taskUnitsOf({
  setting,
  plan,
  graph,
  exchange,
  samples: given,
}: CountedJob): (rank: number) => TaskUnits {
  const { workload, devices } = setting;
  const { tables, denseLayers: layer, denseParameters: parameter } = workload;
  const held = heldBy(setting, plan);
  const sum = (of: (table: PlannedTable) => number) =>
    tables.reduce((all, table) => all + of(table), 0);
  const ofSample = {
    bag: sum(({ lookups = 1 }) => lookups),
    id: sum(({ poolingFactor }) => poolingFactor),
    element: sum(({ lookups = 1, dim }) => lookups * dim),
  };
  const [step, table] = [1, tables.length];
  return (rank) => {
    const samples = given?.[rank] ?? workload.batchSize / deviceCount(devices);
    const own = {
      bag: samples * ofSample.bag,
      id: samples * ofSample.id,
      element: samples * ofSample.element,
    };
    const [early, late] = [denseUnits(graph, samples, true), denseUnits(graph, samples, false)];
    const vectors = { step, table, bag: own.bag, element: own.element };
    const { row, cached, missed, missedColumn, read, ...looked } = held.of(rank);
    const { shard, bag, id, idColumn, rowColumn, element } = looked;
    const updated = { step, shard, id, idColumn, row, rowColumn };
    const copies = held.copies;
    return {
      ...{ batch: { step }, losses: { step }, between: { step } },
      ids: { step, table, bag: own.bag, id: own.id },
      receiveIds: { step, shard, bag, id, cached },
      tiers: { step, missed, missedColumn },
      ...(missed > 0 && { fetch: { step, missed, missedColumn, read } }),
      lookup: { step, ...looked, ...rounded(exchange.forward, element) },
      receiveReads: { ...vectors, ...rounded(exchange.forward, own.element) },
      ...{ forwardEarly: early, backwardEarly: early, forwardLate: late, backwardLate: late },
      sendGradients: { ...vectors, ...rounded(exchange.backward, own.element) },
      receiveGradients: { step, shard, bag, element, ...rounded(exchange.backward, element) },
      updateRows: updated,
      allReduce: { step, parameter },
      updateDense: { step, layer, parameter },
      ...(copies.shard > 0 && { lookupReplicas: { step, ...copies } }),
    };
  };
}

/** The blocks of the network that run before vectors arrive, or after them. */
function denseUnits({ nodes }: Graph, samples: number, areEarly: boolean): Units {
  const units = {
    ...({ step: 1, block: 0, parameter: 0, product: 0, activation: 0 } satisfies Units),
    ...({ own: 0, shared: 0, small: 0, moved: 0 } satisfies Units),
  };
  for (const node of nodes) {
    if (node.isEarly !== areEarly || node.start === undefined) continue;
    const { inputs, products = 0, elements = 0, parameters = [] } = node;
    const [weight] = parameters;
    units.block++;
    units.parameter += parameters.reduce((sum, own) => sum + sizeOf(own), 0);
    // A dense layer multiplies its input with a matrix.
    if (weight?.shape.length === 2 && inputs[0]?.shape.at(-1) === weight.shape[1]) {
      units.product += samples * products;
      units.activation += samples * elements;
      continue;
    }
    // Other blocks have small products for each sample: of its values, or with a parameter.
    const own = node.ownProducts ?? (parameters.length === 0 ? products : 0);
    units.own += samples * own;
    units.shared += samples * (products - own);
    if (products > 0) units.small += samples;
    else units.moved += samples * elements;
  }
  return units;
}

/** Elements of vectors that are rounded for the exchange, to 16 bits or with a scale. */
function rounded(format: string, elements: number): Units {
  if (format === "float32") return {};
  return format.endsWith("16") ? { half: elements } : { scaled: elements };
}

const noRows = {
  ...({ shard: 0, bag: 0, id: 0, idColumn: 0, element: 0, row: 0, rowColumn: 0 } satisfies Units),
  ...({ cached: 0, missed: 0, missedColumn: 0, read: 0 } satisfies Units),
};

/** The rows of the shards of each device, and of the copies that every device has. */
function heldBy(setting: Setting, plan: Plan) {
  const tables = new Map(setting.workload.tables.map((table) => [table.name, table]));
  const all = new Map<PlacedShard["device"], typeof noRows>();
  for (const shard of plan.shards) {
    const table = tables.get(shard.table);
    if (table === undefined) continue;
    const sums = all.get(shard.device) ?? { ...noRows };
    all.set(shard.device, sums);
    for (const [unit, count] of Object.entries(rowsOf(setting, table, shard))) {
      sums[unit as keyof typeof noRows] += count;
    }
  }
  return { of: (rank: number) => all.get(rank) ?? noRows, copies: all.get("all") ?? noRows };
}

function rowsOf(setting: Setting, table: PlannedTable, shard: PlacedShard): typeof noRows {
  const { batchSize } = setting.workload;
  const samples = shard.device === "all" ? batchSize / deviceCount(setting.devices) : batchSize;
  const columns = tileColumns(table, shard);
  const id = samples * table.poolingFactor * rowShare(table, shard, table.idShares);
  const bag = samples * (table.lookups ?? 1);
  const row = distinctOfTile(table, shard, samples);
  const isCached = shard.tier === "cached";
  const load = loadOf(setting, table, shard);
  const bytes = tileRows(table, shard) * placeBytesOf(setting, table, columns);
  const below = (shard.cache?.ddrBytes ?? 0) / Math.max(1, bytes);
  const missed = isCached ? row * missedShare(table, samples, load) : 0;
  const read = isCached ? row * missedShare(table, samples, Math.min(1, load + below)) : 0;
  return {
    ...{ shard: 1, bag, id, idColumn: id * columns, element: bag * columns },
    ...{ row, rowColumn: row * columns, cached: isCached ? row : 0 },
    ...{ missed, missedColumn: missed * columns, read },
  };
}

/** Share of a batch's distinct rows outside the most popular ones, which a cache holds. */
function missedShare(table: PlannedTable, samples: number, load: number): number {
  const { rows, zipf, poolingFactor } = table;
  const distinct = distinctRows(table, samples);
  const hot = Math.floor(rows * load);
  const missed = distinctIds({ rows, draws: samples * poolingFactor, zipf, hot });
  return distinct > 0 ? Math.min(1, missed / distinct) : 0;
}
