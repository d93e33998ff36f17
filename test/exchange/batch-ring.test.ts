// The ring of batches between readers and devices.

import test from "ava";
import { SizeExceededError } from "../../src/errors/errors.ts";
import { type BatchIntake, createBatchIntake } from "../../src/exchange/batch-intake.ts";
import { type BatchOutlet, createBatchOutlet } from "../../src/exchange/batch-outlet.ts";
import {
  type RingShape,
  ringLayoutOf,
  ringSlots,
  type Stream,
} from "../../src/exchange/batch-ring.ts";
import { createSimulatedCells } from "../../src/exchange/simulated-cells.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { rounds } from "../helpers/thinned.ts";

const shape: RingShape = {
  devices: 3,
  dense: 2,
  features: 2,
  idsRoom: [9, 6, 6],
  isWide: true,
  isWeighted: true,
  slots: ringSlots,
  samplesMax: [3, 2, 2],
};
const cellBase = 5;

function startRing(options: {
  seed: number;
  readers: number;
  local?: { first: number; count: number };
}) {
  const { seed, readers, local = { first: 0, count: shape.devices } } = options;
  const layout = ringLayoutOf(shape);
  const memory = new SharedArrayBuffer(layout.bytes);
  const cells = createSimulatedCells({ cells: cellBase + layout.cells, seed });
  const place = { shape, memory, cellBase, local };
  const ranks = Array.from({ length: readers }, (_, reader) => shape.devices + reader);
  return {
    cells,
    intake: (device: number): BatchIntake =>
      createBatchIntake({ ...place, cells: cells.cellsOf(device), device, readers: ranks }),
    outlet: (reader: number): BatchOutlet =>
      createBatchOutlet({
        ...place,
        cells: cells.cellsOf(shape.devices + reader),
        reader,
        readers,
      }),
  };
}

/** A number that is unique to one stream, ticket and device. */
function mark(stream: Stream, ticket: number, device: number): number {
  return (stream === "training" ? 1 : 2) * 1000 + ticket * 10 + device;
}

/** The number of ids of a batch; every third batch of a device exceeds its slot. */
function idsOf(ticket: number, device: number): number {
  return (ticket + device) % 3 === 0 ? 7 + 5 * (ticket % 4) : 3;
}

/** Fills the slot of a device; with `dies`, the reader dies before it completes the slot. */
function fill(
  outlet: BatchOutlet,
  at: { stream: Stream; device: number; ticket: number; dies: boolean },
): void {
  const { stream, device, ticket } = at;
  const samples = shape.samplesMax[device] ?? 0;
  const value = mark(stream, ticket, device);
  const count = idsOf(ticket, device);
  const died = new Error("The reader died");
  try {
    outlet.fill({ stream, device, ticket, samples, batchSamples: 7 }, (batch) => {
      for (const array of [batch.dense, batch.labels, batch.lengths]) array.fill(value);
      for (let i = 0; i < Math.min(count, batch.ids.length); i++) {
        batch.ids[i] = value + i;
        if (batch.highs !== undefined) batch.highs[i] = -value - i;
        if (batch.weights !== undefined) batch.weights[i] = value + i + 0.5;
      }
      if (at.dies) throw died;
      return count;
    });
  } catch (error) {
    if (error !== died) throw error;
  }
}

const batches = { training: 12, evaluation: 6 };

/** The number of pieces that a reader puts into slots; a batch that fits its slot is one piece. */
function piecesOf(reader: number, readers: number): number {
  let pieces = 0;
  for (const count of Object.values(batches)) {
    for (let ticket = reader; ticket < count; ticket += readers) {
      for (const [device, room] of shape.idsRoom.entries()) {
        pieces += Math.ceil(idsOf(ticket, device) / room);
      }
    }
  }
  return pieces;
}

/**
 * A reader that is killed at random points; each successor starts without the state of its
 * predecessor, and reads a batch again if devices have not taken all of its pieces.
 */
async function serve(
  ring: ReturnType<typeof startRing>,
  reader: number,
  readers: number,
  random: RandomStream,
): Promise<void> {
  let outlet = ring.outlet(reader);
  const devices = Array.from({ length: shape.devices }, (_, device) => device);
  for (let left = piecesOf(reader, readers); left > 0; ) {
    let next: { stream: Stream; ticket: number } | undefined;
    await ring.cells.cellsOf(shape.devices + reader).waitUntil(
      () => `room for reader ${reader}`,
      () => {
        for (const stream of ["evaluation", "training"] as const) {
          const ticket = outlet.nextTicket(stream);
          if (ticket !== undefined) next = { stream, ticket };
        }
        return next !== undefined;
      },
      0,
    );
    if (next === undefined) continue;
    const { stream, ticket } = next;
    const lacking = () => devices.filter((device) => outlet.lacks(stream, device, ticket));
    if (random.below(4) === 0) outlet = ring.outlet(reader);
    const before = lacking().length;
    if (!outlet.goOn(stream, ticket)) {
      for (const device of lacking()) {
        const dies = random.below(4) === 0;
        fill(outlet, { stream, device, ticket, dies });
        if (dies) break;
      }
    }
    left -= before - lacking().length;
  }
}

