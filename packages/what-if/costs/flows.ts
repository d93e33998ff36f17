// Flows between devices that hold rows (holders) and devices with samples (samplers), added up by
// device. The bytes of a holder for a sampler depend only on the sampler's number of samples, and
// only few different numbers occur. So sums over hosts take the place of a loop over pairs, and
// 4,096 devices cost as many additions as they hold shards.

import type { ClusterDevices } from "../hardware/hardware.ts";

/** Bytes by device: to or from devices of its host, and of other hosts. */
export interface Flow {
  readonly inside: Float64Array;
  readonly across: Float64Array;
}

/** The devices of a cluster by their samples. */
export interface Samplers {
  readonly devices: ClusterDevices;
  /** The different numbers of samples; and for each device, the index of its number. */
  readonly counts: readonly number[];
  readonly countOf: Uint32Array;
  /** Devices with each number of samples: of the cluster, of each host, and at each place. */
  readonly inAll: readonly number[];
  readonly onHost: readonly (readonly number[])[];
  readonly atPlace: readonly (readonly number[])[];
}

export function samplersOf(devices: ClusterDevices, samples: readonly number[]): Samplers {
  const { hosts, perHost } = devices;
  const counts = [...new Set(samples)];
  const countOf = Uint32Array.from(samples, (own) => counts.indexOf(own));
  const numberOf = (isIn: (rank: number) => boolean, ranks: Iterable<number>) => {
    const numbers = counts.map(() => 0);
    for (const rank of ranks) {
      const at = countOf[rank] ?? 0;
      if (isIn(rank)) numbers[at] = (numbers[at] ?? 0) + 1;
    }
    return numbers;
  };
  const run = (first: number, step: number, length: number) =>
    Array.from({ length }, (_, i) => first + i * step);
  const every = () => true;
  return {
    ...{ devices, counts, countOf },
    inAll: numberOf(every, samples.keys()),
    onHost: run(0, 1, hosts).map((host) => numberOf(every, run(host * perHost, 1, perHost))),
    atPlace: run(0, 1, perHost).map((place) => numberOf(every, run(place, perHost, hosts))),
  };
}

/**
 * Bytes of a flow between a holder and one sampler, by the sampler's number of samples: of each
 * holder, and of all holders of each host.
 */
export interface Sizes {
  readonly held: readonly Float64Array[];
  readonly onHost: readonly Float64Array[];
}

export function sizesOf({ counts, devices: { hosts, perHost } }: Samplers): Sizes {
  return {
    held: counts.map(() => new Float64Array(hosts * perHost)),
    onHost: counts.map(() => new Float64Array(hosts)),
  };
}

/** Adds bytes of a holder for each sampler that has `counts[count]` samples. */
export function addSize(
  { held, onHost }: Sizes,
  { devices }: Samplers,
  holder: number,
  count: number,
  bytes: number,
): void {
  add(held[count], holder, bytes);
  add(onHost[count], Math.floor(holder / devices.perHost), bytes);
}

export function add(to: Float64Array | undefined, at: number, bytes: number): void {
  if (to !== undefined) to[at] = (to[at] ?? 0) + bytes;
}

/** Bytes of both ends of flows. */
export interface Ends {
  readonly holders: Flow;
  readonly samplers: Flow;
}

export function endsOf({ hosts, perHost }: ClusterDevices): Ends {
  const flow = () => ({
    inside: new Float64Array(hosts * perHost),
    across: new Float64Array(hosts * perHost),
  });
  return { holders: flow(), samplers: flow() };
}

/** Adds the flows between devices of one host (`inside`), and between hosts (`across`). */
export function fanOut(samplers: Samplers, inside: Sizes, across: Sizes, ends: Ends): void {
  const { counts, countOf, devices, inAll, onHost } = samplers;
  const all = across.onHost.map((hosts) => hosts.reduce((sum, bytes) => sum + bytes, 0));
  for (const [rank, index] of countOf.entries()) {
    const host = Math.floor(rank / devices.perHost);
    add(ends.samplers.inside, rank, at(inside.onHost[index], host) - at(inside.held[index], rank));
    add(ends.samplers.across, rank, (all[index] ?? 0) - at(across.onHost[index], host));
    for (const count of counts.keys()) {
      const near = onHost[host]?.[count] ?? 0;
      const others = near - (count === index ? 1 : 0);
      add(ends.holders.inside, rank, others * at(inside.held[count], rank));
      add(ends.holders.across, rank, ((inAll[count] ?? 0) - near) * at(across.held[count], rank));
    }
  }
}

function at(values: Float64Array | undefined, index: number): number {
  return values?.[index] ?? 0;
}
