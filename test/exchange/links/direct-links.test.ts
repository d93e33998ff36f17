// The suite of direct links, over every pair of carriers and every way between two hosts.

import test from "ava";
import {
  connectLinks,
  frameOf,
  hasArrived,
  regionBytes,
  type Sockets,
  startLinkHosts,
  until,
  type Way,
} from "./link-hosts.ts";

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
    const [a, b] = running.hosts;
    if (a === undefined || b === undefined) return t.fail();
    await connectLinks(a, b);
    const sizes = [
      ...[[], [0], [1], [31], [0, 0, 4096, 1, 0], [65_537], [regionBytes]],
      Array.from({ length: 64 }, (_, i) => 257 * i),
    ];
    const frames = sizes.map((of, i) => frameOf(0, of.length === 0 ? 0 : i + 1, of));
    for (const [i, frame] of frames.entries()) {
      a.links.send(1, frame);
      await until("the frame", () => b.arrived.length === i + 1);
      const bytes = frame.pieces.reduce((sum, piece) => sum + piece.bytes, 0);
      t.true(hasArrived(a, b, bytes), `${bytes} bytes`);
    }
    const plain = ({ pieces, ...rest }: (typeof frames)[number]) => ({
      from: 0,
      frame: { ...rest, generation: 3, from: 0, pieces: pieces.map(({ at: _, ...one }) => one) },
    });
    t.deepEqual(b.arrived, frames.map(plain));
    t.deepEqual([...a.lost, ...b.lost, ...a.refused, ...b.refused], []);
  });
}
