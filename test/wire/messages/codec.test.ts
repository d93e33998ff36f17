// Encoding of messages and bodies: round trips, and refusals.

import { encode } from "@msgpack/msgpack";
import test from "ava";
import { z } from "zod";
import { FrameCorruptError } from "../../../src/errors/errors.ts";
import {
  contentTypeOf,
  decodeBody,
  decodeValue,
  encodeBody,
  encodeValue,
} from "../../../src/wire/messages/body.ts";
import { bodyBytesMax } from "../../../src/wire/messages/chunks.ts";
import { defineMessages, type MessageOf } from "../../../src/wire/messages/codec.ts";
import { fc } from "../../helpers/properties.ts";

const catalogue = defineMessages({
  "device.grant": z.object({ fromStep: z.int().min(0), toStep: z.int() }),
  "device.failed": z.object({ reason: z.string(), retry: z.boolean().default(false) }),
});

const grant = {
  type: "device.grant",
  run: "r7",
  generation: 4,
  from: "coordinator:0",
  body: { fromStep: 0, toStep: 200 },
} as const;

const frame = (payload: Uint8Array) => ({ subject: "osiris.test", payload, headers: {} });

test("a message survives a round trip, and its type determines the type of its body", (t) => {
  const message = catalogue.decode(frame(catalogue.encode(grant)));
  t.deepEqual(message, grant);
  const lastStep = (one: MessageOf<typeof catalogue.schemas>): number =>
    one.type === "device.grant" ? one.body.toStep : one.body.reason.length;
  t.is(lastStep(message), 200);
});

test("the receiver fills in the defaults of a message body", (t) => {
  const body = { reason: "gone" };
  const message = catalogue.decode(
    frame(catalogue.encode({ ...grant, type: "device.failed", body })),
  );
  t.deepEqual(message.body, { reason: "gone", retry: false });
});

for (const [title, payload, reason] of [
  ["no bytes", new Uint8Array(), /ends too early/],
  ["no list", encode({ a: 1 }), /not an envelope/],
  ["another version", encode([2, "device.grant", "r", 1, "a:0", {}]), /expected version 1.*got 2/],
  ["a version that is no number", encode([{ toString: 1 }]), /got a object/],
  ["an unknown type", encode([1, "device.sing", "r", 1, "a:0", {}]), /no message `device.sing`/],
  ["a type of Object", encode([1, "constructor", "r", 1, "a:0", {}]), /no message `constructor`/],
  ["a bad generation", encode([1, "device.grant", "r", -1, "a:0", {}]), /the envelope at 2/],
  ["a bad body", encode([1, "device.grant", "r", 1, "a:0", { fromStep: "x" }]), /at fromStep/],
  ["too many entries", encode([1, "device.grant", "r", 1, "a:0", {}, 7]), /the envelope/],
  ["bytes behind it", Buffer.concat([encode([1]), Buffer.of(0)]), /bytes follow/],
  ["a byte that means nothing", Buffer.of(0xc1), /not msgpack/],
  ["too many bytes", new Uint8Array(bodyBytesMax + 1), /at most 67108864 bytes/],
  ["a claim of 4 billion entries", Buffer.of(0xdd, 255, 255, 255, 255), /ends too early/],
  ["a claim of 2 billion pairs", Buffer.of(0xdf, 127, 255, 255, 255, 1), /ends too early/],
  ["a string that ends early", Buffer.of(0xdb, 0, 0, 1, 0, 65), /ends too early/],
  ["lists within lists", Buffer.alloc(1000, 0x91), /deeper than 32/],
] as const) {
  test(`a frame with ${title} is refused with its subject and the reason`, (t) => {
    const error = t.throws(() => catalogue.decode(frame(payload)), {
      instanceOf: FrameCorruptError,
    });
    t.regex(error?.message ?? "", reason);
    t.true(error?.message.startsWith("A frame on osiris.test is not a message: "));
  });
}

