// Routes: the cells that the bridge forwards to other hosts, and the bytes that each cell
// publishes. The list is the same on every host, so that a frame names a route by its index.

import {
  type ChannelName,
  channelNames,
  channels,
  type ExchangeShape,
  insideHost,
  isGather,
} from "./exchange.ts";
import { type Extent, layoutOf, type SharedMemoryLayout } from "./layout.ts";

export interface Route {
  readonly channel: ChannelName | "gradients" | "barrier";
  /** The route's contents, as errors name them: "the ids of device 1 for device 2". */
  readonly what: string;
  readonly cell: number;
  /** The region of the bytes that the cell publishes. */
  readonly region: Extent;
  /**
   * Cell with the offset of the published bytes in the region; the next cell has their number. Left
   * out: the whole region.
   */
  readonly span?: number;
  /** The host that writes the cell, and the hosts that receive it. */
  readonly from: number;
  readonly to: readonly number[];
  /** Devices that wait for the cell. */
  readonly readers: readonly number[];
}

const nothing: Extent = { first: 0, bytes: 0 };

/** All routes between the hosts of a shape. */
export function routesOf(shape: ExchangeShape): Route[] {
  const layout = layoutOf(shape);
  const between = channelNames.filter((name) => !insideHost.has(name));
  const routes = between.flatMap((name) => channelRoutes(layout, name));
  return [...routes, ...sumRoutes(layout), ...barrierRoutes(layout)];
}

function channelRoutes(layout: SharedMemoryLayout, channel: ChannelName): Route[] {
  const parts = isGather(channel) ? gatherRoutes : partRoutes;
  const { hostOf, hosts } = layout;
  const { closed } = layout.channels[channel];
  const closedRoutes = hostOf.map((from, rank) => ({
    channel,
    what: `device ${rank} releasing its inbox of ${channels[channel]}`,
    cell: closed(rank),
    region: nothing,
    from,
    ...toOthers(hosts, from),
  }));
  return [...parts(layout, channel), ...closedRoutes];
}

/** The routes of an all-to-all: a part from each device to each device of another host. */
function partRoutes({ hostOf, channels: at }: SharedMemoryLayout, channel: ChannelName): Route[] {
  const { inboxes, published, span } = at[channel];
  return hostOf.flatMap((host, from) =>
    hostOf.flatMap((other, to) => {
      if (other === host) return [];
      return {
        channel,
        what: `${channels[channel]} of device ${from} for device ${to}`,
        cell: published(from, to),
        region: inboxes[to] ?? nothing,
        span: span(from, to),
        from: host,
        to: [other],
        readers: [to],
      };
    }),
  );
}

/** The routes of an all-gather: each device's part, once to each other host. */
function gatherRoutes(layout: SharedMemoryLayout, channel: ChannelName): Route[] {
  const { hostOf, hosts } = layout;
  const { inboxes, published, span } = layout.channels[channel];
  return hostOf.map((host, from) => ({
    channel,
    what: `${channels[channel]} of device ${from}`,
    cell: published(from, from),
    region: inboxes[from] ?? nothing,
    span: span(from, from),
    from: host,
    ...toOthers(hosts, host),
  }));
}

function barrierRoutes({ hostOf, hosts, arrived }: SharedMemoryLayout): Route[] {
  return hostOf.map((host, rank) => ({
    channel: "barrier",
    what: `device ${rank} reaching the barrier`,
    cell: arrived(rank),
    region: nothing,
    from: host,
    ...toOthers(hosts, host),
  }));
}

function sumRoutes({ hostOf, hosts, gradients }: SharedMemoryLayout): Route[] {
  const routes: Route[] = [];
  for (const [rank, host] of hostOf.entries()) {
    const range = gradients.ranges[rank] ?? { first: 0, count: 0 };
    for (const other of hosts.keys()) {
      if (other === host) continue;
      routes.push({
        channel: "gradients",
        what: `the dense gradients of device ${gradients.folder(other, rank)} for device ${rank}`,
        cell: gradients.partialFolded(other, rank),
        region: gradients.partial(other, rank),
        from: other,
        to: [host],
        readers: [rank],
      });
    }
    routes.push({
      channel: "gradients",
      what: `the sum of dense gradients of device ${rank}`,
      cell: gradients.folded(rank),
      region: { first: gradients.sum + 4 * range.first, bytes: 4 * range.count },
      from: host,
      ...toOthers(hosts, host),
    });
  }
  return routes;
}

function toOthers(hosts: readonly (readonly number[])[], host: number) {
  const to = [...hosts.keys()].filter((other) => other !== host);
  return { to, readers: to.flatMap((other) => hosts[other] ?? []) };
}
