// Rounds of the exchange in virtual time. In each round every device sends, and every device waits
// for all senders, as in this runtime.
//
// An all-to-all: a device's bytes leave through its port from the time that it sends; the bytes for
// it come in through its port from the time that the first of all devices sends. A round arrives at
// a device when its senders' bytes have left, its own have come in, and the latency has passed.
// That is exact where all send at once, and where one sender is late; where many are late in turn,
// the receiver's port is assumed to be busy meanwhile. The latency is that of one message to each
// other device, one after the other; a gather sends one message to each host.
//
// An all-reduce, bucket by bucket: inside the hosts to one range for each device, across hosts, and
// inside again. A bucket begins when all devices have it, and ends when all devices have its sum.
// As with NCCL's double trees, a bucket moves the bytes of a ring, 2 (n - 1) / n of its own, and
// has the latency of a tree, in proportion to the logarithm of n. A bucket streams through both
// links in pieces, and buckets follow each other, so that both links work at once: a bucket takes
// its time on the slower link, and the time of one piece on the other.

import { insideHost, isGather, type StepChannel } from "../../../internal.ts";
import type { ChannelBytes } from "../model.ts";
import type { Ports, SimulatedCluster, SimulatedDevice } from "./cluster.ts";
import type { EventQueue } from "./events.ts";

export interface Round {
  /** Called when the device begins to send; in an all-reduce, when one more bucket is ready. */
  send(device: SimulatedDevice): void;
  /** Called when the device has computed all its bytes; the last of them leave no earlier. */
  made(device: SimulatedDevice): void;
  isThere(device: SimulatedDevice): boolean;
  /** Runs `then` when the round has arrived. */
  whenThere(device: SimulatedDevice, then: () => void): void;
  /** Begin and end of the flight of the device's bytes; undefined: the flight takes no time. */
  flightOf(device: SimulatedDevice): { readonly from: number; readonly to: number } | undefined;
}

export interface RoundOptions {
  readonly queue: EventQueue;
  readonly cluster: SimulatedCluster;
  readonly channel: StepChannel;
  /** Buckets of the dense gradient. */
  readonly buckets: number;
}

const nothing: ChannelBytes = { inside: 0, across: 0 };

/** The arrivals of rounds at devices, and the callbacks of devices that wait for an arrival. */
class Arrivals {
  from = Number.NaN;
  readonly #queue: EventQueue;
  readonly #landed: Float64Array;
  readonly #waiting: ((() => void) | undefined)[];

  constructor(queue: EventQueue, devices: number) {
    this.#queue = queue;
    this.#landed = new Float64Array(devices).fill(Number.NaN);
    this.#waiting = new Array<undefined>(devices).fill(undefined);
  }

  /** Called by events only, so that a device never runs within a call of another device. */
  readonly land = ({ index }: SimulatedDevice): void => {
    this.#landed[index] = this.#queue.now;
    this.#waiting[index]?.();
  };

