// The protocol parser with streams cut at any position, and with random bytes.

import test from "ava";
import { type CommandSink, ProtocolParser } from "../../../src/wire/broker/parser.ts";
import { fc } from "../../helpers/properties.ts";

const limits = { controlLineBytesMax: 200, payloadBytesMax: 1000 };

/** The operations that a parser recognised, and the error that stopped it. */
function understood(chunks: readonly Uint8Array[]): unknown[] {
  const told: unknown[] = [];
  const sink: CommandSink = {
    refusalOf: () => undefined,
    connect: (json) => told.push(["connect", json]),
    publish: ({ subject, reply, message, headerBytes }) =>
      told.push(["publish", subject, reply, message.toString("latin1"), headerBytes]),
    subscribe: (...all) => told.push(["subscribe", ...all]),
    unsubscribe: (...all) => told.push(["unsubscribe", ...all]),
    ping: () => told.push(["ping"]),
    pong: () => told.push(["pong"]),
  };
  const parser = new ProtocolParser(sink, limits);
  for (const chunk of chunks) {
    const violation = parser.push(Buffer.from(chunk));
    if (violation !== undefined) told.push(violation);
  }
  return told;
}

/** `bytes`, cut at `places`. */
function cutAt(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const sorted = places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b);
  const cuts = [0, ...sorted, bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

const word = fc.stringMatching(/^[a-z0-9]{1,8}$/);
const payload = fc.uint8Array({ maxLength: 300 });
const command = fc.oneof(
  fc.constant(Buffer.from("PING\r\n")),
  fc.constant(Buffer.from("pong\r\n")),
  fc.constant(Buffer.from('CONNECT {"verbose": false}\r\n')),
  fc.tuple(word, word).map((words) => Buffer.from(`SUB ${words.join(" ")}\r\n`)),
  fc.tuple(word, word, word).map((words) => Buffer.from(`SUB  ${words.join("\t")} \n`)),
  fc.tuple(word, fc.nat(99)).map(([sid, max]) => Buffer.from(`UNSUB ${sid} ${max}\r\n`)),
  fc
    .tuple(word, payload)
    .map(([subject, bytes]) =>
      Buffer.concat([
        Buffer.from(`PUB ${subject} ${bytes.length}\r\n`),
        bytes,
        Buffer.from("\r\n"),
      ]),
    ),
  fc.tuple(word, word, payload).map(([subject, reply, bytes]) => {
    const headers = Buffer.from("NATS/1.0\r\n\r\n");
    const sizes = `${headers.length} ${headers.length + bytes.length}`;
    const line = Buffer.from(`HPUB ${subject} ${reply} ${sizes}\r\n`);
    return Buffer.concat([line, headers, bytes, Buffer.from("\r\n")]);
  }),
);

test("a stream parses to the same commands, however it is cut", (t) => {
  const property = fc.property(
    fc.array(command, { minLength: 1, maxLength: 8 }),
    fc.array(fc.nat(5000), { maxLength: 20 }),
    (commands, places) => {
      const stream = Buffer.concat(commands);
      const whole = understood([stream]);
      t.is(whole.length, commands.length);
      t.deepEqual(understood(cutAt(stream, places)), whole);
    },
  );
  t.notThrows(() => fc.assert(property, { seed: 7, numRuns: 300 }));
});

test("a stream of single bytes parses to the same commands as one piece", (t) => {
  const stream = Buffer.from(
    "SUB a.* q 1\r\nPUB a.b c 3\r\n\r\n!\r\nUNSUB 1 2\r\nPUB e 0\r\n\r\nPING\r\n",
  );
  const bytes = [...stream].map((byte) => Buffer.of(byte));
  t.deepEqual(understood(bytes), understood([stream]));
  t.deepEqual(understood([stream]), [
    ["subscribe", "a.*", "q", "1"],
    ["publish", "a.b", "c", "\r\n!", 0],
    ["unsubscribe", "1", 2],
    ["publish", "e", undefined, "", 0],
    ["ping"],
  ]);
});

test("random bytes never throw, and stop the parser once", (t) => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 400 }),
    fc.tuple(command, fc.nat(400), fc.integer({ min: 0, max: 255 })).map(([bytes, at, value]) => {
      const broken = Buffer.from(bytes);
      broken[at % broken.length] = value;
      return broken;
    }),
  );
  const property = fc.property(fc.array(noise, { maxLength: 6 }), (chunks) => {
    const violations = understood(chunks).filter((one) => typeof one === "string");
    t.true(violations.length <= 1);
  });
  t.notThrows(() => fc.assert(property, { seed: 7, numRuns: 1000 }));
});

test("payloads and lines beyond a limit are refused before they are buffered", (t) => {
  t.deepEqual(understood([Buffer.from("PUB a 1001\r\n")]), ["Maximum Payload Violation"]);
  const line = Buffer.alloc(201, "a");
  t.deepEqual(understood([line]), ["maximum control line exceeded"]);
  t.deepEqual(understood([line.subarray(0, 150), line]), ["maximum control line exceeded"]);
  t.deepEqual(understood([Buffer.from("PUB a 1000\r\n")]), []);
});
