// The machines of a simulation: hosts with the resources that their devices share, and devices with
// links. Hosts with equal numbers of devices of each class are simulated once, and so are devices
// of one class on a host: their number is their weight in shared resources. The times are exact to
// the last bit, because a resource is shared equally, and a round waits for all of its devices.

import type { Link } from "../hardware/hardware.ts";
import { serverKind } from "../hardware/server-hosts.ts";
import type { DeviceCosts, Hardware, StepCostsOfCluster, TaskCost } from "../model.ts";
import type { EventQueue } from "./events.ts";
import { SharedResource } from "./shared-resource.ts";

/** Both directions of a link; undefined: transfers over it take no time. */
export interface Ports {
  readonly out: SharedResource;
  readonly in: SharedResource;
  /** Bytes per second of an all-to-all, and of an all-reduce. */
  readonly allToAll: number;
  readonly allReduce: number;
  /** Cores that move the link's bytes, and bytes per second of one core; left out: no core does. */
  readonly movers?: { readonly cores: SharedResource; readonly bandwidth: number } | undefined;
}

/** A group of equal hosts, simulated as one. */
export interface SimulatedHost {
  readonly index: number;
  readonly devices: readonly SimulatedDevice[];
  /** Undefined: competition for cores is not simulated. */
  readonly cores: SharedResource | undefined;
  readonly hostMemory: SharedResource;
  readonly disk: SharedResource;
}

/** The devices of one class on a host, simulated as one. */
export interface SimulatedDevice {
  readonly index: number;
  /** Rank of the first of these devices. */
  readonly rank: number;
  readonly weight: number;
  readonly host: SimulatedHost;
  readonly costs: DeviceCosts;
  /** Link from the host; `inside.in` where devices exchange over the same link. */
  readonly hostLink: SharedResource;
  /** Links to devices of the same host, and of other hosts. */
  readonly inside: Ports | undefined;
  readonly across: Ports | undefined;
  /** Number of these devices that share `across`. */
  readonly sharing: number;
}

export interface SimulatedCluster {
  readonly hosts: readonly SimulatedHost[];
  readonly devices: readonly SimulatedDevice[];
  readonly perHost: number;
  /** Number of hosts in the cluster, including those that are not simulated. */
  readonly allHosts: number;
  /** Latency in seconds inside a host, and between hosts; the longer one of two kinds of hosts. */
  readonly latencies: { readonly inside: number; readonly across: number };
}

/** `isMerged`: equal devices are simulated once; otherwise each device, with the same times. */
export function clusterOf(
  queue: EventQueue,
  { classes, hosts: allHosts, perHost, serverHosts }: StepCostsOfCluster,
  hardware: Hardware,
  isMerged: boolean,
): SimulatedCluster {
  const devices: SimulatedDevice[] = [];
  const portsOf = (link: Link): Ports | undefined => {
    const { bandwidth, allToAllShare, allReduceShare } = link;
    if (bandwidth === Number.POSITIVE_INFINITY) return undefined;
    const speeds = { allToAll: bandwidth * allToAllShare, allReduce: bandwidth * allReduceShare };
    return { out: new SharedResource(queue), in: new SharedResource(queue), ...speeds };
  };
  const servers = serverHosts > 0 ? serverKind(hardware, { hosts: allHosts, perHost }) : hardware;
  const layouts = [...layoutsOf(classes, allHosts * perHost, perHost, isMerged)];
  const hosts = layouts.map((own, index) => {
    const isServer = (own[0]?.rank ?? 0) >= (allHosts - serverHosts) * perHost;
    const { scaleUp, scaleOut, host: machine } = isServer ? servers : hardware;
    const { cores } = machine;
    const found: SimulatedDevice[] = [];
    const ofHost = cores === undefined ? undefined : new SharedResource(queue, cores);
    const { coreBandwidth: bandwidth } = scaleOut;
    const movers = ofHost && bandwidth !== undefined ? { cores: ofHost, bandwidth } : undefined;
    const acrossOf = () => {
      const ports = allHosts > 1 ? portsOf(scaleOut) : undefined;
      return ports && { ...ports, movers };
    };
    const shared = scaleOut.isShared ? acrossOf() : undefined;
    const host: SimulatedHost = {
      ...{ index, devices: found },
      cores: ofHost,
      hostMemory: new SharedResource(queue),
      disk: new SharedResource(queue),
    };
    for (const { rank, weight, costs } of own) {
      const inside = perHost > 1 ? portsOf(scaleUp) : undefined;
      const device: SimulatedDevice = {
        ...{ index: devices.length, rank, weight, costs, host, inside },
        hostLink: (scaleUp.isHostLink ? inside?.in : undefined) ?? new SharedResource(queue),
        across: shared ?? acrossOf(),
        sharing: shared === undefined ? 1 : weight,
      };
      devices.push(device);
      found.push(device);
    }
    return host;
  });
  const latencyOf = (way: "scaleUp" | "scaleOut") =>
    Math.max(hardware[way].latency, servers[way].latency);
  const latencies = { inside: latencyOf("scaleUp"), across: latencyOf("scaleOut") };
  return { hosts, devices, perHost, allHosts, latencies };
}

