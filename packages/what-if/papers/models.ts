// The models of the papers of Neo (Mudigere et al., arXiv 2104.05158) and of Zion (Naumov et al.,
// arXiv 2011.05497) as jobs of generated data. The papers have a model's parameters, its
// operations, and ranges and means of its tables; the rest is spread by rules:
//
//   columns   over the stated range by a power, so that their mean is the stated one
//   ids       exponentially around the stated mean: the widest spread of a positive number that
//             only its mean is known of
//   rows      evenly in their logarithm, over three decades; scaled to the stated parameters
//   vectors   as many as the operations allow, each projected of all tables; where they allow
//             none, the tables' own vectors take part in the interaction
//   dense     features take the rest of the stated operations
//
// No rule depends on a measured speed. Values are drawn by Halton sequences (one base for each
// property), so that a model is the same on every machine, and its means are those of the rules.

import {
  InvalidOptionError,
  type JobOptions,
  type ModelOptions,
  modelSize,
} from "../../../internal.ts";

export interface PaperModel {
  readonly name: string;
  readonly paper: "Neo" | "Zion";
  /** Parameters of all tables. */
  readonly parameters: number;
  /** Operations of a sample's forward pass, in millions; left out: the paper has none. */
  readonly megaflops?: number;
  readonly tables: number;
  /** Columns of a table: the least, the most and the mean. */
  readonly dims: readonly [number, number, number];
  /** Ratio of the most rows to the fewest; left out: three decades. */
  readonly rowsRatio?: number;
  /** Mean ids of a bag. */
  readonly pooling: number;
  /** Layers of both MLPs without the logit's, and their mean width. */
  readonly layers: number;
  readonly width: number;
  /** Dense features, where the paper has them. */
  readonly dense?: number;
  /** Samples of a device in a step. */
  readonly batch: number;
  /** Whether all but parameters and operations are quoted from memory, or assumed by us. */
  readonly from: "memory" | "assumed";
}

const neo = { paper: "Neo", from: "memory", batch: 512 } as const;
const zion = { paper: "Zion", from: "assumed", batch: 200, layers: 6, width: 512 } as const;
const zionTables = { dims: [64, 64, 64], pooling: 32 } as const;

/**
 * The models. Tables are as many as the order of magnitude in the paper (thousands, hundreds); of
 * model-F as many as have the parameters with the most rows that a table may have.
 */
export const paperModels: readonly PaperModel[] = [
  {
    ...{ ...neo, name: "model-a", parameters: 793e9, megaflops: 638, tables: 1000 },
    ...{ dims: [4, 384, 93], pooling: 15, layers: 20, width: 3375 },
  },
  {
    ...{ ...neo, name: "model-f", parameters: 12e12, megaflops: 5, tables: 22, rowsRatio: 1 },
    ...{ dims: [256, 256, 256], pooling: 20, layers: 7, width: 490 },
  },
  {
    ...{ ...neo, name: "model-i", parameters: 332e9, megaflops: 60, tables: 300 },
    ...{ dims: [92, 92, 92], pooling: 70, layers: 43, width: 682, batch: 2048 },
  },
  {
    ...{ ...neo, name: "model-a1", parameters: 95e9, megaflops: 89, tables: 100 },
    ...{ dims: [4, 192, 68], pooling: 27, layers: 26, width: 914 },
  },
  {
    ...{ ...neo, name: "model-a3", parameters: 845e9, megaflops: 784, tables: 1000 },
    ...{ dims: [4, 960, 231], pooling: 17, layers: 26, width: 3210 },
  },
  { ...zion, name: "zion-m1", parameters: 12e9, tables: 30, dense: 800, ...zionTables },
  { ...zion, name: "zion-m2", parameters: 8e9, tables: 13, dense: 504, ...zionTables },
  { ...zion, name: "zion-m3", parameters: 120e9, tables: 127, dense: 809, ...zionTables },
];

/** How a model's job is scaled. */
export interface PaperScale {
  /** Devices, each with the model's samples of a step. @default 128 */
  readonly devices?: number;
  /** Share of the rows of each table, for fewer hosts than the model needs. @default 1 */
  readonly rows?: number;
  /** Multiple of tables and parameters; operations of a sample stay the same. @default 1 */
  readonly tables?: number;
}

/** Devices of Neo's headline runs: 16 hosts with 8 each. */
const usualDevices = 128;
/** Steps of a job: enough to be a run, and few enough that nobody trains it by mistake. */
const steps = 100;

/** The job of a model. @throws InvalidOptionError where no model has the name */
export function paperModel(name: string, scale: PaperScale = {}): JobOptions {
  const { devices = usualDevices, rows = 1, tables = 1 } = scale;
  const found = findModel(name);
  const { tables: count, parameters } = found;
  const paper = { ...found, tables: tables * count, parameters: tables * parameters };
  const batchSize = devices * paper.batch;
  const model = withOperations(paper, tablesOf(paper, rows));
  const around = shares(paper.tables, poolingBase).map((share) => -Math.log1p(-share));
  const unit = (paper.tables * paper.pooling) / around.reduce((sum, own) => sum + own, 0);
  const perFeature = Object.fromEntries(
    around.map((own, i) => [nameOf(i), { idsPerBag: { mean: unit * own } }]),
  );
  return {
    name,
    model,
    data: {
      ...{ kind: "synthetic", batchSize, samples: Math.min(steps * batchSize, 0xffff_ffff) },
      ...{ dense: model.dense ?? 0, perFeature },
    },
  };
}

