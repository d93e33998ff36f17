// The facts of a planned job's steps, which decide the tasks of a device (src/training/step).

import {
  exactExchange,
  featuresOf,
  idsOfFeature,
  type JobSpec,
  meanIdsOf,
  type Plan,
  type StepFacts,
  shapesOf,
  stepFactsOf,
  topologyOf,
  weightedOf,
} from "../../../internal.ts";
import type { ClusterDevices } from "../hardware/hardware.ts";

/** Ids of a bag where they have to be counted first, as the planner assumes. */
const idsUnknown = 1;

export function stepFactsOfPlan({
  job,
  plan,
  devices: { hosts, perHost },
}: {
  readonly job: JobSpec;
  readonly plan: Plan;
  readonly devices: ClusterDevices;
}): StepFacts {
  const { model, data, exchange = exactExchange, tiers, pipeline, optimizer, slices } = job;
  const W = hosts * perHost;
  const idsMean = featuresOf(model).map(({ name }) => {
    return data.kind === "synthetic" ? meanIdsOf(idsOfFeature(data, name).idsPerBag) : idsUnknown;
  });
  const idsMax = idsMean.map(Math.ceil);
  const topology = topologyOf(
    {
      ...{ model, batchSize: data.batchSize, slices: Math.max(slices, W), exchange, plan },
      ...{ idsMax, idsMean },
      ...{ weighted: weightedOf(data, shapesOf(model)), tiers, ahead: pipeline.ahead },
    },
    W,
    Array.from({ length: W }, (_, rank) => Math.floor(rank / perHost)),
  );
  return stepFactsOf(topology, { depth: pipeline.depth, sparse: optimizer.sparse.kind });
}
