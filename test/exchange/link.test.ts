// The link between two bridges: frames, windows and acknowledgements.

import test from "ava";
import { FrameCorruptError } from "../../src/errors/errors.ts";
import {
  decodeFrame,
  encodeFrame,
  headerRoom,
  missingMax,
  piecesMax,
} from "../../src/exchange/frame.ts";
import { Link } from "../../src/exchange/link.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { headerBytesOf } from "../../src/wire/messages/headers.ts";

const frameBytes = 1000;
const frameCost = 4096;

/** A link with `total` bytes to send. */
function linkWith(options: { windowBytes: number; total: number }): Link {
  const link = new Link(1, options.windowBytes);
  link.add({ route: 3, round: 1, at: 0, first: 64, total: options.total, dueMs: 0 });
  return link;
}

test("a message is cut into frames that together cover it", (t) => {
  const link = linkWith({ windowBytes: 1e6, total: 2500 });
  const pieces = [1, 2, 3].flatMap(() => link.next(frameBytes, 0)?.pieces ?? []);
  t.is(link.next(frameBytes, 0), undefined);
  const common = { route: 3, round: 1, total: 2500 };
  t.deepEqual(pieces, [
    { ...common, at: 0, first: 64, bytes: 1000 },
    { ...common, at: 1000, first: 1064, bytes: 1000 },
    { ...common, at: 2000, first: 2064, bytes: 500 },
  ]);
});

test("small messages share a frame, and a message without bytes is a piece, too", (t) => {
  const link = linkWith({ windowBytes: 1e6, total: 16 });
  link.add({ route: 4, round: 1, at: 0, first: 0, total: 0, dueMs: 0 });
  link.add({ route: 5, round: 1, at: 0, first: 0, total: frameBytes, dueMs: 0 });
  t.deepEqual(
    link.next(frameBytes, 0)?.pieces.map(({ route, bytes }) => [route, bytes]),
    [
      [3, 16],
      [4, 0],
    ],
  );
  t.is(link.next(frameBytes, 0)?.bytes, frameBytes);
});

test("unacknowledged bytes in flight never exceed the window", (t) => {
  const windowBytes = 3 * (frameBytes + frameCost);
  const link = linkWith({ windowBytes, total: 100 * frameBytes });
  let sequence = 0;
  for (let i = 0; i < 3; i++) t.is(link.next(frameBytes, 0)?.sequence, ++sequence);
  t.is(link.next(frameBytes, 0), undefined);
  t.deepEqual(
    link.acknowledge(3, [1], 0).map((sent) => sent.sequence),
    [1],
  );
  t.is(link.oldest?.sequence, 1);
  t.is(link.next(frameBytes, 0)?.sequence, ++sequence);
  t.is(link.next(frameBytes, 0), undefined);
  t.deepEqual(
    link.overdue(1).map((sent) => sent.sequence),
    [1, 3, 4],
  );
});

test("each frame is accepted once, in any order of arrival, and missing frames are known", (t) => {
  for (let seed = 0; seed < 50; seed++) {
    const random = new RandomStream(seed, purposes.faults);
    const link = new Link(0, 400 * frameCost);
    const accepted = new Set<number>();
    const coming = Array.from({ length: 300 }, (_, i) => 1 + (i % 200)); // 100 of them twice.
    while (coming.length > 0) {
      const [sequence = 0] = coming.splice(random.below(coming.length), 1);
      t.is(link.accept(sequence, 0), !accepted.has(sequence), `seed ${seed}, ${sequence}`);
      accepted.add(sequence);
      const { seen, missing } = link.receipt("broker");
      t.true(missing.length <= missingMax);
      for (let n = 1; n < seen; n++) t.is(missing.includes(n), !accepted.has(n));
    }
    t.deepEqual(link.receipt("broker"), { seen: 201, missing: [] });
  }
});

test("a sequence number beyond the window is refused and forgotten", (t) => {
  const link = new Link(0, 4 * frameCost);
  t.false(link.accept(1000, 0));
  t.true(link.accept(1, 0));
  t.deepEqual(link.receipt("broker"), { seen: 2, missing: [] });
});

const whole = {
  generation: 7,
  from: 2,
  sequence: 9,
  ended: 1,
  seen: 5,
  missing: [3, 4],
  pieces: [
    { route: 1, round: 2, first: 0, bytes: 2, total: 2 },
    { route: 8, round: 1, first: 64, bytes: 1, total: 1024 },
  ],
};
const subject = "osiris.c.r.7.frames.0.frame";
const payload = Uint8Array.of(1, 2, 3);

test("the headers of a frame survive a round trip, and are short", (t) => {
  const headers = encodeFrame(whole);
  t.deepEqual(decodeFrame({ subject, headers, payload }), whole);
  const digits = 999_999_999_999_999;
  const piece = {
    route: 99_999_999,
    round: 2 ** 31,
    first: 2 ** 32,
    bytes: 2 ** 32,
    total: 2 ** 32,
  };
  const largest = encodeFrame({
    generation: digits,
    from: 99_999,
    sequence: digits,
    ended: digits,
    seen: digits,
    missing: new Array<number>(missingMax).fill(digits),
    pieces: new Array<typeof piece>(piecesMax).fill(piece),
  });
  t.true(headerBytesOf(largest) <= headerRoom);
});

for (const [what, headers, bytes] of [
  ["without headers", {}, payload],
  ["with words for numbers", { ...encodeFrame(whole), "osiris-frame": "7 two 9" }, payload],
  ["with half a piece", { ...encodeFrame(whole), "osiris-pieces": "1 2 0" }, payload],
  ["whose payload is longer than its pieces", encodeFrame(whole), new Uint8Array(4)],
] as const) {
  test(`a frame ${what} is refused`, (t) => {
    t.throws(() => decodeFrame({ subject, headers, payload: bytes }), {
      instanceOf: FrameCorruptError,
    });
  });
}

test("frames change to another way only when no frame is in flight", (t) => {
  const link = linkWith({ windowBytes: 1e6, total: 2 * frameBytes });
  t.true(link.turnTo("broker"));
  link.next(frameBytes, 0);
  t.false(link.turnTo("direct"));
  t.is(link.way, "broker");
  link.acknowledge(2, [], 0);
  t.true(link.turnTo("direct"));
  t.is(link.way, "direct");
  link.next(frameBytes, 0);
  t.false(link.turnTo("broker"));
});
