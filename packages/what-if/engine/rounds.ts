// Rounds of the exchange in virtual time. Every device sends, and every device waits for all of
// them, as this runtime does.
//
// An all-to-all: a device's bytes leave through its port from the time that it sends; the bytes for
// it come in through its port from the time that the first of all devices sends. A round is there
// when all its senders' bytes have left, its own have come in, and the latency has passed. That is
// exact where all send at once, and where one sender is late; where many are late in turn, the
// receiver's port is assumed to have been busy meanwhile. A message for each other device has the
// link's latency, one after the other; a gather sends one to each host.
//
// An all-reduce, bucket by bucket: inside the hosts to one range for each device, across hosts, and
// inside again. A bucket begins when all devices have it, and is there when it is at all of them.
// Rings move 2 (n - 1) / n of its bytes; trees need latency for the logarithm of n only: as NCCL's
// double trees, a bucket has the bytes of the one and the latency of the other. A bucket streams
// through both links in pieces, and buckets follow each other: so the links work at once, and a
// bucket takes the time of the slower one, and that of a piece on the other.

import { insideHost, isGather, type StepChannel } from "../../../internal.ts";
import type { ChannelBytes } from "../model.ts";
import type { Ports, SimulatedCluster, SimulatedDevice } from "./cluster.ts";
import type { EventQueue } from "./events.ts";

export interface Round {
  /** The device begins to send; of an all-reduce, one more bucket is ready. */
  send(device: SimulatedDevice): void;
  /** All that the device sends is made: it has not left before. */
  made(device: SimulatedDevice): void;
  isThere(device: SimulatedDevice): boolean;
  /** Runs `then` when the round is there. */
  whenThere(device: SimulatedDevice, then: () => void): void;
  /** When bytes for the device began to fly, and landed; undefined: they take no time. */
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

/** Who waits, and for whom the round is there. */
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

  /** In an event of its own: one device never runs within another's call. */
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
  // Of each device: what it still waits for, and what has not left yet, inside and across.
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

/** Counts down; whether that was the last. */
function isLast(left: Int8Array | number[] | undefined, at: number): boolean {
  if (left === undefined) return false;
  const now = (left[at] ?? 0) - 1;
  left[at] = now;
  return now === 0;
}

/** Moves bytes through a port, if they take time there, and by the cores that do it. */
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
  // Of an all-reduce, the same pass stands for as many bytes that come in.
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
