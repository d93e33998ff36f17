// Routes: the streams of data between the bridges of two hosts. A route is named by a number, the
// same on every host, from which each host computes what it needs: with 1,024 devices a list of all
// routes would have ten million entries.
//
//   kind      from      to        carries
//   a part    device    device    a part of an all-to-all, and the round that its device has sent
//   a part    device    (all)     a part of an all-gather
//   closed    host      (all)     the round for which all devices of the host freed their inboxes
//   partial   host      device    the partial sum of a bucket over the device's range
//   sum       device    (all)     the sum of a bucket over the device's range
//   group     host      device    the sums of gradients of the device's units (top-k-layout.ts)
//   selected  device    (all)     the selected elements of the device's units
//   added     host      (all)     the round for which all devices of the host have added these
//   barrier   host      (all)     the number of barriers that all devices of the host have reached

import { bytesIn, spanAt } from "./cells.ts";
import {
  type ChannelName,
  channelNames,
  channels,
  type ExchangeShape,
  type Extent,
  insideHost,
  isGather,
} from "./exchange.ts";
import { gatheredBytesMax } from "./frame.ts";
import { type BucketLayout, layoutOf, type SharedMemoryLayout } from "./layout.ts";

export type RoutedChannel = ChannelName | "gradients" | "barrier";

/** A route, at the host that receives on it. */
export interface Arrival {
  readonly channel: RoutedChannel;
  /** The region of the bytes. */
  readonly region: Extent;
  /** The cells that the round is stored into, once all bytes have arrived. */
  readonly cells: readonly number[];
  /** Devices of this host that wait for the cells. */
  readonly readers: readonly number[];
}

/** Data that a host sends when some of its cells have changed. */
export interface Departure {
  readonly channel: RoutedChannel;
  /** The cells, one or one for each device: it is due when all of them have a later round. */
  readonly cells: readonly number[];
  /**
   * For an all-to-all: the part may wait for the same round of the host's other devices. Left out:
   * it is sent as soon as it is due.
   */
  readonly together?: {
    /** The cells of the rounds of all devices of this host. */
    readonly cells: readonly number[];
    /** Cell: the words of the parts. They may wait if these have at most `bytesMax` bytes. */
    readonly words: number;
    readonly bytesMax: number;
  };
  /** The bytes of the parts that may be sent before the parts are due. */
  readonly ahead?: {
    /** Cell that changes whenever more may leave. */
    readonly count: number;
    /** Cell: the round that the parts belong to. */
    readonly round: number;
    parts(load: (cell: number) => number): Iterable<PartAhead>;
  };
  /** The parts, once they are due. */
  parts(load: (cell: number) => number): Iterable<PartToSend>;
}

/** A part that is due. */
export interface PartToSend {
  readonly route: number;
  /** The hosts that receive it. */
  readonly to: readonly number[];
  /** First byte in this host's memory, and in the receiver's region. */
  readonly at: number;
  readonly first: number;
  readonly bytes: number;
}

/** A part of which the first `ready` bytes may leave. */
export interface PartAhead extends PartToSend {
  readonly ready: number;
}

const between = channelNames.filter((name) => !insideHost.has(name));

type RouteKind =
  | { readonly kind: "part" | "closed" | "barrier"; readonly channel: RoutedChannel }
  | { readonly kind: "group" | "selected" | "added"; readonly channel: "gradients" }
  | {
      readonly kind: "partial" | "sum";
      readonly channel: "gradients";
      readonly bucket: BucketLayout;
    };

/** The kinds of routes of each channel, in the order of their numbers. */
function kindsOf(buckets: readonly BucketLayout[]): RouteKind[] {
  return [
    ...between.flatMap((channel) => [
      { kind: "part", channel } as const,
      { kind: "closed", channel } as const,
    ]),
    ...buckets.flatMap((bucket) => [
      { kind: "partial", channel: "gradients", bucket } as const,
      { kind: "sum", channel: "gradients", bucket } as const,
    ]),
    { kind: "group", channel: "gradients" },
    { kind: "selected", channel: "gradients" },
    { kind: "added", channel: "gradients" },
    { kind: "barrier", channel: "barrier" },
  ];
}

export class Routes {
  readonly #layout: SharedMemoryLayout;
  readonly #host: number;
  readonly #devices: number;
  readonly #own: readonly number[];
  readonly #others: readonly number[];
  readonly #kinds: readonly RouteKind[];

  /** The routes of a host. */
  constructor(shape: ExchangeShape, host: number) {
    this.#layout = layoutOf(shape, host);
    this.#host = host;
    this.#devices = shape.devices;
    this.#own = this.#layout.hosts[host] ?? [];
    this.#kinds = kindsOf(this.#layout.gradients.buckets);
    this.#others = [...this.#layout.hosts.keys()].filter((other) => other !== host);
  }

