// Cost networks as a safetensors file: weights and biases by network and layer, the mean and
// deviation by which inputs are standardised, and the networks' provenance in the metadata. O =
// outputs, I = inputs of a layer.
//
//   table.0.weight (O,I) table.0.bias (O) … head.… forward.… backward.…
//   table.mean (I) table.deviation (I) forward.… backward.…

import { z } from "zod";
import { type Disk, type InputUnusableError, realDisk } from "../../../internal.ts";
import type { CostLayer, CostNetworks, StandardNetwork } from "../search/cost-networks.ts";
import { featureCount, featureSets } from "../search/features.ts";
import {
  type FloatTensor,
  type Provenance,
  type ReadFloats,
  readFloats,
  unusableFile,
  writeFloats,
} from "./float-tensors.ts";

/** Value of the metadata field `kind`, by which the file is recognised. */
const kind = "osiris cost networks 1";

/** Writes the file. Equal networks with equal provenance give equal bytes. */
export async function writeCostNetworks(
  path: string,
  networks: CostNetworks,
  provenance: Provenance,
  disk: Disk = realDisk,
): Promise<void> {
  const { devices, hosts, batchSize, lateMax, features } = networks;
  const over = hosts === undefined ? {} : { hosts };
  const numbers = Object.entries({ devices, ...over, batchSize, lateMax, features });
  const notes = {
    ...provenance,
    kind,
    ...Object.fromEntries(numbers.map(([name, value]) => [name, String(value)])),
  };
  await writeFloats(path, tensorsOf(networks), notes, disk);
}

function tensorsOf({ table, head, forward, backward }: CostNetworks): FloatTensor[] {
  return [
    ...standardTensors("table", table),
    ...layerTensors("head", head),
    ...standardTensors("forward", forward),
    ...standardTensors("backward", backward),
  ];
}

function standardTensors(name: string, { standard, layers }: StandardNetwork): FloatTensor[] {
  const line = (of: "mean" | "deviation"): FloatTensor => {
    const values = Float32Array.from(standard[of]);
    return { name: `${name}.${of}`, shape: [values.length], values };
  };
  return [line("mean"), line("deviation"), ...layerTensors(name, layers)];
}

function layerTensors(name: string, layers: readonly CostLayer[]): FloatTensor[] {
  return layers.flatMap(({ weight, bias }, i) => [
    {
      name: `${name}.${i}.weight`,
      shape: [bias.length, weight.length / bias.length],
      values: weight,
    },
    { name: `${name}.${i}.bias`, shape: [bias.length], values: bias },
  ]);
}

/** Cost networks read from a file, and their provenance. */
export interface ReadCostNetworks {
  readonly networks: CostNetworks;
  readonly provenance: Provenance;
}

const notesSchema = z.object({
  kind: z.literal(kind),
  devices: z.coerce.number().int().min(1),
  hosts: z.coerce.number().int().min(1).optional(),
  batchSize: z.coerce.number().int().min(1),
  lateMax: z.coerce.number().min(0),
  features: z.enum(featureSets),
});

/**
 * Reads a file of cost networks.
 * @throws InputUnusableError where the file has no cost networks, or cannot be read
 */
export function readCostNetworks(path: string, disk: Disk = realDisk): ReadCostNetworks {
  const file = readFloats(path, disk);
  const notes = notesSchema.safeParse(file.notes);
  if (!notes.success)
    throw unusable(path, `its metadata lack \`kind: ${kind}\`, or the features of tables`);
  const { kind: _kind, ...numbers } = notes.data;
  const { devices: _d, batchSize: _b, lateMax: _l, kind: _k, ...others } = file.notes;
  const { features: _f, hosts: _h, ...provenance } = others;
  const read = tensorReader(file, path);
  const networks: CostNetworks = {
    ...numbers,
    table: { standard: read.standard("table"), layers: read.layers("table", true) },
    head: read.layers("head", false),
    forward: { standard: read.standard("forward"), layers: read.layers("forward", false) },
    backward: { standard: read.standard("backward"), layers: read.layers("backward", false) },
  };
  checkShapes(networks, path);
  return { networks, provenance };
}

function unusable(path: string, why: string): InputUnusableError {
  const command = "osiris plan --calibrate --learn";
  return unusableFile(path, why, { content: "cost networks", command });
}

function tensorReader({ tensors }: ReadFloats, path: string) {
  const valuesOf = (name: string): Float32Array => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw unusable(path, `it has no float32 tensor \`${name}\``);
    return tensor.values;
  };
  return {
    standard: (name: string) => ({
      mean: [...valuesOf(`${name}.mean`)],
      deviation: [...valuesOf(`${name}.deviation`)],
    }),
    layers(name: string, reluLast: boolean): CostLayer[] {
      const layers: CostLayer[] = [];
      while (tensors.has(`${name}.${layers.length}.weight`)) {
        const layer = `${name}.${layers.length}`;
        layers.push({
          weight: valuesOf(`${layer}.weight`),
          bias: valuesOf(`${layer}.bias`),
          relu: true,
        });
      }
      const last = layers.pop();
      if (last === undefined) throw unusable(path, `it has no layers \`${name}\``);
      return [...layers, { ...last, relu: reluLast }];
    },
  };
}

/** @throws InputUnusableError where layers do not fit each other, or the planner's features */
function checkShapes(networks: CostNetworks, path: string) {
  const { devices, features, table, head, forward, backward } = networks;
  const tableFeatures = featureCount(features);
  const vector = table.layers.at(-1)?.bias.length ?? 0;
  check("table", table.layers, tableFeatures, vector);
  check("head", head, vector, 1);
  check("forward", forward.layers, 2 * devices, devices);
  check("backward", backward.layers, devices, devices);
  for (const [name, { standard }, inputs] of [
    ["table", table, tableFeatures],
    ["forward", forward, 2 * devices],
    ["backward", backward, devices],
  ] as const) {
    const { mean, deviation } = standard;
    if (mean.length === inputs && deviation.length === inputs) continue;
    throw unusable(path, `\`${name}.mean\` has ${mean.length} numbers, not ${inputs}`);
  }

  function check(name: string, layers: readonly CostLayer[], inputs: number, outputs: number) {
    let columns = inputs;
    for (const [i, { weight, bias }] of layers.entries()) {
      const inputs = weight.length / bias.length;
      if (inputs !== columns)
        throw unusable(path, `\`${name}.${i}\` takes ${inputs}, not ${columns}`);
      columns = bias.length;
    }
    if (columns !== outputs) throw unusable(path, `\`${name}\` gives ${columns}, not ${outputs}`);
  }
}
