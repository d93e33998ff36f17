// Counts the work of a device's tasks in a step: ids, rows, vectors, products. The seconds of a
// task are a sum over these units, each with a cost that `osiris calibrate --machine` fits to steps
// of small jobs (task-probes.ts). The shards of a plan are counted in one pass for all devices.

import {
  deviceCount,
  distinctIds,
  distinctOfTile,
  distinctRows,
  type ExchangeSpec,
  type Graph,
  type JobSpec,
  loadOf,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  placeBytesOf,
  rowShare,
  type Setting,
  type StepTaskName,
  sizeOf,
  sumOverRanks,
  tileColumns,
  tileRows,
} from "../../../internal.ts";

export const unitNames = [
  ...(["step", "table", "shard", "bag", "id", "idColumn", "row", "rowColumn", "element"] as const),
  ...(["cachedShard", "cached", "missed", "missedColumn", "read", "half", "scaled"] as const),
  ...(["layer", "block", "parameter", "product", "activation"] as const),
  ...(["own", "shared", "small", "moved", "gradient", "cold", "farRow", "farColumn"] as const),
] as const;

/** The number of each unit in a task. `step`: always 1. */
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
  /** Number of batches that each epoch repeats; left out: all batches are different. */
  readonly repeated?: number | undefined;
}

/**
 * A task that begins with cold caches takes longer. `cold` is near 1 where a step touches many more
 * bytes than this share of a processor's last cache, and near 0 where it touches few.
 */
const cacheBytes = 16e6;
/**
 * Rows of large tables cost more, as the processor finds the addresses of fewer of their pages in
 * its caches. `farRow` and `farColumn` are near the rows where the tables of a device have many
 * more bytes than this.
 */
const nearBytes = 1e9;

const shareBeyond = (bytes: number, there: number) => bytes / (bytes + there);

/** Returns the function from a device to its units, by task. */
export function taskUnitsOf({
  setting,
  plan,
  graph,
  exchange,
  samples: given,
  repeated,
}: CountedJob): (rank: number) => TaskUnits {
  const { workload, devices } = setting;
  const { tables, denseLayers: layer, denseParameters: parameter } = workload;
  const held = heldBy(setting, plan, repeated);
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
    const ofSamples = {
      bag: samples * ofSample.bag,
      id: samples * ofSample.id,
      element: samples * ofSample.element,
    };
    const [early, late] = [denseUnits(graph, samples, true), denseUnits(graph, samples, false)];
    const vectors = { step, table, bag: ofSamples.bag, element: ofSamples.element };
    const { bytes, row, cachedShard, cached, missed, missedColumn, read, ...looked } =
      held.of(rank);
    // For each row that is read from below, another row leaves device memory.
    const moved = cachedShard > 0 && { cachedShard, missed, missedColumn };
    const { shard, bag, id, idColumn, rowColumn, element } = looked;
    const isFar = shareBeyond(bytes, nearBytes);
    const far = { farRow: isFar * row, farColumn: isFar * rowColumn };
    const updated = { step, shard, id, idColumn, row, rowColumn, ...far };
    const { bytes: _, ...copies } = held.copies;
    // Outputs and their gradients, weights with gradients and state, rows, vectors and ids.
    const values = early.activation + early.moved + late.activation + late.moved;
    const weights = early.parameter + late.parameter;
    const touched = 2 * values + 3 * weights + 2 * rowColumn + 3 * ofSamples.element + 3 * id;
    return withCold(shareBeyond(4 * touched, cacheBytes), {
      ...{ batch: { step }, losses: { step }, between: { step, ...moved } },
      ids: { step, table, bag: ofSamples.bag, id: ofSamples.id },
      receiveIds: { step, shard, bag, id, ...(moved && { cached, ...moved }) },
      tiers: { step, ...moved },
      ...(moved && missed > 0 && { fetch: { step, ...moved, read } }),
      lookup: { step, ...looked, ...far, ...rounded(exchange.forward, element) },
      receiveReads: { ...vectors, ...rounded(exchange.forward, ofSamples.element) },
      ...{ forwardEarly: early, forwardLate: late, backwardLate: late },
      // It also copies the dense gradient into the all-reduce.
      backwardEarly: { ...early, gradient: parameter },
      sendGradients: { ...vectors, ...rounded(exchange.backward, ofSamples.element) },
      receiveGradients: { step, shard, bag, element, ...rounded(exchange.backward, element) },
      updateRows: { ...updated, ...(moved && { cachedShard, cached }) },
      allReduce: { step, parameter },
      updateDense: { step, layer, parameter },
      ...(copies.shard > 0 && { lookupReplicas: { step, ...copies } }),
    });
  };
}

/** The tasks of a device's thread with this share of cold caches. */
function withCold(cold: number, tasks: TaskUnits): TaskUnits {
  return Object.fromEntries(
    Object.entries(tasks).map(([task, own]) => [task, task === "fetch" ? own : { ...own, cold }]),
  );
}

