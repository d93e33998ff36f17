// Routes: which cells another host has to see, and which bytes each of them publishes. The same
// list on every host, so that a frame names a route by its index.

import {
  type ChannelName,
  channelNames,
  channels,
  type ExchangeShape,
  insideHost,
} from "./exchange.ts";
import { type Extent, layoutOf, type SharedMemoryLayout } from "./layout.ts";

export interface Route {
  readonly channel: ChannelName | "gradients";
  /** What travels, as errors name it: "the ids of device 1 for device 2". */
  readonly what: string;
  readonly cell: number;
  /** Where in memory its bytes lie, at most. */
  readonly region: Extent;
  /** Cell of the first byte in the region, the next one that of how many; left out: all of it. */
  readonly span?: number;
  /** The host whose device writes the cell, and those that have to see it. */
  readonly from: number;
  readonly to: readonly number[];
  /** Devices that wait for it. */
  readonly readers: readonly number[];
}

const nothing: Extent = { first: 0, bytes: 0 };

/** All routes between the hosts of a shape. */
export function routesOf(shape: ExchangeShape): Route[] {
  const layout = layoutOf(shape);
  const between = channelNames.filter((name) => !insideHost.has(name));
  return [...between.flatMap((name) => channelRoutes(layout, name)), ...sumRoutes(layout)];
}

function channelRoutes(layout: SharedMemoryLayout, channel: ChannelName): Route[] {
  const { hostOf, hosts } = layout;
  const { inboxes, published, closed, span } = layout.channels[channel];
  const routes: Route[] = [];
  for (const [from, host] of hostOf.entries()) {
    for (const [to, other] of hostOf.entries()) {
      if (other === host) continue;
      routes.push({
        channel,
        what: `${channels[channel]} of device ${from} for device ${to}`,
        cell: published(from, to),
        region: inboxes[to] ?? nothing,
        span: span(from, to),
        from: host,
        to: [other],
        readers: [to],
      });
    }
    routes.push({
      channel,
      what: `device ${from} giving back its inbox of ${channels[channel]}`,
      cell: closed(from),
      region: nothing,
      from: host,
      ...toOthers(hosts, host),
    });
  }
  return routes;
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
