// The settings of each model that `frappe.ts --model` names, chosen by validation AUC alone. Models
// of BARS (github.com/reczoo/BARS, Frappe_x1) have its published settings: batches of 4096, rows of
// 10 columns initialised near 0, batch normalisation, dropout, a penalty on all rows in every step,
// the learning rate divided by ten after each epoch without improvement, and early stopping after
// two such epochs in a row. finalMlp differs by smaller batches and wider rows. Wukong has the
// plain recipe of the DLRM, a larger penalty, and moving averages of all weights.

import { dlrm, type JobOptions, type TableOptions, wukong } from "../index.ts";

/** Columns of the files. Values are global ids; those of a column start at its `offset`. */
export const columns = [
  { name: "user", offset: 0, rows: 957 },
  { name: "item", offset: 957, rows: 4082 },
  { name: "daytime", offset: 5039, rows: 7 },
  { name: "weekday", offset: 5046, rows: 7 },
  { name: "isweekend", offset: 5053, rows: 2 },
  { name: "homework", offset: 5055, rows: 3 },
  { name: "cost", offset: 5058, rows: 2 },
  { name: "weather", offset: 5060, rows: 9 },
  { name: "country", offset: 5069, rows: 80 },
  { name: "city", offset: 5149, rows: 233 },
] as const;

/** The training settings of a model. */
export interface Setting {
  readonly model: JobOptions["model"];
  readonly batchSize: number;
  /** Decay of the moving averages of all weights; left out: no averages. */
  readonly decay?: number;
  readonly evaluation: Pick<
    NonNullable<JobOptions["evaluation"]>,
    "earlyStopping" | "reduceOnPlateau"
  >;
}

/** @throws Error where no setting has this name */
export function settingOf(name: string): Setting {
  switch (name) {
    case "dlrm": {
      const tables = tablesOf({ dim: 32, l2: 0.0015, initScale: 0.05 });
      return plain(dlrm({ tables, interaction: "dot+cat", top: [256, 128, 1], dropout: 0.5 }));
    }
    case "deepFm":
      return bars({ l2: 0.05, dim: 11 }, (tables) => {
        return { kind: "deepFm", tables, top: [400, 400, 400, 1], batchNorm: true, dropout: 0.2 };
      });
    case "dcnV2":
      return bars({ l2: 0.05, dim: 10 }, (tables) => {
        const cross = { crossLayers: 4, structure: "parallel" } as const;
        const deep = { top: [400, 400, 400, 1], batchNorm: true, dropout: 0.4 };
        return { kind: "dcnV2", tables, ...cross, ...deep };
      });
    case "finalMlp":
      return bars({ l2: 0.05, dim: 16, batchSize: 1024 }, (tables) => {
        const streams = { first: [400], second: [100], heads: 5, gates: [400] };
        return { kind: "finalMlp", tables, ...streams, batchNorm: true, dropout: 0.4 };
      });
    case "finalNet":
      return bars({ l2: 0.1, dim: 10 }, (tables) => {
        const blocks = { first: [400, 400], second: [400], fieldGate: true };
        return { kind: "finalNet", tables, ...blocks, batchNorm: true, dropout: 0.1 };
      });
    case "wukong": {
      const tables = tablesOf({ dim: 32, l2: 0.02, initScale: 0.05 });
      const layer = { interacted: 8, compressed: 8, rank: 8, hidden: [128] };
      const top = [256, 128, 1];
      const model = wukong({ tables, layers: [layer, layer], top, dropout: 0.5 });
      return { ...plain(model), decay: 0.995 };
    }
    default:
      throw new Error(`Expected --model dlrm, deepFm, dcnV2, finalMlp, finalNet, wukong: ${name}`);
  }
}

/**
 * The plain recipe: constant learning rates, and early stopping after three epochs without
 * improvement.
 */
function plain(model: JobOptions["model"]): Setting {
  return { model, batchSize: 1024, evaluation: { earlyStopping: { metric: "auc", patience: 3 } } };
}

/** The recipe of BARS, with its L2 penalty on rows. */
function bars(
  options: {
    readonly l2: number;
    readonly dim: number;
    /** @default 4096 */
    readonly batchSize?: number;
  },
  modelOf: (tables: readonly TableOptions[]) => JobOptions["model"],
): Setting {
  const { l2, dim, batchSize = 4096 } = options;
  const metric = "auc" as const;
  const minDelta = 1e-6;
  return {
    // Uniform initial values with standard deviation 1e-4.
    model: modelOf(tablesOf({ dim, l2, initScale: 1e-4 * Math.sqrt(3) })),
    batchSize,
    evaluation: {
      earlyStopping: { metric, patience: 2, minDelta },
      reduceOnPlateau: { metric, minDelta },
    },
  };
}

/** Replicated tables, since they are small; the penalty applies to all rows. */
function tablesOf(options: Pick<TableOptions, "dim" | "l2" | "initScale">): TableOptions[] {
  const everywhere = { sharding: "data-parallel", l2Scope: "table" } as const;
  return columns.map(({ name, rows }) => ({ name, rows, ...options, ...everywhere }));
}
