// Trains cost networks: each by an ordinary job on a cluster in this process, from whose checkpoint
// its weights are read. The same costs and seed give the same networks.

import { join } from "node:path";
import { Cluster, type CostTable, temporaryHome } from "../../../internal.ts";
import {
  backwardCosts,
  type CostNetworks,
  forwardCosts,
  setCost,
} from "../search/cost-networks.ts";
import {
  type FeatureSet,
  featureCount,
  featuresOf,
  standardised,
  standardOf,
} from "../search/features.ts";
import {
  type ComputeCost,
  columnNames,
  deviationOf,
  type ExchangeCost,
  type MeasuredCosts,
  mapped,
  type NetworkSample,
  type Parts,
  partsOf,
  setSample,
} from "./cost-samples.ts";
import { fitLinear, linearCost, withLinear } from "./linear-part.ts";
import { type TrainedRun, trainNetwork } from "./network-job.ts";

export interface CostTrainingOptions {
  /** Seed of the split of the samples, and of the initial weights. @default 1 */
  readonly seed?: number;
  /**
   * Epochs over the samples of sets of tables; exchanges get `exchangeShare` of them.
   * @default 1000
   */
  readonly epochs?: number;
  /** The features of a table that the networks read. @default "traffic" */
  readonly features?: FeatureSet;
  /** Threads that train. The networks do not depend on their number. @default 1 */
  readonly threads?: number;
  /** Called before each network is trained. */
  readonly onNetwork?: (name: NetworkName) => void;
}

export type NetworkName = "compute" | "forward" | "backward";

/** Errors of a network on samples that its training did not see, in squared milliseconds. */
export interface NetworkReport {
  readonly samples: number;
  /** On the validation samples. */
  readonly validMse: number;
  readonly testMse: number;
  /** Variance of the test samples: the error of predicting their mean. */
  readonly testVariance: number;
  /** Digest of the run that trained the network. */
  readonly digest: string;
}

export interface TrainedNetworks {
  readonly networks: CostNetworks;
  readonly reports: Readonly<Record<NetworkName, NetworkReport>>;
}

/** Widths of the layers (models of NeuroShard, appendix). */
const widths = { table: [128, 32], head: [64, 1], exchange: [128, 64, 32, 16] } as const;

/**
 * Share of the epochs for exchanges: their networks have few inputs, and would overfit in the
 * epochs that sets of tables need.
 */
const exchangeShare = 0.3;

/**
 * Trains the networks of one file of costs, each by an ordinary run, one after the other. Returns
 * the networks, and their errors on samples that the training did not see.
 * @throws InvalidOptionError, RemoteError as any run does
 */
export async function trainCostNetworks(
  costs: MeasuredCosts,
  options: CostTrainingOptions = {},
): Promise<TrainedNetworks> {
  const { seed = 1, epochs = 1000, threads = 1, features = "traffic", onNetwork } = options;
  using home = temporaryHome("osiris-cost-networks-");
  await using cluster = await Cluster.start({ devices: threads });
  const run = (name: NetworkName, parts: Parts<NetworkSample>, model: object) => {
    onNetwork?.(name);
    const networkEpochs = name === "compute" ? epochs : Math.ceil(exchangeShare * epochs);
    return trainNetwork(
      { cluster, home: join(home.path, name), name, seed, epochs: networkEpochs },
      parts,
      model,
    );
  };
  const compute = await trainCompute(costs, features, seed, run);
  const forward = await trainExchange(costs, "forward", seed, run);
  const backward = await trainExchange(costs, "backward", seed, run);
  const { devices, hosts = 1, batchSize, exchange } = costs;
  const networks: CostNetworks = {
    devices,
    ...(hosts > 1 && { hosts }),
    batchSize,
    features,
    table: compute.table,
    head: compute.head,
    forward: forward.network,
    backward: backward.network,
    lateMax: exchange.reduce((largest, { late }) => Math.max(largest, ...late), 0),
  };
  const reports = {
    compute: reportOf(networks, compute),
    forward: reportOf(networks, forward),
    backward: reportOf(networks, backward),
  };
  return { networks, reports };
}

