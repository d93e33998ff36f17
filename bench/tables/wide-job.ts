// A job with many small tables: a DLRM whose features interact in sixteen groups, so that the dense
// network does not grow with the square of the tables. The tables test, the bench and the probes of
// both use it.

import type { JobOptions } from "../../internal.ts";

const groupCount = 16;
const dim = 8;

/** `directory`: of its checkpoints and caches. The steps of an epoch: eight. */
export function wideJob(tables: number, directory: string): JobOptions {
  const names = Array.from({ length: tables }, (_, at) => `T${at}`);
  const size = Math.ceil(tables / groupCount);
  const groups = Array.from({ length: groupCount }, (_, at) => {
    return { name: `g${at}`, features: names.slice(at * size, (at + 1) * size) };
  });
  return {
    name: `wide-${tables}`,
    model: {
      kind: "dlrm",
      dense: 4,
      tables: names.map((name, at) => ({ name, rows: 50 + 10 * (at % 7), dim })),
      features: names.map((column) => ({ column })),
      groups: groups.filter(({ features }) => features.length > 0),
      bottom: [dim],
      top: [8, 1],
    },
    data: {
      ...{ kind: "synthetic", samples: 512, dense: 4, batchSize: 64 },
      cache: `${directory}/cache`,
    },
    optimizer: {
      dense: { kind: "sgd", learningRate: 0.01 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 },
    },
    evaluation: { everySteps: 0 },
    checkpoint: { directory: `${directory}/run`, everySteps: 4 },
    sharding: "as-written",
    restarts: { restartsMax: 100, windowMs: 1 },
  } as JobOptions;
}
