// Time in flight between hosts: measured with the clocks of both ends; overlapping flights count
// once, and flights during waits of devices count separately.

import test from "ava";
import {
  FlightLog,
  flightBytes,
  flightOf,
  openFlightWaits,
  sampledFlights,
} from "../../src/exchange/flights.ts";
import { decodeFrame, encodeFrame, type FrameStamp } from "../../src/exchange/frame.ts";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { openTimeline, readTimeline, timelineBytes } from "../../src/ports/timeline.ts";
import { createStepMeter, meterWords, timesBetween } from "../../src/training/meters/step-meter.ts";

/** A clock that is `aheadMs` ahead of a common one. */
function clockAhead(common: SimulatedClock, aheadMs: number) {
  return {
    now: () => common.now(),
    after: common.after,
    date: () => new Date(0),
    epochMs: () => common.now() + aheadMs,
  };
}

/** A stamp as the receiver of a frame sees it. */
function overTheWire(stamp: FrameStamp): FrameStamp | undefined {
  const place = { generation: 1, from: 0, sequence: 1, ended: 0, seen: 1 };
  const frame = { ...place, missing: [], pieces: [], stamp };
  const pairs = Object.entries(encodeFrame(frame));
  return decodeFrame({
    subject: "s",
    payload: new Uint8Array(0),
    headers: Object.fromEntries(pairs),
  }).stamp;
}

test("flights are timed by the receiver's clock, even if clocks differ by hours", (t) => {
  const common = new SimulatedClock();
  const hours = 1e7 + 0.25;
  const [one, two] = [1.79e12, 1.79e12 - hours].map((ahead, host) => {
    return new FlightLog({ clock: clockAhead(common, ahead), hosts: [1 - host] });
  });
  if (one === undefined || two === undefined) return t.fail();
  const send = (from: FlightLog, to: FlightLog, host: number, delayMs: number) => {
    const stamp = overTheWire(from.stamp(host));
    common.advance(delayMs);
    return to.due(1 - host, stamp);
  };
  for (const delayMs of [3, 2, 7, 2]) {
    send(one, two, 1, delayMs);
    send(two, one, 0, delayMs + 1);
  }
  const dueMs = common.now();
  // The least delays of both directions, 2 and 3 ms, give the difference of the clocks within 1 ms.
  const seen = send(one, two, 1, 10) - (1.79e12 - hours);
  t.true(Math.abs(seen - dueMs) <= 1, `${seen} for ${dueMs}`);
});

test("a wrong time stamp makes no flight time negative", (t) => {
  const clock = new SimulatedClock();
  clock.advance(1000);
  const memory = new SharedArrayBuffer(flightBytes);
  const log = new FlightLog({ clock, hosts: [1], memory });
  const flight = { channel: "pooled", host: 1, route: 0, round: 1, bytes: 8 } as const;
  for (const stamp of [
    { dueMs: 1e13, leastMs: -1e12 },
    { dueMs: 0, leastMs: 1e12 },
    { dueMs: 5e12 },
  ]) {
    log.landed({ ...flight, dueMs: log.due(1, stamp) });
    t.true(sampledFlights(memory)?.every((word) => word >= 0 && word <= 1_000_000));
  }
});

test("overlapping flights of a channel count once", (t) => {
  const random = new RandomStream(5, purposes.fuzz);
  const clock = new SimulatedClock();
  const memory = new SharedArrayBuffer(flightBytes);
  const log = new FlightLog({ clock, hosts: [1], memory });
  const inFlight = new Set<number>();
  for (let i = 0; i < 300; i++) {
    clock.advance(random.below(20));
    const [toMs, ms] = [clock.now(), random.below(12)];
    const dueMs = Math.max(0, toMs - ms);
    for (let at = dueMs; at < toMs; at++) inFlight.add(at);
    log.landed({ channel: "ids", host: 1, route: 0, round: i, bytes: 4, dueMs });
  }
  const sample = sampledFlights(memory) ?? [];
  t.is(sample[flightOf("ids") ?? 0], 1000 * inFlight.size);
  t.is(sample[0], 1000 * inFlight.size);
});

test("a flight during a wait is exposed, the rest of it hidden", async (t) => {
  const clock = new SimulatedClock();
  const memory = new SharedArrayBuffer(flightBytes);
  const log = new FlightLog({ clock, hosts: [1], memory });
  const meters = new BigInt64Array(new SharedArrayBuffer(8 * meterWords));
  const waits = new SharedArrayBuffer(timelineBytes(4));
  const timeline = openTimeline(waits, 0, 4);
  const meter = createStepMeter(meters, clock, { flights: openFlightWaits(memory), timeline });
  const cells = meter.cellsFor("stalePooled", {
    load: () => 0,
    store() {},
    async waitUntil() {
      clock.advance(20);
      log.landed({ channel: "stalePooled", host: 1, route: 0, round: 1, bytes: 8, dueMs: 40 });
      clock.advance(10); // The other device is late: no bytes fly.
    },
  });
  const wait = () =>
    cells.waitUntil(
      () => "",
      () => true,
      1,
    );
  meter.begin(1);
  clock.advance(70); // The device computes; during 30 of the 70 ms, vectors fly.
  await wait();
  meter.end();
  const idle = Array.from({ length: meterWords }, () => 0);
  const devices = [Array.from(meters, Number), idle];
  const to = { devices, reading: [], flights: sampledFlights(memory) };
  const { exchange } = timesBetween([{ from: undefined, to }]) ?? {};
  // The second device never waits: all 50 ms of the flight are hidden from it.
  t.deepEqual(exchange, { exposed: 0.3, inFlight: 0.2, hidden: 0.8, hiddenBy: { pooled: 0.8 } });
  const alone = timesBetween([{ from: undefined, to: { ...to, devices: devices.slice(0, 1) } }]);
  t.is(alone?.exchange, undefined);
  for (let batch = 0; batch < 5; batch++) await wait(); // Waits of an evaluation.
  const noted = readTimeline(waits, 0, 4).map(({ fromMs, toMs }) => [fromMs, toMs]);
  t.deepEqual(noted, [[70, 100]], "the waits of an evaluation do not overwrite those of steps");
});