  isThere({ index }: SimulatedDevice): boolean {
    return !Number.isNaN(this.#landed[index]);
  }

  whenThere(device: SimulatedDevice, then: () => void): void {
    this.#waiting[device.index] = then;
  }

  flightOf({ index }: SimulatedDevice) {
    const to = this.#landed[index] ?? Number.NaN;
    return to > this.from ? { from: this.from, to } : undefined;
  }
}

export function createRound(options: RoundOptions): Round {
  return options.channel === "gradients" ? allReduce(options) : allToAll(options);
}

function allToAll({ queue, cluster, channel }: RoundOptions): Round {
  const { devices, hosts, allHosts, perHost, latencies } = cluster;
  const isFar = allHosts > 1 && !(insideHost as ReadonlySet<StepChannel>).has(channel);
  const isGathered = channel !== "gradients" && isGather(channel);
  const latency = Math.max(
    latencies.inside * (perHost - 1),
    isFar ? latencies.across * (isGathered ? allHosts - 1 : (allHosts - 1) * perHost) : 0,
  );
  const arrivals = new Arrivals(queue, devices.length);
  // By device: missing arrivals; and missing departures, inside the host and across hosts.
  const missing = new Int8Array(devices.length).fill(isFar ? 4 : 3);
  const leaving = [0, 1].map(() => new Int8Array(devices.length).fill(2));
  const [near, far] = leaving;
  const nearLeft = hosts.map((host) => host.devices.length);
  let farLeft = devices.length;
  const arrive = (device: SimulatedDevice) => {
    if (isLast(missing, device.index)) queue.at(queue.now + latency, arrivals.land, device);
  };
  const leaveHost = ({ index, host }: SimulatedDevice) => {
    if (isLast(near, index) && isLast(nearLeft, host.index)) host.devices.forEach(arrive);
  };
  const leaveCluster = ({ index }: SimulatedDevice) => {
    if (isLast(far, index) && --farLeft === 0 && isFar) devices.forEach(arrive);
  };
  const bytesOf = (of: "sent" | "received", { costs }: SimulatedDevice) => {
    return costs[of][channel] ?? nothing;
  };
  return {
    send(device) {
      if (Number.isNaN(arrivals.from)) {
        arrivals.from = queue.now;
        for (const one of devices) {
          const { inside, across } = bytesOf("received", one);
          pass(one.inside, "in", "allToAll", inside, 1, arrive, one);
          pass(one.across, "in", "allToAll", across, one.sharing, arrive, one);
        }
      }
      const { inside, across } = bytesOf("sent", device);
      pass(device.inside, "out", "allToAll", inside, 1, leaveHost, device);
      pass(device.across, "out", "allToAll", across, device.sharing, leaveCluster, device);
    },
    made(device) {
      leaveHost(device);
      leaveCluster(device);
    },
    isThere: (device) => arrivals.isThere(device),
    whenThere: (device, then) => arrivals.whenThere(device, then),
    flightOf: (device) => {
      const { inside, across } = bytesOf("received", device);
      const isFlown = (device.inside && inside > 0) || (device.across && across > 0);
      return isFlown ? arrivals.flightOf(device) : undefined;
    },
  };
}

/** Decrements a count. Returns whether it is 0 now. */
function isLast(left: Int8Array | number[] | undefined, at: number): boolean {
  if (left === undefined) return false;
  const now = (left[at] ?? 0) - 1;
  left[at] = now;
  return now === 0;
}

/** Moves bytes through a port, unless transfers take no time, with the cores that move them. */
function pass(
  ports: Ports | undefined,
  way: "in" | "out",
  speed: "allToAll" | "allReduce",
  bytes: number,
  weight: number,
  done: (device: SimulatedDevice) => void,
  device: SimulatedDevice,
): void {
  if (ports === undefined || bytes === 0) {
    done(device);
    return;
  }
  const { movers } = ports;
  if (movers === undefined) {
    ports[way].add(bytes / ports[speed], weight, done, device);
    return;
  }
  let left = 2;
  const end = () => {
    if (--left === 0) done(device);
  };
  ports[way].add(bytes / ports[speed], weight, end, undefined);
  // In an all-reduce, the same pass also stands for an equal number of incoming bytes.
  const moved = speed === "allReduce" ? 2 * bytes : bytes;
  movers.cores.add(moved / movers.bandwidth, device.weight, end, undefined);
}

/** Bytes of a bucket that move together: the buffer of a channel of NCCL, by default. */
const pieceBytes = 2 ** 22;

function allReduce({ queue, cluster, buckets }: RoundOptions): Round {
  const { devices, allHosts, perHost, latencies } = cluster;
  const steps = (count: number) => Math.ceil(Math.log2(count));
  const latency = 2 * (latencies.inside * steps(perHost) + latencies.across * steps(allHosts));
  const arrivals = new Arrivals(queue, devices.length);
  const ready = new Int32Array(devices.length);
  const unready = new Array<number>(buckets).fill(devices.length);
  const moving = new Array<number>(buckets).fill(2 * devices.length); // Over both links.
  let left = buckets;
  const land = () => {
    if (--left === 0) for (const device of devices) arrivals.land(device);
  };
  const begin = (bucket: number) => {
    if (Number.isNaN(arrivals.from)) arrivals.from = queue.now;
    let filling = 0;
    const end = () => {
      if (isLast(moving, bucket)) queue.at(queue.now + latency + filling, land, undefined);
    };
    for (const device of devices) {
      const sent = device.costs.sent.gradients ?? nothing;
      const [inside, across] = [sent.inside / buckets, sent.across / buckets];
      const pieces = Math.ceil((inside * perHost) / (2 * (perHost - 1) * pieceBytes));
      const near = device.inside === undefined ? 0 : inside / device.inside.allReduce;
      const far =
        device.across === undefined ? 0 : (device.sharing * across) / device.across.allReduce;
      if (near > 0 && far > 0) filling = Math.max(filling, Math.min(near, far) / pieces);
      pass(device.inside, "out", "allReduce", inside, 1, end, device);
      pass(device.across, "out", "allReduce", across, device.sharing, end, device);
    }
  };
  return {
    send({ index }) {
      const bucket = ready[index] ?? 0;
      ready[index] = bucket + 1;
      if (isLast(unready, bucket)) begin(bucket);
    },
    made() {},
    isThere: (device) => arrivals.isThere(device),
    whenThere: (device, then) => arrivals.whenThere(device, then),
    flightOf: (device) => arrivals.flightOf(device),
  };
}