function findModel(name: string): PaperModel {
  const found = paperModels.find((one) => one.name === name);
  if (found !== undefined) return found;
  const names = paperModels.map((one) => one.name).join(", ");
  throw new InvalidOptionError("job", `Expected a job file, or one of ${names}, got \`${name}\``);
}

const nameOf = (table: number) => `t${table}`;

/** Bases of the sequences of columns, rows and ids. */
const [dimBase, rowsBase, poolingBase] = [2, 3, 5];

/** Evenly spread numbers in (0, 1), in the order of the Halton sequence of a base. */
function shares(count: number, base: number): number[] {
  const halton = Array.from({ length: count }, (_, i) => {
    let [value, digit] = [0, 1 / base];
    for (let rest = i + 1; rest > 0; rest = Math.floor(rest / base)) {
      value += digit * (rest % base);
      digit /= base;
    }
    return value;
  });
  const order = [...halton.keys()].sort((a, b) => (halton[a] ?? 0) - (halton[b] ?? 0));
  const spread = new Array<number>(count).fill(0);
  for (const [rank, i] of order.entries()) spread[i] = (rank + 0.5) / count;
  return spread;
}

/** Ratio of the most to the fewest rows, where the paper has none. */
const usualRatio = 1000;
/** Columns are multiples of these, as in FBGEMM. */
const dimUnit = 4;
/** One of as many layers is in the bottom MLP, as in the DLRMs of MLPerf. */
const bottomShare = 3;

function tablesOf(paper: PaperModel, share: number): Table[] {
  const { tables, dims, parameters, rowsRatio = usualRatio } = paper;
  const [least, most, mean] = dims;
  const exponent = least === most ? 1 : (most - least) / (mean - least) - 1;
  const size = shares(tables, rowsBase).map((own) => rowsRatio ** own);
  const drawn = shares(tables, dimBase).map((own, i) => {
    const dim = least + (most - least) * own ** exponent;
    return { dim: dimUnit * Math.round(dim / dimUnit), size: size[i] ?? 1 };
  });
  const unit = parameters / drawn.reduce((sum, own) => sum + own.dim * own.size, 0);
  return drawn.map((own, i) => {
    return { name: nameOf(i), rows: Math.floor(share * unit * own.size) + 1, dim: own.dim };
  });
}

type Table = { readonly name: string; readonly rows: number; readonly dim: number };
type Dlrm = Extract<ModelOptions, { kind: "dlrm" }>;

/** Columns of the vectors that are projected from all tables. */
const projectedDim = 64;
/** Most columns of a table of a model. */
const dimMax = 4096;

/** The DLRM with these tables, and with the layers and the operations that the paper has. */
function withOperations(paper: PaperModel, tables: readonly Table[]): Dlrm {
  const { megaflops, dense = 1 } = paper;
  if (megaflops === undefined) return dlrm(paper, tables, dense, 0);
  const lacks = (of: Dlrm) => 1e6 * megaflops - modelSize(of).flops;
  // The operations of a projection depend on the sum of columns only.
  const columns = tables.reduce((sum, { dim }) => sum + dim, 0);
  const wide = Array.from({ length: Math.ceil(columns / dimMax) }, (_, i) => {
    return { name: nameOf(i), rows: 1, dim: Math.min(dimMax, columns - i * dimMax) };
  });
  let vectors = 0;
  while (lacks(dlrm(paper, wide, dense, vectors + 1)) >= 0) vectors++;
  const [first] = dlrm(paper, tables, dense, vectors).bottom ?? [];
  const left = lacks(dlrm(paper, vectors > 0 ? wide : tables, dense, vectors));
  return dlrm(paper, tables, dense + Math.floor(left / (2 * (first ?? 1))), vectors);
}

/** `vectors`: number of vectors projected from all tables; 0: each table's own vector is used. */
function dlrm(
  { layers, width, dims }: PaperModel,
  tables: readonly Table[],
  dense: number,
  vectors: number,
): Dlrm {
  const dim = vectors > 0 ? projectedDim : dims[2];
  const hidden = Math.round((layers * width - dim) / (layers - 1));
  const inBottom = Math.floor(layers / bottomShare);
  const filled = (count: number) => new Array<number>(count).fill(hidden);
  const features = tables.map(({ name }) => name);
  return {
    ...{ kind: "dlrm", dense, dim, tables: [...tables] },
    ...{ bottom: [...filled(inBottom - 1), dim], top: [...filled(layers - inBottom), 1] },
    ...(vectors > 0 && { groups: [{ name: "all", features, vectors }] }),
  };
}
