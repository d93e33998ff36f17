// Trains one cost network as an ordinary job, and reads its layers from the checkpoint.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { adam, type Cluster, csv, type JobOptions } from "../../../internal.ts";
import { type DenseTensor, openExported } from "../../formats/index.ts";
import type { CostLayer } from "../search/cost-networks.ts";
import {
  columnNames,
  csvOf,
  deviationOf,
  mapped,
  type NetworkSample,
  type Parts,
} from "./cost-samples.ts";

const batchSize = 512;

const modulePath = fileURLToPath(new URL("cost-network-model.js", import.meta.url));

export interface Training {
  readonly cluster: Cluster;
  readonly home: string;
  readonly name: string;
  readonly seed: number;
  readonly epochs: number;
}

/** The result of a training run. */
export interface TrainedRun {
  readonly digest: string;
  /** Unit of the network's outputs, in milliseconds. */
  readonly unit: number;
  /** Returns the layers of an MLP of the module, by its name. */
  readonly layersOf: (name: string, reluLast: boolean) => CostLayer[];
}

/**
 * Runs one training job. Outputs are divided by their standard deviation, so that one learning rate
 * suits all networks.
 */
export async function trainNetwork(
  { cluster, home, name, seed, epochs }: Training,
  parts: Parts<NetworkSample>,
  model: object,
): Promise<TrainedRun> {
  const unit = deviationOf(parts.train.flatMap(({ outputs }) => outputs));
  const files = mapped({ train: [parts.train], valid: [parts.valid], test: [] }, (samples) => {
    return csvOf(samples, unit);
  });
  const [first] = parts.train;
  const label = columnNames("y", first?.outputs.length ?? 0);
  const dataOf = (part: "train" | "valid") => {
    const path = `${home}-${part}.csv`;
    writeFileSync(path, files[part].join(""));
    const dense = columnNames("x", first?.inputs.length ?? 0);
    return csv(path, { label, dense, batchSize, cache: `${home}-cache` });
  };
  const steps = epochs * Math.ceil(parts.train.length / batchSize);
  const job: JobOptions = {
    name: `cost-network-${name}`,
    model: { kind: "custom", path: modulePath, ...model } as JobOptions["model"],
    data: { ...dataOf("train"), epochs },
    loss: { kind: "mse" },
    optimizer: {
      dense: adam({
        learningRate: 1e-3,
        schedule: { kind: "cosine", steps, warmUpSteps: 0 },
      }),
    },
    evaluation: { data: dataOf("valid"), everySteps: steps },
    checkpoint: { directory: home, everySteps: 1_000_000 },
    seed,
  };
  const { digest } = await (await cluster.submit(job)).result();
  const { dense } = openExported(home, {});
  return { digest, unit, layersOf: (of, reluLast) => layersFrom(dense, of, reluLast, unit) };
}

/** The layers `name.0`, `name.1` …; without `reluLast` the last layer is scaled to milliseconds. */
function layersFrom(
  tensors: readonly DenseTensor[],
  name: string,
  reluLast: boolean,
  unit: number,
): CostLayer[] {
  const valuesOf = (of: string) => tensors.find((tensor) => tensor.name === of)?.values;
  const layers: CostLayer[] = [];
  for (let layer = 0; ; layer++) {
    const weight = valuesOf(`${name}.${layer}.weight`);
    const bias = valuesOf(`${name}.${layer}.bias`);
    if (weight === undefined || bias === undefined) break;
    layers.push({ weight: weight.slice(), bias: bias.slice(), relu: true });
  }
  const last = layers.pop();
  if (last === undefined) return layers;
  if (reluLast) return [...layers, last];
  const scaled = (values: Float32Array) => values.map((value) => value * unit);
  return [...layers, { weight: scaled(last.weight), bias: scaled(last.bias), relu: false }];
}