interface Placed {
  readonly rank: number;
  readonly weight: number;
  readonly costs: DeviceCosts;
}

/** The devices of each host that is simulated. */
function layoutsOf(
  classes: readonly DeviceCosts[],
  devices: number,
  perHost: number,
  isMerged: boolean,
): Iterable<readonly Placed[]> {
  const classOf = new Int32Array(devices).fill(-1);
  for (const [at, { ranks }] of classes.entries()) for (const rank of ranks) classOf[rank] = at;
  const missing = classOf.indexOf(-1);
  if (missing >= 0) throw new RangeError(`Device ${missing} has no costs`);
  const layouts = new Map<string, Placed[]>();
  for (let first = 0; first < devices; first += perHost) {
    const weighted = new Map<number, Placed>();
    for (let rank = first; rank < first + perHost; rank++) {
      const at = classOf[rank] ?? 0;
      const key = isMerged ? at : rank;
      const known = weighted.get(key);
      const costs = known?.costs ?? classes[at];
      if (costs === undefined) continue;
      weighted.set(key, { rank: known?.rank ?? rank, weight: 1 + (known?.weight ?? 0), costs });
    }
    // The host's first device stays first, because it requests batches; the others are sorted.
    const [asks, ...others] = weighted;
    if (asks === undefined) continue;
    const placed = [asks, ...others.sort(([a], [b]) => a - b)];
    const key = JSON.stringify(placed.map(([at, { weight }]) => [at, weight]));
    const ofHost = placed.map(([, one]) => one);
    if (!layouts.has(key)) layouts.set(key, ofHost);
  }
  return layouts.values();
}

/** Uses the resources of a task, then calls `done`. Returns false if the task needs none. */
export function work(
  queue: EventQueue,
  { host, hostLink, weight }: SimulatedDevice,
  cost: TaskCost,
  share: number,
  done: () => void,
): boolean {
  const { seconds, shared } = cost;
  if (shared === undefined && host.cores === undefined) {
    if (seconds > 0) queue.at(queue.now + share * seconds, done, undefined);
    return seconds > 0;
  }
  let left = 0;
  const end = () => {
    if (--left === 0) done();
  };
  const add = (of: SharedResource, own: number | undefined, count: number) => {
    if (own === undefined || own === 0) return;
    left++;
    of.add(share * own, count, end, undefined);
  };
  // Bytes stream through all of these resources at once, while the device works.
  add(host.hostMemory, shared?.hostMemory, weight);
  add(host.disk, shared?.disk, weight);
  add(hostLink, shared?.hostLink, 1);
  if (host.cores !== undefined) add(host.cores, seconds, weight);
  else if (seconds > 0) {
    left++;
    queue.at(queue.now + share * seconds, end, undefined);
  }
  return left > 0;
}