test("a 64-bit integer in a body keeps all its digits, in JSON and in msgpack", (t) => {
  const body = { ids: [1474671338756698595n, 7], list: { at: 1_717_113_607_000 }, b: -(2n ** 63n) };
  const json =
    '{"ids":[1474671338756698595,7],"list":{"at":1717113607000},"b":-9223372036854775808}';
  t.deepEqual(decodeBody(frame(Buffer.from(json))), body);
  t.deepEqual(decodeBody(frame(encode(body, { useBigInt64: true }))), body);
  t.deepEqual(decodeBody(frame(encode({ at: 2 ** 40, bytes: Uint8Array.of(1) }))), {
    ...{ at: 2 ** 40, bytes: Uint8Array.of(1) },
  });
});

test("random bytes decode to a message or throw FrameCorruptError, nothing else", (t) => {
  const property = fc.property(fc.uint8Array({ maxLength: 200 }), (payload) => {
    try {
      decodeValue("fuzz", payload);
    } catch (error) {
      t.true(error instanceof FrameCorruptError);
    }
  });
  t.notThrows(() => fc.assert(property, { seed: 7, numRuns: 2000 }));
});

test("everything that msgpack encodes passes the check before decoding", (t) => {
  const leaf = fc.oneof(
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.string({ maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }),
    fc.date({ noInvalidDate: true }),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      leaf,
      // Small sizes: full lists within full lists would have 20^4 values.
      fc.array(tie("value"), { maxLength: 20, size: "small" }),
      fc.dictionary(
        fc.string({ minLength: 1 }).map((key) => `k${key}`),
        tie("value"),
        {
          maxKeys: 20,
          size: "small",
          noNullPrototype: true,
        },
      ),
    ),
  }));
  const property = fc.property(value, (one) => {
    const bytes = encodeValue(one);
    t.deepEqual(encodeValue(decodeValue("fuzz", bytes)), bytes);
  });
  t.notThrows(() => fc.assert(property, { seed: 7, numRuns: 300 }));
});

test("long lists, strings and byte strings survive a round trip", (t) => {
  for (const length of [15, 16, 255, 256, 65_535, 65_536]) {
    const value = {
      list: new Array(length).fill(1),
      text: "x".repeat(length),
      bytes: new Uint8Array(length),
      map: Object.fromEntries(new Array(length).fill(0).map((_, key) => [`${key}`, 1])),
    };
    const back = decodeValue("long", encodeValue(value));
    t.true(Buffer.from(encodeValue(back)).equals(encodeValue(value)), `${length}`);
  }
});

test("a body is decoded as JSON or msgpack, by its header or else its first byte", (t) => {
  const value = { run: "r7", steps: [1, 2], name: "ü" };
  for (const contentType of ["application/json", "application/msgpack"] as const) {
    const { payload, headers } = encodeBody(value, contentType);
    const whole = { subject: "jobs", payload, headers };
    t.is(contentTypeOf(whole), contentType);
    t.deepEqual(decodeBody(whole), value);
    t.deepEqual(decodeBody({ ...whole, headers: {} }), value, "without a header");
  }
  const text = Buffer.from("7");
  const headers = { "Content-Type": "Application/JSON; charset=utf-8" };
  t.is(decodeBody({ subject: "jobs", payload: text, headers }), 7);
  for (const shown of ["7", " 7", "\n7\n"]) t.is(decodeBody(frame(Buffer.from(shown))), 7, shown);
});

test("JSON that is broken, not UTF-8 or too deep is refused", (t) => {
  for (const payload of [
    Buffer.from("{"),
    Buffer.from([0x7b, 0xff]),
    Buffer.from("[".repeat(40) + "]".repeat(40)),
    Buffer.from(`[${" ".repeat(bodyBytesMax)}]`),
  ]) {
    t.throws(() => decodeBody(frame(payload)), { instanceOf: FrameCorruptError });
  }
});
