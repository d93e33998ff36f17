// Cost networks for more devices than a machine has: lookup and update as learned on it, and
// exchanges over simulated links. A link sends and receives at the same time at its given rate.
// Waits of devices for each other are left out, as in the processor times that networks of a
// machine are trained with.

import type { CostLayer, CostNetworks } from "../search/cost-networks.ts";

/** Networks of `devices` devices, each like one of the machine's, with a link of its own. */
export function overLinks(
  networks: CostNetworks,
  devices: number,
  { bytesPerSecond }: { readonly bytesPerSecond: number },
): CostNetworks {
  // Milliseconds to send one column of one device's samples.
  const ofColumn = (1000 * 4 * (networks.batchSize / devices)) / bytesPerSecond;
  return {
    ...networks,
    devices,
    forward: exchange(devices, ofColumn, 2 * devices),
    backward: exchange(devices, ofColumn, devices),
  };
}

/**
 * Device d sends its columns to each of the others, and receives theirs: that takes as long as the
 * larger of both, max(s, r) = s + max(0, r - s). Inputs after the columns have no weight.
 */
function exchange(devices: number, ofColumn: number, inputs: number) {
  const rank = [...new Array(devices).keys()];
  const sent = (d: number, from: number) => (from === d ? (devices - 1) * ofColumn : 0);
  const received = (d: number, from: number) => (from === d ? 0 : ofColumn);
  const row = (of: (from: number) => number) => {
    return Array.from({ length: inputs }, (_, from) => (from < devices ? of(from) : 0));
  };
  const first = [
    ...rank.map((d) => row((from) => sent(d, from))),
    ...rank.map((d) => row((from) => received(d, from) - sent(d, from))),
  ];
  const second = rank.map((d) => first.map((_, unit) => (unit % devices === d ? 1 : 0)));
  return {
    standard: { mean: new Array(inputs).fill(0), deviation: new Array(inputs).fill(1) },
    layers: [layer(first, true), layer(second, false)],
  };
}

function layer(rows: readonly (readonly number[])[], relu: boolean): CostLayer {
  return { weight: Float32Array.from(rows.flat()), bias: new Float32Array(rows.length), relu };
}
