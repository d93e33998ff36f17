// A simulated link between devices, for benches. Bytes still move through shared memory, but the
// receiver sleeps until a link of the given speed would have delivered them. The link costs no
// processor time. A device's sends share its link: they are serialised over all channels.

import {
  type AllReduce,
  type AllToAll,
  type ChannelName,
  channelNames,
  type Exchange,
  isGather,
} from "../../src/exchange/exchange.ts";
import { aheadBytesMin, tailBytes } from "../../src/exchange/frame.ts";

export interface Link {
  readonly bitsPerSecond: number;
}

/** Bytes of the memory in which devices publish the arrival times of their sends. */
export function linkBytes(devices: number): number {
  return 8 * (channelNames.length + 1) * devices * devices;
}

/** Milliseconds that a link takes to transmit the bytes. */
export function wayMs({ bitsPerSecond }: Link, bytes: number): number {
  return (8000 * bytes) / bitsPerSecond;
}

/** The same exchange over the link; `gradientLength`: floats of the all-reduce. */
export function overLink(
  exchange: Exchange,
  options: {
    readonly link: Link;
    readonly memory: SharedArrayBuffer;
    readonly gradientLength: number;
    /** Adds up the milliseconds that this device has waited for the link, by channel. */
    readonly waitedMs: Partial<Record<ChannelName | "gradients", number>>;
  },
): Exchange {
  const { rank, devices } = exchange;
  const { link, gradientLength, waitedMs } = options;
  /** [channel][from][to] */
  const arrivals = new Float64Array(options.memory);
  const peers = Array.from({ length: devices }, (_, peer) => peer).filter((peer) => peer !== rank);
  let freeAtMs = 0;
  const place = (channel: number, from: number, to: number) => {
    return (channel * devices + from) * devices + to;
  };
  /** Bytes of each part that left ahead of its round. */
  const left = new Map<number, number>();
  const sendTo = (at: number, bytes: number) => {
    freeAtMs = Math.max(freeAtMs, nowMs()) + wayMs(link, bytes);
    arrivals[at] = freeAtMs;
  };
  const send = (channel: number, bytesTo: (peer: number) => number) => {
    for (const peer of peers) {
      const at = place(channel, rank, peer);
      sendTo(at, bytesTo(peer) - (left.get(at) ?? 0));
      left.delete(at);
    }
  };
  const arrive = (channel: number) => {
    const fromMs = nowMs();
    for (const peer of peers) sleepUntil(arrivals[place(channel, peer, rank)] ?? 0);
    const name = channelNames[channel] ?? "gradients";
    waitedMs[name] = (waitedMs[name] ?? 0) + nowMs() - fromMs;
  };
  const slowed = (inner: AllToAll, channel: number): AllToAll => ({
    ...inner,
    isThere() {
      const isOver = (peer: number) => (arrivals[place(channel, peer, rank)] ?? 0) <= nowMs();
      return inner.isThere() && peers.every(isOver);
    },
    sendAhead(to, bytes, total) {
      const at = place(channel, rank, to);
      const before = left.get(at) ?? 0;
      const ready = Math.min(bytes, total - tailBytes);
      if (to === rank || ready - before < aheadBytesMin) return;
      sendTo(at, ready - before);
      left.set(at, ready);
    },
    start(used = (to) => inner.outbox(to).byteLength) {
      send(channel, used);
      inner.start(used);
    },
    async finish() {
      const inbox = await inner.finish();
      arrive(channel);
      return inbox;
    },
  });
  const last = channelNames.length;
  const inner = exchange.gradients;
  const gradients: AllReduce = {
    ...inner,
    start(buckets) {
      // Reduce and gather, a share each, once all buckets are ready.
      if (buckets === undefined) send(last, () => (8 * gradientLength) / devices);
      inner.start(buckets);
    },
    async finish() {
      const sum = await inner.finish();
      arrive(last);
      return sum;
    },
  };
  // Gathers are not slowed: they are a few bytes, and no step of the benches waits for them.
  const channels = channelNames.flatMap((name, at) =>
    isGather(name) ? [] : [[name, slowed(exchange[name], at)]],
  );
  return { ...exchange, ...Object.fromEntries(channels), gradients };
}

const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Milliseconds on a clock that all threads of a process share. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

function sleepUntil(dueMs: number): void {
  const ms = dueMs - nowMs();
  if (ms > 0) Atomics.wait(asleep, 0, 0, ms);
}
