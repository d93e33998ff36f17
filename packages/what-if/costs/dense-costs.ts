// Seconds of the dense layers on one device, by task. For a measured machine they follow from its
// constants, as in the planner. For others they follow from a roofline (Williams et al., CACM
// 2009): a layer takes as long as its products at the peak that they reach, or as its bytes at the
// bandwidth that memory reaches, whichever is longer. Products between values of a sample, as in an
// interaction, have small matrices, so that only their bytes count.

import { expected, type Graph, measuredSlices, sizeOf, stepCostsIn } from "../../../internal.ts";
import type { Hardware, precisions } from "../hardware/hardware.ts";
import type { CostedCluster } from "./costed-job.ts";

/** Numeric formats of products. */
export type Precision = (typeof precisions)[number];

/** Seconds of the tasks that compute dense layers. */
export interface DenseSeconds {
  readonly forwardEarly: number;
  readonly forwardLate: number;
  readonly backwardLate: number;
  readonly backwardEarly: number;
  readonly updateDense: number;
}

/** A multiplication and an addition. */
const flopOfProduct = 2;
/** The backward pass multiplies twice: for the gradients of the inputs, and of the weights. */
const backwardPasses = 2;
const floatBytes = 4;
/** Floats of an update: parameter, gradient and state are read, parameter and state are written. */
const updateFloats = 5;

/** Rows with which a product reaches `gemmShare` of the peak, and rows for half of that share. */
const [fullRows, halfRows] = [512, 64] as const;

/**
 * The share of the peak operations per second that a matrix product with `rows` rows reaches. From
 * 64 to 512 rows the share doubles, in proportion to the logarithm of the rows. A product with
 * fewer rows takes as long as one with 64.
 */
export function gemmShareOf({ gemmShare }: Hardware["device"], rows: number): number {
  if (rows >= fullRows) return gemmShare;
  const half = gemmShare / 2;
  if (rows <= halfRows) return (half * rows) / halfRows;
  return half + (half * Math.log(rows / halfRows)) / Math.log(fullRows / halfRows);
}

/** Returns seconds by number of samples. @throws InvalidOptionError without a peak of the format */
export function denseSecondsOf(cluster: CostedCluster, precision: Precision) {
  const of = cluster.hardware.constants === undefined ? byRoofline : byConstants;
  const known = new Map<number, DenseSeconds>();
  return (samples: number): DenseSeconds => {
    const found = known.get(samples) ?? of(cluster, samples, precision);
    known.set(samples, found);
    return found;
  };
}

function byRoofline(
  { graph, hardware: { name, device }, setting }: CostedCluster,
  samples: number,
  precision: Precision,
): DenseSeconds {
  const peak = device.flops[precision];
  if (peak === undefined && samples > 0) {
    const known = Object.keys(device.flops).join(", ");
    throw expected("precision", `one that ${name} has a peak of: ${known}`, precision);
  }
  const speed = (peak ?? 0) * gemmShareOf(device, samples);
  const bandwidth = device.memory.lookups;
  const secondsOf = (isEarly: boolean, passes: number) =>
    graph.nodes.reduce((sum, node) => {
      if (node.isEarly !== isEarly || samples === 0) return sum;
      const { products = 0, elements = 0, parameters = [] } = node;
      const weights = parameters.reduce((all, own) => all + sizeOf(own), 0);
      const ofBytes = (floatBytes * (samples * elements + weights)) / bandwidth;
      const ofProducts = (flopOfProduct * samples * products) / speed;
      return sum + passes * Math.max(ofBytes, parameters.length === 0 ? 0 : ofProducts);
    }, 0);
  return {
    forwardEarly: secondsOf(true, 1),
    forwardLate: secondsOf(false, 1),
    backwardLate: secondsOf(false, backwardPasses),
    backwardEarly: secondsOf(true, backwardPasses),
    updateDense: (floatBytes * updateFloats * setting.workload.denseParameters) / bandwidth,
  };
}

/** The costs of `assessPlan`, divided among the passes by products, values and blocks. */
function byConstants({ graph, setting, devices }: CostedCluster, samples: number): DenseSeconds {
  const { workload, constants } = setting;
  const { activation, product, layer, parameter, sliceParameter, denseSpeed } =
    stepCostsIn(setting);
  const flop = (samples * workload.denseFlop) / (denseSpeed * constants.denseFlops);
  const passed = samples * activation * workload.denseActivations;
  const ownProducts = samples * product * workload.denseOwnProducts;
  const sharesOf = (isEarly: boolean) => {
    const nodes = graph.nodes.filter((node) => node.isEarly === isEarly);
    const sumOf = (of: (node: (typeof nodes)[number]) => number) =>
      nodes.reduce((sum, node) => sum + of(node), 0);
    const share = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
    return (
      flop *
        share(
          sumOf(({ products = 0 }) => products),
          graph.products,
        ) +
      passed *
        share(
          sumOf(({ elements = 0 }) => elements),
          graph.elements,
        ) +
      ownProducts * share(sumOf(ownProductsOf), graph.ownProducts) +
      layer * sumOf(({ parameters = [] }) => (parameters.length === 0 ? 0 : 1))
    );
  };
  const [early, late] = [sharesOf(true), sharesOf(false)];
  const W = devices.hosts * devices.perHost;
  const slices = Math.max(0, (workload.slices ?? measuredSlices) - measuredSlices);
  const forward = 1 / (1 + backwardPasses);
  return {
    forwardEarly: forward * early,
    forwardLate: forward * late,
    backwardLate: (1 - forward) * late,
    backwardEarly: (1 - forward) * early,
    updateDense: (parameter + (sliceParameter * slices) / W) * workload.denseParameters,
  };
}

function ownProductsOf(node: Graph["nodes"][number]): number {
  const { ownProducts, products = 0, parameters = [] } = node;
  return ownProducts ?? (parameters.length === 0 ? products : 0);
}
