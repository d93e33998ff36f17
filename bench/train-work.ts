// What the benches of whole steps train, and the batches for it.

import { Zipf } from "../src/data/zipf.ts";
import type { LocalBatch } from "../src/exchange/batch-ring.ts";
import { RandomStream } from "../src/random.ts";
import type { Recipe } from "../src/training/device-state.ts";
import type { PipelineSpec } from "../src/training/pipeline.ts";
import { samplesOf, type Topology, type TopologyInput } from "../src/training/topology.ts";

/** What is trained, on which devices. */
export interface TrainWork {
  /** Every bag has as many ids as its feature may have. */
  readonly input: TopologyInput;
  readonly devices: number;
  readonly depth: PipelineSpec["depth"];
  readonly recipe: Recipe;
  /** Batches that are made beforehand, and trained on in turn. */
  readonly batches: number;
  /** The bench ends after so long, or after so many steps, whatever comes first. */
  readonly seconds: number;
  readonly steps: number;
  readonly arithmetic: "auto" | "native" | "reference";
  /** Steps before the clock starts. @default 5 */
  readonly warmUpSteps?: number;
  /** Exponent of the ids' popularity; 0: uniform. @default 0 */
  readonly zipf?: number;
  /** Where what lies below device memory lies; there where a table does. */
  readonly below?: { readonly directory: string; readonly pageCache: boolean };
}

/** A device's part of batch `index`: bags as long as they may be. */
export function makeBatch(topology: Topology, rank: number, index: number, zipf = 0): LocalBatch {
  const { model, batchSize, idsMax } = topology.input;
  const { count: samples } = samplesOf(topology, rank, batchSize);
  const random = new RandomStream(727 + rank, index);
  const uniform = () => random.uniform();
  const idsPerSample = idsMax.reduce((sum, ids) => sum + ids, 0);
  const ids = new Int32Array(new SharedArrayBuffer(4 * samples * idsPerSample));
  const lengths = new Int32Array(idsMax.length * samples);
  let at = 0;
  for (const [feature, length] of idsMax.entries()) {
    const rows = model.tables[feature]?.rows ?? 1;
    const end = at + samples * length;
    const popular = new Zipf(rows, zipf);
    while (at < end) ids[at++] = zipf > 0 ? popular.draw(uniform) : random.word() % rows;
    lengths.fill(length, feature * samples, (feature + 1) * samples);
  }
  const dense = new Float32Array(new SharedArrayBuffer(4 * samples * model.dense));
  for (let i = 0; i < dense.length; i++) dense[i] = random.word() / 0x1_0000_0000;
  const labels = new Float32Array(new SharedArrayBuffer(4 * samples));
  for (let i = 0; i < samples; i++) labels[i] = random.word() & 1;
  return {
    ticket: index,
    samples,
    batchSamples: batchSize,
    idCount: ids.length,
    dense,
    labels,
    lengths,
    ids,
  };
}
