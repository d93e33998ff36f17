// All benches, by their name on the command line.

import { pageBench } from "../packages/dashboard/bench/page.bench.ts";
import { ladderBench } from "../packages/ingest/bench/ladder.bench.ts";
import { serveBench } from "../packages/serve/bench/serve.bench.ts";
import { shardingBench } from "../packages/sharding/bench/sharding.bench.ts";
import { scaleBench } from "../packages/what-if/bench/scale.bench.ts";
import { validationBench } from "../packages/what-if/bench/validation.bench.ts";
import type { Bench } from "./bench.ts";
import { dedupBench } from "./dedup/dedup.bench.ts";
import { exchangeBench } from "./exchange/exchange.bench.ts";
import { machinesBench } from "./exchange/machines.bench.ts";
import { growthBench } from "./growth/growth.bench.ts";
import { ingestBench } from "./ingest/ingest.bench.ts";
import { stallBench } from "./ingest/stall.bench.ts";
import { transformsBench } from "./ingest/transforms.bench.ts";
import { kernelsBench } from "./kernels/kernels.bench.ts";
import { exportBench } from "./memory/export.bench.ts";
import { tiersBench } from "./memory/tiers.bench.ts";
import { linksBench } from "./planner/links.bench.ts";
import { plannerBench } from "./planner/planner.bench.ts";
import { plansBench } from "./planner/plans.bench.ts";
import { predictionsBench } from "./planner/predictions.bench.ts";
import { weakBench } from "./planner/weak.bench.ts";
import { controlBench } from "./service/control.bench.ts";
import { jobsBench } from "./service/jobs.bench.ts";
import { lostHostBench } from "./service/lost-host.bench.ts";
import { observabilityBench } from "./service/observability.bench.ts";
import { recoveryBench } from "./service/recovery.bench.ts";
import { sizesBench } from "./service/sizes.bench.ts";
import { storesBench } from "./service/stores.bench.ts";
import { threadsBench } from "./service/threads.bench.ts";
import { accuracyBench } from "./step/accuracy.bench.ts";
import { allocationBench } from "./step/allocation.bench.ts";
import { asyncBench } from "./step/async.bench.ts";
import { columnBench } from "./step/column.bench.ts";
import { grainBench } from "./step/grain.bench.ts";
import { javascriptBench } from "./step/javascript.bench.ts";
import { loaderBench } from "./step/loader.bench.ts";
import { peersBench } from "./step/peers.bench.ts";
import { placementsBench } from "./step/placements.bench.ts";
import { scalingBench } from "./step/scaling.bench.ts";
import { topKBench } from "./step/top-k.bench.ts";
import { trainBench } from "./step/train.bench.ts";
import { wireBench } from "./step/wire.bench.ts";
import { tablesBench } from "./tables/tables.bench.ts";

export const benches: Readonly<Record<string, Bench>> = {
  train: trainBench,
  peers: peersBench,
  scaling: scalingBench,
  growth: growthBench,
  allocation: allocationBench,
  javascript: javascriptBench,
  accuracy: accuracyBench,
  wire: wireBench,
  topk: topKBench,
  async: asyncBench,
  dedup: dedupBench,
  grain: grainBench,
  column: columnBench,
  placements: placementsBench,
  loader: loaderBench,
  ingest: ingestBench,
  transforms: transformsBench,
  stall: stallBench,
  ladder: ladderBench,
  kernels: kernelsBench,
  exchange: exchangeBench,
  machines: machinesBench,
  tiers: tiersBench,
  export: exportBench,
  planner: plannerBench,
  plans: plansBench,
  predictions: predictionsBench,
  links: linksBench,
  "what-if": validationBench,
  "what-if-scale": scaleBench,
  weak: weakBench,
  sharding: shardingBench,
  serve: serveBench,
  jobs: jobsBench,
  control: controlBench,
  stores: storesBench,
  recovery: recoveryBench,
  tables: tablesBench,
  "lost-host": lostHostBench,
  observability: observabilityBench,
  dashboard: pageBench,
  threads: threadsBench,
  sizes: sizesBench,
};