/** The blocks of the network that run before vectors arrive, or after them. */
function denseUnits({ nodes }: Graph, samples: number, areEarly: boolean) {
  const units = {
    ...({ step: 1, block: 0, parameter: 0, product: 0, activation: 0 } satisfies Units),
    ...({ own: 0, shared: 0, small: 0, moved: 0 } satisfies Units),
  };
  for (const node of nodes) {
    if (node.isEarly !== areEarly || node.start === undefined) continue;
    const { inputs, products = 0, elements = 0, parameters = [] } = node;
    const [weight] = parameters;
    units.block++;
    units.parameter += parameters.reduce((sum, parameter) => sum + sizeOf(parameter), 0);
    // A dense layer multiplies its input with a matrix.
    if (weight?.shape.length === 2 && inputs[0]?.shape.at(-1) === weight.shape[1]) {
      units.product += samples * products;
      units.activation += samples * elements;
      continue;
    }
    // Other blocks have small products for each sample: of its values, or with a parameter.
    const ownProducts = node.ownProducts ?? (parameters.length === 0 ? products : 0);
    units.own += samples * ownProducts;
    units.shared += samples * (products - ownProducts);
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

/** `bytes`: of the rows in device memory. */
const noRows = {
  bytes: 0,
  ...({ shard: 0, bag: 0, id: 0, idColumn: 0, element: 0, row: 0, rowColumn: 0 } satisfies Units),
  ...({ cachedShard: 0, cached: 0, missed: 0, missedColumn: 0, read: 0 } satisfies Units),
};

/** The rows of the shards of each device, and of the copies that every device has. */
function heldBy(setting: Setting, plan: Plan, repeated: number | undefined) {
  const tables = new Map(setting.workload.tables.map((table) => [table.name, table]));
  const all = new Map<PlacedShard["device"], typeof noRows>();
  for (const shard of plan.shards) {
    const table = tables.get(shard.table);
    if (table === undefined) continue;
    const sums = all.get(shard.device) ?? { ...noRows };
    all.set(shard.device, sums);
    for (const [unit, count] of Object.entries(rowsOf(setting, table, shard, repeated))) {
      sums[unit as keyof typeof noRows] += count;
    }
  }
  return { of: (rank: number) => all.get(rank) ?? noRows, copies: all.get("all") ?? noRows };
}

function rowsOf(
  setting: Setting,
  table: PlannedTable,
  shard: PlacedShard,
  repeated: number | undefined,
): typeof noRows {
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
  const missOf = (share: number) => row * missedShare(table, samples, share, repeated);
  const missed = isCached ? missOf(load) : 0;
  // The host's cache also holds most rows of the device's.
  const read = isCached ? missOf(Math.min(1, Math.max(load, below))) : 0;
  return {
    bytes: 4 * tileRows(table, shard) * columns * (isCached ? load : 1),
    ...{ shard: 1, bag, id, idColumn: id * columns, element: bag * columns },
    ...{ row, rowColumn: row * columns, cachedShard: isCached ? 1 : 0, cached: isCached ? row : 0 },
    ...{ missed, missedColumn: missed * columns, read },
  };
}

/** Share of a batch's distinct rows outside a cache of the most popular ones. */
function missedShare(
  table: PlannedTable,
  samples: number,
  load: number,
  repeated: number | undefined,
): number {
  const { rows, zipf, poolingFactor } = table;
  const draws = samples * poolingFactor;
  const hot = Math.floor(rows * load);
  if (repeated !== undefined) return repeatedMisses({ rows, zipf, draws }, hot, repeated);
  const distinct = distinctRows(table, samples);
  const missed = distinctIds({ rows, draws, zipf, hot });
  return distinct > 0 ? Math.min(1, missed / distinct) : 0;
}

/**
 * Rows are counted by the number of batches that need them, up to this number. For rows that more
 * batches need, the order by count hardly differs from Zipf's order, which then decides what is
 * cached.
 */
const countedMax = 64;

/**
 * Share of a batch's distinct rows outside a cache of `hot` rows, where `batches` batches of
 * `draws` ids come again in each epoch: the cache holds the rows that most of these batches need.
 * Zipf's law gives the mean number of batches that need a row; the number itself is taken as
 * Poisson's.
 */
export function repeatedMisses(
  { rows, zipf, draws }: Readonly<Record<"rows" | "zipf" | "draws", number>>,
  hot: number,
  batches: number,
): number {
  const whole = sumOverRanks(0, rows, (k) => k ** -zipf);
  const meanOf = (k: number) => -batches * Math.expm1((-draws * k ** -zipf) / whole);
  const sumOf = (of: (mean: number) => number) => sumOverRanks(0, rows, (k) => of(meanOf(k)));
  const needed = sumOf((mean) => mean);
  for (let count = 1; count <= countedMax; count++) {
    // Rows that `count` batches or more need are held; of the others, as many as there is room for.
    const held = sumOf((mean) => 1 - fewerThan(count, mean));
    if (held > hot) continue;
    const missed = sumOf((mean) => mean * fewerThan(count - 1, mean));
    return Math.max(0, missed - (hot - held) * (count - 1)) / needed;
  }
  return sumOverRanks(hot, rows, meanOf) / needed;
}

/** The probability that a Poisson number with this mean is less than `count`. */
function fewerThan(count: number, mean: number): number {
  let [sum, term] = [0, Math.exp(-mean)];
  for (let i = 0; i < count; i++) {
    sum += term;
    term *= mean / (i + 1);
  }
  return Math.min(1, sum);
}

/** Number of batches that epochs repeat; undefined: one epoch, or a file that is not read yet. */
export function repeatedBatches({ data }: Pick<JobSpec, "data">): number | undefined {
  if (data.kind !== "synthetic" || data.passes === 1) return undefined;
  return Math.max(1, Math.floor(data.samples / data.batchSize));
}
