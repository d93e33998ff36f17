// What the benches of whole steps train, and the batches for it.

import type { LocalBatch } from "../src/exchange/batch-ring.ts";
import { RandomStream } from "../src/random.ts";
import type { Recipe } from "../src/training/device-state.ts";
import type { PipelineSpec } from "../src/training/pipeline.ts";
import { samplesOf, type Topology, type TopologyInput } from "../src/training/topology.ts";
import type { Link } from "./slow-link.ts";

/** What is trained, on which devices. */
export interface TrainWork {
  /** Every bag has as many ids as its feature may have. */
  readonly input: TopologyInput;
  readonly devices: number;
  readonly depth: PipelineSpec["depth"];
  readonly recipe: Recipe;
  /** What lies between the devices; left out, shared memory alone. */
  readonly link?: Link;
  /** Batches that are made beforehand, and trained on in turn. */
  readonly batches: number;
  /** The bench ends after so long, or after so many steps, whatever comes first. */
  readonly seconds: number;
  readonly steps: number;
  readonly arithmetic: "auto" | "native" | "reference";
}

/** A device's part of batch `index`: ids uniform, bags as long as they may be. */
export function makeBatch(topology: Topology, rank: number, index: number): LocalBatch {
  const { model, batchSize, idsMax } = topology.input;
  const { count: samples } = samplesOf(topology, rank, batchSize);
  const random = new RandomStream(727 + rank, index);
  const idsPerSample = idsMax.reduce((sum, ids) => sum + ids, 0);
  const ids = new Int32Array(new SharedArrayBuffer(4 * samples * idsPerSample));
  const lengths = new Int32Array(idsMax.length * samples);
  let at = 0;
  for (const [feature, length] of idsMax.entries()) {
    const rows = model.tables[feature]?.rows ?? 1;
    const end = at + samples * length;
    while (at < end) ids[at++] = random.word() % rows;
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
