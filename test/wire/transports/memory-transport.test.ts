// The simulated broker: its faults, its seed and its clock.

import test from "ava";
import { RequestFailedError, TransportLostError } from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import type { Frame } from "../../../src/wire/messages/transport.ts";
import {
  createMemoryBroker,
  type MemoryFaults,
} from "../../../src/wire/transports/memory-transport.ts";

const number = (index: number): Uint8Array => new Uint8Array(new Float64Array([index]).buffer);
const indexOf = (frame: Frame): number => new Float64Array(frame.payload.slice().buffer)[0] ?? -1;

function startPair(faults: MemoryFaults = {}, seed = 7) {
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({ clock, seed, faults });
  const sender = broker.connect("sender");
  const receiver = broker.connect("receiver");
  const seen: number[] = [];
  receiver.subscribe("n", (frame) => seen.push(indexOf(frame)));
  clock.advance(1000);
  const send = (count: number) => {
    for (let index = 0; index < count; index++) sender.publish("n", number(index));
    clock.advance(1000);
  };
  return { clock, broker, sender, receiver, seen, send };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test("delays vary, and frames keep their order", (t) => {
  const { clock, sender, seen } = startPair({ delayMs: [1, 20] });
  const arrivals: number[] = [];
  for (const index of upTo(50)) sender.publish("n", number(index));
  for (let ms = 0; ms < 100; ms++) {
    clock.advance(1);
    arrivals.push(seen.length);
  }
  t.deepEqual(seen, upTo(50));
  t.true(new Set(arrivals).size > 3, "frames arrived at different times");
});

test("a frame is delivered by the clock, never inside the call to publish", (t) => {
  const { clock, sender, seen } = startPair();
  sender.publish("n", number(1));
  t.deepEqual(seen, []);
  clock.advance(0);
  t.deepEqual(seen, [1]);
});

test("frames are dropped, repeated and reordered at the configured rates", (t) => {
  const dropping = startPair({ drop: 0.3 });
  dropping.send(1000);
  t.true(dropping.seen.length > 600 && dropping.seen.length < 800);
  const repeating = startPair({ duplicate: 0.3 });
  repeating.send(1000);
  t.true(repeating.seen.length > 1200 && repeating.seen.length < 1400);
  t.is(new Set(repeating.seen).size, 1000);
  const overtaking = startPair({ reorder: 0.3, delayMs: [1, 2] });
  overtaking.send(1000);
  t.is(new Set(overtaking.seen).size, 1000);
  t.notDeepEqual(overtaking.seen, upTo(1000));
  t.deepEqual(
    overtaking.seen.toSorted((a, b) => a - b),
    upTo(1000),
  );
});

test("the same seed gives the same faults, and another seed gives others", (t) => {
  const faults = { drop: 0.2, duplicate: 0.2, reorder: 0.2, delayMs: [0, 9] } as const;
  const [one, same, other] = [7, 7, 8].map((seed) => {
    const pair = startPair(faults, seed);
    pair.send(200);
    return pair.seen;
  });
  t.deepEqual(one, same);
  t.notDeepEqual(one, other);
});

test("a partition drops frames both ways until it is healed", (t) => {
  const { clock, broker, sender, receiver, seen, send } = startPair();
  const back: number[] = [];
  sender.subscribe("back", (frame) => back.push(indexOf(frame)));
  broker.partition(["sender"], ["receiver"]);
  send(3);
  receiver.publish("back", number(1));
  clock.advance(10);
  t.deepEqual([seen, back], [[], []]);
  broker.heal();
  send(3);
  receiver.publish("back", number(2));
  clock.advance(10);
  t.deepEqual([seen, back], [[0, 1, 2], [2]]);
});

test("a cut connection loses frames in flight, and healing restores its subscriptions", async (t) => {
  const { clock, broker, sender, receiver, seen, send } = startPair({ delayMs: [5, 5] });
  const statuses: string[] = [];
  receiver.onStatus((status) => statuses.push(status));
  sender.publish("n", number(41));
  clock.advance(7);
  broker.cut("receiver");
  await t.throwsAsync(receiver.flush(), { instanceOf: TransportLostError });
  await t.throwsAsync(receiver.request("x", number(1), { deadlineMs: 9 }), {
    instanceOf: RequestFailedError,
    message: /not connected/,
  });
  receiver.publish("n", number(40));
  send(2);
  t.deepEqual(seen, []);
  broker.heal();
  clock.advance(100);
  send(2);
  t.deepEqual(
    [seen, statuses],
    [
      [0, 1],
      ["lost", "connected"],
    ],
  );
});

test("a pending request fails when the connection is cut", async (t) => {
  const { clock, broker, sender } = startPair({ delayMs: [1, 1] });
  const [pending, flushed] = [sender.request("n", number(1), { deadlineMs: 1e9 }), sender.flush()];
  clock.advance(1);
  broker.cut("sender");
  const error = await t.throwsAsync(pending, { instanceOf: RequestFailedError });
  t.is(error?.message, "No answer on n: the connection was lost");
  await t.throwsAsync(flushed, { instanceOf: TransportLostError });
});

test("an error that a receiver throws reaches the caller that advances the clock", (t) => {
  const { clock, sender, receiver } = startPair();
  receiver.subscribe("fragile", () => {
    throw new Error("broken receiver");
  });
  clock.advance(1);
  sender.publish("fragile", number(1));
  t.throws(() => clock.advance(1), { message: "broken receiver" });
});
