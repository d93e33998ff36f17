// Payloads in chunks: any order, loss and repetition; bounds on what a receiver holds; and chunks
// of a hostile sender.

import test from "ava";
import { FrameCorruptError, FrameTooLargeError } from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import {
  bodyBytesMax,
  ChunkAssembler,
  chunkHeader,
  chunksOf,
} from "../../../src/wire/messages/chunks.ts";
import type { Frame } from "../../../src/wire/messages/transport.ts";
import { fc } from "../../helpers/properties.ts";

const mib = 1024 * 1024;
const headers = { "content-type": "application/msgpack" };

function framesOf(payload: Uint8Array, frameBytesMax = 512): Frame[] {
  return chunksOf(payload, headers, frameBytesMax).map((chunk) => ({ subject: "s", ...chunk }));
}

function payloadOf(bytes: number, seed = 1): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + seed) % 251);
}

test("chunks in any order, with any repeated, give the payload once a round has arrived", (t) => {
  const drawn = fc.record({
    bytes: fc.integer({ min: 1, max: 5000 }),
    order: fc.infiniteStream(fc.nat()),
  });
  fc.assert(
    fc.property(drawn, ({ bytes, order }) => {
      const payload = payloadOf(bytes);
      const frames = framesOf(payload);
      const left = [...frames, ...frames.slice(0, 2)];
      const assembler = new ChunkAssembler(new SimulatedClock());
      const wholes: Frame[] = [];
      while (left.length > 0) {
        const [frame] = left.splice((order.next().value ?? 0) % left.length, 1);
        const whole = frame && assembler.add(frame, 0);
        if (whole !== undefined) wholes.push(whole);
      }
      const [first] = wholes;
      t.true(first !== undefined && Buffer.from(first.payload).equals(payload));
      t.deepEqual(first?.headers, headers);
    }),
  );
});

test("a lost chunk is filled by the sender's repetition", (t) => {
  const clock = new SimulatedClock();
  const assembler = new ChunkAssembler(clock);
  const frames = framesOf(payloadOf(2000));
  t.true(frames.length > 3);
  for (const frame of frames.slice(1)) t.is(assembler.add(frame, 0), undefined);
  t.deepEqual(assembler.add(frames[0] as Frame, 0)?.payload, payloadOf(2000));
  clock.advance(60_000);
  t.is(assembler.heldBytes, 0);
});

test("each repetition of a request is delivered once, with its own reply subject", (t) => {
  const assembler = new ChunkAssembler(new SimulatedClock());
  const frames = framesOf(payloadOf(2000));
  const round = (reply: string, from: number) =>
    frames.slice(from).flatMap((frame, at) => {
      const isLast = from + at === frames.length - 1; // Only the last frame has the reply subject.
      return assembler.add(isLast ? { ...frame, reply } : frame, 0)?.reply ?? [];
    });
  t.deepEqual(round("inbox.0", 1), []); // The first chunk is lost.
  t.deepEqual(round("inbox.1", 0), ["inbox.0", "inbox.1"]);
  t.deepEqual(round("inbox.2", 0), ["inbox.2"]);
});

test("receivers of one connection, and payloads that differ, do not mix", (t) => {
  const assembler = new ChunkAssembler(new SimulatedClock());
  const [a, b] = [framesOf(payloadOf(900, 1)), framesOf(payloadOf(900, 2))] as const;
  for (const frames of [a, b]) assembler.add(frames[0] as Frame, 0);
  for (const frame of a.slice(1, -1)) assembler.add(frame, 0);
  t.is(assembler.add(a.at(-1) as Frame, 1), undefined);
  t.deepEqual(assembler.add(a.at(-1) as Frame, 0)?.payload, payloadOf(900, 1));
  assembler.forget();
  t.is(assembler.heldBytes, 0);
});

test("a receiver holds a limited number of incomplete payloads, and drops old ones", (t) => {
  const clock = new SimulatedClock();
  const assembler = new ChunkAssembler(clock);
  const bodies = Array.from({ length: 24 }, (_, i) => framesOf(bigOf(i), mib));
  for (const frames of bodies) {
    for (const frame of frames.slice(1)) assembler.add(frame, 0);
    t.true(assembler.heldBytes <= 2 * bodyBytesMax);
  }
  t.true(assembler.heldBytes > bodyBytesMax);
  // The oldest payload was dropped, so its missing chunk starts it again; the newest is complete.
  t.is(assembler.add(bodies[0]?.[0] as Frame, 0), undefined);
  t.is(assembler.add(bodies[23]?.[0] as Frame, 0)?.payload.length, 8 * mib);
  clock.advance(60_000);
  t.is(assembler.heldBytes, 0);
});

/** Eight MiB that differ in their first byte. */
function bigOf(first: number): Uint8Array {
  const payload = new Uint8Array(8 * mib);
  payload[0] = first;
  return payload;
}

test("many incomplete payloads of one byte hold no more memory than the limit", (t) => {
  const assembler = new ChunkAssembler(new SimulatedClock());
  for (let i = 0; i < 40_000; i++) {
    const sha256 = i.toString(16).padStart(64, "0");
    const claim = { [chunkHeader]: `0/1024 1024 ${sha256}` };
    assembler.add({ subject: "s", payload: Uint8Array.of(1), headers: claim }, 0);
  }
  t.true(assembler.heldBytes <= 2 * bodyBytesMax);
});

test("a chunk with an impossible header is refused", (t) => {
  const sha256 = "0".repeat(64);
  const refused = (claim: string, bytes: number) => {
    const frame = {
      subject: "s",
      payload: new Uint8Array(bytes),
      headers: { [chunkHeader]: claim },
    };
    t.throws(() => new ChunkAssembler(new SimulatedClock()).add(frame, 0), {
      instanceOf: FrameCorruptError,
    });
  };
  for (const claim of ["", "0", `0/2 ${sha256}`, `-1/2 10 ${sha256}`, `0/2 10 ${sha256}0`]) {
    refused(claim, 5);
  }
  refused(`0/0 10 ${sha256}`, 10);
  refused(`2/2 10 ${sha256}`, 5);
  refused(`0/2 10 ${sha256}`, 6); // A wrong length for chunk 0 of 2.
  refused(`1/9 10 ${sha256}`, 0);
  refused(`0/2000 4000 ${sha256}`, 2);
  refused(`0/2 ${bodyBytesMax + 2} ${sha256}`, bodyBytesMax / 2 + 1);
  refused(`0/1 5 ${sha256}`, 5); // Not the hash of the bytes.
});

test("a payload beyond the limit is refused before it is sent", (t) => {
  t.throws(() => chunksOf(new Uint8Array(bodyBytesMax + 1), {}, mib), {
    instanceOf: FrameTooLargeError,
    message: /at most 67108864 bytes, got 67108865: split the job's tables/,
  });
  t.throws(() => chunksOf(new Uint8Array(mib), {}, 256), { instanceOf: FrameTooLargeError });
});
