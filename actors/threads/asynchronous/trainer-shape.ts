// The shape of a trainer, and of the dense weights that the trainers of a generation share: it
// follows from the spec alone.

import { soloInput } from "../../../src/asynchronous/trainer.ts";
import { type TrainerLayout, trainerLayoutOf } from "../../../src/asynchronous/trainer-memory.ts";
import { targetsOf } from "../../../src/data/targets.ts";
import { weightedOf } from "../../../src/data/text/match-features.ts";
import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createDenseState } from "../../../src/model/dense-optimizer.ts";
import { shapesOf } from "../../../src/model/features.ts";
import {
  type Topology,
  type TopologyInput,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import type { GenerationSpec } from "../generation-spec.ts";

export interface TrainerShape {
  /** Of the trainer's device, which is alone. */
  readonly input: TopologyInput;
  readonly topology: Topology;
  readonly layout: TrainerLayout;
  /** Dense parameters, and tensors of the dense optimizer's state. */
  readonly size: { readonly length: number; readonly slots: number };
}

export function trainerShapeOf({ job, data }: GenerationSpec): TrainerShape {
  const { model } = job;
  const { threads, prefetch } = asynchronousOf(job);
  const { batchSize } = job.data;
  const weighted = weightedOf(job.data, shapesOf(model));
  const { idsMax, idsMean } = data;
  const targets = targetsOf(job.data);
  const input = soloInput({ model, batchSize, slices: 1, idsMax, idsMean, weighted, targets });
  const topology = topologyOf(input, 1);
  const isTested = data.test !== undefined;
  const layout = trainerLayoutOf(topology, { threads, prefetch, isTested });
  const { length } = topology.graph.layout;
  const { slots } = createDenseState(openKernels("reference"), job.optimizer.dense, 0);
  return { input, topology, layout, size: { length, slots: slots.length } };
}