  /** The other hosts. */
  get others(): readonly number[] {
    return this.#others;
  }

  /** All data that this host sends. */
  departures(): Departure[] {
    return this.#kinds.flatMap((kind) => this.#departuresOf(kind));
  }

  /**
   * The regions and cells of a route from host `sender`; undefined: the route's number is wrong.
   */
  arrival(route: number, sender: number): Arrival | undefined {
    const { of, from, to } = this.#decode(route);
    if (of === undefined) return undefined;
    const { kind, channel } = of;
    const { hosts, hostOf, topK, arrived } = this.#layout;
    const isOfHost = kind !== "part" && kind !== "sum" && kind !== "selected";
    const isForAll = to === this.#devices;
    const host = isOfHost ? from : hostOf[from];
    if (host !== sender || sender === this.#host) return undefined;
    if (!isForAll && hostOf[to] !== this.#host) return undefined;
    const readers = isForAll ? this.#own : [to];
    const ranks = hosts[sender] ?? [];
    switch (kind) {
      case "part": {
        const { inbox, published } = this.#channel(channel);
        if (isForAll !== this.#isGather(channel)) return undefined;
        return { channel, region: inbox(to), cells: [published(from, to)], readers };
      }
      case "closed": {
        const { closed } = this.#channel(channel);
        return isForAll
          ? { channel, region: nothing, cells: ranks.map(closed), readers }
          : undefined;
      }
      case "barrier":
        return isForAll
          ? { channel, region: nothing, cells: ranks.map(arrived), readers }
          : undefined;
      case "sum": {
        if (!isForAll) return undefined;
        const { sent, folded } = of.bucket;
        return { channel, region: sent(from), cells: [folded(from)], readers };
      }
      case "partial": {
        if (isForAll) return undefined;
        const { partial, partialFolded } = of.bucket;
        return { channel, region: partial(from, to), cells: [partialFolded(from, to)], readers };
      }
      case "group": {
        if (isForAll || topK === undefined) return undefined;
        const cells = [topK.partialFolded(from, to)];
        return { channel, region: topK.partial(from, to), cells, readers };
      }
      case "selected": {
        if (!isForAll || topK === undefined) return undefined;
        return { channel, region: topK.selected(from), cells: [topK.picked(from)], readers };
      }
      case "added":
        if (!isForAll || topK === undefined) return undefined;
        return { channel, region: nothing, cells: ranks.map(topK.added), readers };
      default:
        return kind satisfies never;
    }
  }

  /** The routes on which a host sends bytes to this one, with their regions. */
  *regionsOf(sender: number): Iterable<{ readonly route: number; readonly region: Extent }> {
    const senders = new Set([sender, ...(this.#layout.hosts[sender] ?? [])]); // Hosts, or devices.
    for (const kind of this.#kinds) {
      for (const from of senders) {
        for (const to of [...this.#own, this.#devices]) {
          const route = this.#encode(kind, from, to);
          const region = this.arrival(route, sender)?.region;
          if (region !== undefined) yield { route, region };
        }
      }
    }
  }

  channelOf(route: number): RoutedChannel {
    return this.#decode(route).of?.channel ?? "barrier";
  }

  /** The content of a route, as errors name it: "the ids of device 1 for device 2". */
  whatOf(route: number): string {
    const { of, from, to } = this.#decode(route);
    if (of === undefined) return `route ${route}`;
    const { kind, channel } = of;
    const { folder } = this.#layout.gradients;
    const content = channel === undefined || channel in channels ? "" : channel;
    const what = content === "" ? channels[channel as ChannelName] : content;
    switch (kind) {
      case "part":
        return `${what} of device ${from}${to === this.#devices ? "" : ` for device ${to}`}`;
      case "closed":
        return `the devices of host ${from} releasing their inboxes of ${what}`;
      case "barrier":
        return `the devices of host ${from} reaching the barrier`;
      case "sum":
        return `the sum of dense gradients of device ${from}`;
      case "selected":
        return `the selected dense gradients of device ${from}`;
      case "added":
        return `the devices of host ${from} adding up the selected dense gradients`;
      case "partial":
      case "group":
        return `the dense gradients of device ${folder(from, to)} for device ${to}`;
      default:
        return kind satisfies never;
    }
  }

  #departuresOf(of: RouteKind): Departure[] {
    const { kind, channel } = of;
    const all = this.#others;
    const { topK, arrived } = this.#layout;
    const toAll = (from: number) => this.#encode(of, from, this.#devices);
    const ofHost = (cells: readonly number[]): Departure[] => {
      const part = { route: toAll(this.#host), to: all, at: 0, first: 0, bytes: 0 };
      return [{ channel, cells, parts: () => [part] }];
    };
    switch (kind) {
      case "part":
        return this.#own.map((from) => this.#partDeparture(of, from));
      case "closed":
        return ofHost(this.#own.map(this.#channel(channel).closed));
      case "barrier":
        return ofHost(this.#own.map(arrived));
      case "sum":
        return this.#own.map((from) => {
          const { first: at, bytes } = of.bucket.sent(from);
          const part = { route: toAll(from), to: all, at, first: 0, bytes };
          return { channel, cells: [of.bucket.folded(from)], parts: () => [part] };
        });
      case "partial":
        return this.#partialDepartures(of, of.bucket);
      case "group":
        return topK === undefined ? [] : this.#partialDepartures(of, topK);
      case "selected":
        if (topK === undefined) return [];
        return this.#own.map((from) => {
          const { first: at, bytes } = topK.selected(from);
          const part = { route: toAll(from), to: all, at, first: 0, bytes };
          return { channel, cells: [topK.picked(from)], parts: () => [part] };
        });
      case "added":
        return topK === undefined ? [] : ofHost(this.#own.map(topK.added));
      default:
        return kind satisfies never;
    }
  }

  /** Sums over this host's devices, for the devices of other hosts. */
  #partialDepartures(
    of: RouteKind,
    { partial, partialFolded }: Pick<BucketLayout, "partial" | "partialFolded">,
  ): Departure[] {
    return this.#layout.hostOf.flatMap((host, rank) => {
      if (host === this.#host) return [];
      const { first: at, bytes } = partial(this.#host, rank);
      const route = this.#encode(of, this.#host, rank);
      const part = { route, to: [host], at, first: 0, bytes };
      const cells = [partialFolded(this.#host, rank)];
      return { channel: "gradients", cells, parts: () => [part] };
    });
  }

  /** The parts of a device of this host, for the devices of other hosts. */
  #partDeparture(of: RouteKind, from: number): Departure {
    const { channel } = of;
    const { hostOf } = this.#layout;
    const { inbox, outbox, sent, sentWords, span, ahead } = this.#channel(channel);
    const others = this.#others;
    const [host, devices] = [this.#host, this.#devices];
    const routeTo = (to: number) => this.#encode(of, from, to);
    if (this.#isGather(channel)) {
      const parts = (load: (cell: number) => number): PartToSend[] => {
        const { first, bytes } = spanAt(load, span(from, from));
        return [
          { route: routeTo(devices), to: others, at: inbox(from).first + first, first, bytes },
        ];
      };
      return { channel, cells: [sent(from)], parts };
    }
    const partTo = (load: (cell: number) => number, to: number, other: number): PartToSend => {
      const { first, bytes } = spanAt(load, span(from, to));
      return { route: routeTo(to), to: [other], at: outbox(from, to).first, first, bytes };
    };
    const parts = function* (load: (cell: number) => number): Iterable<PartToSend> {
      for (const [to, other] of hostOf.entries()) {
        if (other !== host) yield partTo(load, to, other);
      }
    };
    const together = {
      cells: this.#own.map(sent),
      words: sentWords(from),
      bytesMax: gatheredBytesMax * others.length,
    };
    const departure = { channel, cells: [sent(from)], together, parts };
    if (ahead === undefined) return departure;
    const partsAhead = function* (load: (cell: number) => number): Iterable<PartAhead> {
      for (const [to, other] of hostOf.entries()) {
        const ready = other === host ? 0 : bytesIn(load(ahead.words(from, to)));
        if (ready > 0) yield { ...partTo(load, to, other), ready };
      }
    };
    const [count, round] = [ahead.count(from), ahead.round(from)];
    return { ...departure, ahead: { count, round, parts: partsAhead } };
  }

  #channel(channel: RoutedChannel) {
    return this.#layout.channels[channel as ChannelName];
  }

  #isGather(channel: RoutedChannel): boolean {
    return isGather(channel as ChannelName);
  }

  #encode(of: RouteKind, from: number, to: number): number {
    return (this.#kinds.indexOf(of) * this.#devices + from) * (this.#devices + 1) + to;
  }

  #decode(route: number) {
    const to = route % (this.#devices + 1);
    const rest = Math.floor(route / (this.#devices + 1));
    const from = rest % this.#devices;
    return { of: this.#kinds[Math.floor(rest / this.#devices)], from, to };
  }
}

const nothing: Extent = { first: 0, bytes: 0 };