type Train = (name: NetworkName, parts: Parts<NetworkSample>, model: object) => Promise<TrainedRun>;

async function trainCompute(
  { compute, batchSize }: MeasuredCosts,
  features: FeatureSet,
  seed: number,
  train: Train,
) {
  const numbersOf = (table: CostTable) => featuresOf(table, features, batchSize);
  const parts = partsOf(compute, seed);
  const pool = parts.train.flatMap(({ tables }) => tables.map(numbersOf));
  const standard = standardOf(pool);
  const tables = compute.reduce((largest, set) => Math.max(largest, set.tables.length), 0);
  // The published networks have no linear part.
  const known = (cost: ComputeCost) => ({
    milliseconds: cost.milliseconds,
    tables: cost.tables.map((table) => standardised(numbersOf(table), standard)),
  });
  const linear = features === "published" ? undefined : fitLinear(parts.train.map(known));
  const samples = mapped(parts, (cost) => {
    const rest = linear === undefined ? 0 : linearCost(linear, known(cost).tables);
    const milliseconds = cost.milliseconds - rest;
    return setSample({ ...cost, milliseconds }, tables, numbersOf, standard);
  });
  const { digest, layersOf } = await train("compute", samples, {
    dense: tables * (featureCount(features) + 1),
    options: { kind: "set", tables, table: widths.table, head: widths.head },
  });
  const trained = { table: layersOf("table", true), head: layersOf("head", false) };
  const { table, head } = linear === undefined ? trained : withLinear(trained, linear);
  return {
    digest,
    table: { standard, layers: table },
    head,
    parts,
    answer: (networks: CostNetworks, cost: ComputeCost): Answer => {
      return { is: [setCost(networks, cost.tables)], was: [cost.milliseconds] };
    },
  };
}

async function trainExchange(
  { exchange, devices }: MeasuredCosts,
  direction: "forward" | "backward",
  seed: number,
  train: Train,
) {
  const parts = partsOf(exchange, seed);
  const isForward = direction === "forward";
  const inputsOf = ({ columns, late }: (typeof exchange)[number]) => {
    return isForward ? [...columns, ...late] : columns;
  };
  const standard = standardOf(parts.train.map(inputsOf));
  const samples = mapped(parts, (cost) => {
    return { inputs: standardised(inputsOf(cost), standard), outputs: cost[direction] };
  });
  const { digest, layersOf } = await train(direction, samples, {
    dense: standard.mean.length,
    options: { kind: "mlp", layers: [...widths.exchange, devices] },
    tasks: columnNames("y", devices).map((name) => ({ name })),
  });
  return {
    digest,
    network: { standard, layers: layersOf("layers", false) },
    parts,
    answer: (networks: CostNetworks, cost: ExchangeCost): Answer => {
      const { columns, late } = cost;
      const is = isForward
        ? forwardCosts(networks, columns, late)
        : backwardCosts(networks, columns);
      return { is: [...is], was: cost[direction] };
    },
  };
}

/** Prediction of a network (`is`), and the measured value (`was`). */
interface Answer {
  readonly is: readonly number[];
  readonly was: readonly number[];
}

function reportOf<Cost>(
  networks: CostNetworks,
  trained: {
    readonly parts: Parts<Cost>;
    readonly digest: string;
    readonly answer: (networks: CostNetworks, cost: Cost) => Answer;
  },
): NetworkReport {
  const { parts, digest, answer } = trained;
  const answersTo = (costs: readonly Cost[]) => costs.map((cost) => answer(networks, cost));
  const test = answersTo(parts.test);
  return {
    samples: parts.train.length + parts.valid.length + parts.test.length,
    validMse: mseOf(answersTo(parts.valid)),
    testMse: mseOf(test),
    testVariance: deviationOf(test.flatMap(({ was }) => [...was])) ** 2,
    digest,
  };
}

function mseOf(answers: readonly Answer[]): number {
  const was = answers.flatMap((one) => [...one.was]);
  const is = answers.flatMap((one) => [...one.is]);
  return was.reduce((sum, value, i) => sum + (value - (is[i] ?? 0)) ** 2, 0) / was.length;
}