test("readers that die at any point neither lose nor repeat a batch", async (t) => {
  for (let seed = 0; seed < rounds("seeds of a batch ring", 5, 60); seed++) {
    const readers = 1 + (seed % 2);
    const ring = startRing({ seed, readers });
    const random = new RandomStream(seed, purposes.faults, 1);
    const devices = Array.from({ length: shape.devices }, (_, device) => async () => {
      const intake = ring.intake(device);
      for (const stream of ["training", "evaluation"] as const) {
        if (device === 0) intake.grant(stream, batches[stream]);
        for (let ticket = 0; ticket < batches[stream]; ticket++) {
          const batch = await intake.next(stream);
          const samples = shape.samplesMax[device] ?? 0;
          const value = mark(stream, ticket, device);
          t.is(batch.ticket, ticket);
          t.is(batch.batchSamples, 7);
          t.deepEqual([...batch.labels], new Array<number>(samples).fill(value), `seed ${seed}`);
          const places = Array.from({ length: idsOf(ticket, device) }, (_, i) => value + i);
          t.deepEqual([...batch.ids], places);
          t.is(batch.idCount, places.length);
          t.deepEqual(
            [...(batch.highs ?? [])],
            places.map((id) => -id),
          );
          t.deepEqual(
            [...(batch.weights ?? [])],
            places.map((id) => id + 0.5),
          );
          t.is(batch.dense.length, samples * shape.dense);
          t.is(batch.lengths.length, samples * shape.features);
          intake.release(stream);
        }
      }
    });
    const tasks = Array.from(
      { length: readers },
      (_, reader) => () => serve(ring, reader, readers, random),
    );
    await ring.cells.run([...devices, ...tasks]);
  }
  t.pass();
});

test("a batch with more ids than offsets can number is refused, not wrapped", (t) => {
  const { intake, outlet } = startRing({ seed: 1, readers: 1 });
  intake(0).grant("training", 1);
  const part = { stream: "training", device: 0, ticket: 0, samples: 3, batchSamples: 7 } as const;
  t.throws(() => outlet(0).fill(part, () => 2 ** 31), {
    instanceOf: SizeExceededError,
    message: /2,147,483,648, and at most 2,147,483,647 are possible; lower `data.batchSize`/,
  });
});

test("a reader gets only granted tickets, and runs ahead by at most the ring's slots", (t) => {
  const ring = startRing({ seed: 1, readers: 1 });
  const outlet = ring.outlet(0);
  const intakes = [0, 1, 2].map((device) => ring.intake(device));
  t.is(outlet.nextTicket("training"), undefined);
  intakes[0]?.grant("training", 10);
  const fillAll = (ticket: number) => {
    for (let device = 0; device < shape.devices; device++) {
      fill(outlet, { stream: "training", device, ticket, dies: false });
    }
  };
  for (let ticket = 0; ticket < ringSlots; ticket++) {
    t.is(outlet.nextTicket("training"), ticket);
    fillAll(ticket);
  }
  t.is(outlet.nextTicket("training"), undefined);
  t.is(outlet.nextTicket("evaluation"), undefined);
  intakes[0]?.release("training");
  intakes[1]?.release("training");
  t.is(outlet.nextTicket("training"), undefined, "device 2 still holds batch 0");
  intakes[2]?.release("training");
  t.is(outlet.nextTicket("training"), ringSlots);
});

test("the readers of a host serve only its devices, by the grants of its first device", (t) => {
  const ring = startRing({ seed: 1, readers: 1, local: { first: 1, count: 2 } });
  const outlet = ring.outlet(0);
  t.deepEqual(outlet.devicesOf("training"), [1, 2]);
  for (const device of [0, 2]) ring.intake(device).grant("training", 1);
  t.is(outlet.nextTicket("training"), undefined);
  ring.intake(1).grant("training", 1);
  t.is(outlet.nextTicket("training"), 0);
  for (const device of outlet.devicesOf("training")) {
    fill(outlet, { stream: "training", device, ticket: 0, dies: false });
  }
  t.is(outlet.nextTicket("training"), undefined, "the grant of device 1 is used up");
});

test("two readers share the tickets of a stream", (t) => {
  const ring = startRing({ seed: 1, readers: 2 });
  ring.intake(0).grant("evaluation", 3);
  t.is(ring.outlet(0).nextTicket("evaluation"), 0);
  t.is(ring.outlet(1).nextTicket("evaluation"), 1);
});

test("without high halves of ids and weights, slots are only as large as their ids", (t) => {
  const idsPerSample = 3;
  const slots = 2 * ringSlots;
  const part = 4 * slots * idsPerSample * (3 + 2 + 2);
  const bytesOf = (isWide: boolean, isWeighted: boolean) =>
    ringLayoutOf({ ...shape, isWide, isWeighted }).bytes;
  t.is(bytesOf(true, true) - bytesOf(false, false), 2 * part);
  t.is(bytesOf(true, false) - bytesOf(false, false), part);
  t.is(bytesOf(false, true) - bytesOf(false, false), part);
});

for (const [isWide, isWeighted] of [
  [false, false],
  [false, true],
  [true, false],
  [true, true],
] as const) {
  test(`slots do not overlap: ${isWide ? "" : "no "}high halves, ${isWeighted ? "" : "no "}weights`, (t) => {
    const layout = ringLayoutOf({ ...shape, isWide, isWeighted });
    const spans: { from: number; to: number }[] = [];
    for (const stream of ["training", "evaluation"] as const) {
      for (let device = 0; device < shape.devices; device++) {
        for (let slot = 0; slot < ringSlots; slot++) {
          const at = layout.slot(stream, device, slot);
          t.is(at.ids % 4, 0);
          spans.push({
            from: at.header,
            to: isWeighted ? at.weights + 4 * at.idsRoom : at.weights,
          });
        }
      }
    }
    spans.sort((a, b) => a.from - b.from);
    for (const [i, { to }] of spans.entries()) t.true(to <= (spans[i + 1]?.from ?? layout.bytes));
  });
}
