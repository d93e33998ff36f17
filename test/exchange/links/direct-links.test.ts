// The suite of direct links, over every pair of carriers and every way between two hosts.

import { randomBytes } from "node:crypto";
import { Worker } from "node:worker_threads";
import test from "ava";
import type { ExchangeFrame } from "../../../src/exchange/frame.ts";
import type { DirectFrame } from "../../../src/exchange/links/direct-links.ts";
import { until } from "../../helpers/until.ts";
import {
  connectLinks,
  fill,
  frameOf,
  hasArrived,
  type LinkHost,
  regionBytes,
  regionOf,
  type Sockets,
  startLinkHosts,
  type Way,
} from "./link-hosts.ts";
import type { LinksWorkerData } from "./links-worker.ts";

const pairs: readonly (readonly [Sockets, Sockets])[] = [
  ["native", "native"],
  ["net", "net"],
  ["native", "net"],
  ["net", "native"],
];
const ways: readonly Way[] = ["tcp", "unix", "tls"];

for (const sockets of pairs) {
  for (const way of ways) suite(sockets, way);
}

function suite(sockets: readonly [Sockets, Sockets], way: Way): void {
  const name = `${sockets[0]} to ${sockets[1]} over ${way}`;

  test.serial(`${name}: frames of all sizes arrive in order, with their bytes`, async (t) => {
    await using running = await startLinkHosts({ sockets, way });
    const [a, b] = running.hosts as [LinkHost, LinkHost];
    await connectLinks(a, b);
    const sizes = [
      ...[[], [0], [1], [31], [0, 0, 4096, 1, 0], [65_537], [regionBytes]],
      Array.from({ length: 64 }, (_, i) => 257 * i),
    ];
    const frames = sizes.map((of, i) => frameOf(0, of.length === 0 ? 0 : i + 1, of));
    for (const [i, frame] of frames.entries()) {
      fill(a.memory, 0, i);
      a.links.send(1, frame);
      await until("the frame", () => b.arrived.length === i + 1);
      const bytes = frame.pieces.reduce((sum, piece) => sum + piece.bytes, 0);
      t.true(hasArrived(a, b, bytes), `${bytes} bytes`);
    }
    t.deepEqual(b.arrived, frames.map(asArrived));
    t.deepEqual([...a.lost, ...b.lost, ...a.refused, ...b.refused], []);
  });

  test.serial(`${name}: bytes that arrive after a fence change no memory`, async (t) => {
    await using running = await startLinkHosts({ sockets, way });
    const [a, b] = running.hosts as [LinkHost, LinkHost];
    for (let round = 1; round <= 4; round++) {
      await connectLinks(a, b);
      const before = b.arrived.length;
      for (let i = 1; i <= 40; i++) a.links.send(1, frameOf(0, i, [regionBytes / 2, 4000]));
      await until("some frames", () => b.arrived.length > before + round);
      b.links.fence(0);
      const region = Buffer.from(b.memory, regionOf(0), regionBytes).fill(round);
      const arrived = b.arrived.length;
      await until("the end of the connection", () => a.lost.length === round);
      t.true(region.equals(Buffer.alloc(regionBytes, round)));
      t.is(b.arrived.length, arrived);
      t.false(a.links.isOpen(1));
    }
    t.deepEqual(a.lost, new Array(4).fill("1 outgoing: the other host ended it"));
    t.deepEqual(b.lost, []);
  });
}

function asArrived({ pieces, ...rest }: DirectFrame): { from: number; frame: ExchangeFrame } {
  const plain = pieces.map(({ at: _, ...piece }) => piece);
  return { from: 0, frame: { ...rest, generation: 3, from: 0, pieces: plain } };
}

for (const kind of ["native", "net"] as const) {
  test.serial(`${kind}: three hosts send to each other at once`, async (t) => {
    await using running = await startLinkHosts({ sockets: [kind, kind, kind], way: "tcp" });
    const { hosts } = running;
    const others = (host: LinkHost) => hosts.filter((other) => other !== host);
    await Promise.all(
      hosts.flatMap((host) => others(host).map((other) => connectLinks(host, other))),
    );
    const frames = 60;
    for (let i = 1; i <= frames; i++) {
      for (const host of hosts) {
        for (const other of others(host)) {
          host.links.send(other.host, frameOf(host.host, i, [5000 * i, 7, 0, 40_000]));
        }
      }
    }
    await until("all frames", () => hosts.every(({ arrived }) => arrived.length === 2 * frames));
    for (const host of hosts) {
      for (const other of others(host)) {
        const of = host.arrived.filter(({ from }) => from === other.host);
        t.deepEqual(
          of.map(({ frame }) => frame.sequence),
          Array.from({ length: frames }, (_, i) => i + 1),
        );
        t.true(hasArrived(other, host, 5000 * frames + 40_007));
      }
    }
  });

  test.serial(`${kind}: a link can be closed, opened again and replaced`, async (t) => {
    await using running = await startLinkHosts({ sockets: [kind, kind], way: "tcp" });
    const [a, b] = running.hosts as [LinkHost, LinkHost];
    await connectLinks(a, b);
    a.links.hangUp(1);
    t.false(a.links.isOpen(1));
    a.links.send(1, frameOf(0, 1, [10])); // Dropped.
    await until("the end", () => b.lost.length === 1);
    await connectLinks(a, b);
    a.links.send(1, frameOf(0, 1, [10]));
    await until("a frame", () => b.arrived.length === 1);
    await connectLinks(a, b);
    a.links.send(1, frameOf(0, 1, [20]));
    await until("a frame of the new connection", () => b.arrived.length === 2);
    t.true(b.links.isOpen(0) === false && a.links.isOpen(1));
    t.deepEqual(a.lost, []);
  });

  test.serial(`${kind}: a thread that is terminated ends its connections at once`, async (t) => {
    await using running = await startLinkHosts({ sockets: [kind, kind], way: "tcp" });
    const [, b] = running.hosts as [LinkHost, LinkHost];
    const token = randomBytes(32);
    b.links.admit(0, token);
    const data: LinksWorkerData = { sockets: kind, address: b.address, token };
    const worker = new Worker(new URL("links-worker.js", import.meta.url), { workerData: data });
    await until("frames of the thread", () => b.arrived.length > 5);
    await worker.terminate();
    await until("the end of its connection", () => b.lost.length === 1);
    t.regex(b.lost[0] ?? "", /^0 incoming: it was cut/);
  });
}
