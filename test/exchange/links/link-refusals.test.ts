// What direct links refuse: strangers, other runs and wrong tokens at the hello, and afterwards
// frames that break a rule. Both ends learn why.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import test, { type ExecutionContext } from "ava";
import { LinkUnusableError } from "../../../src/errors/errors.ts";
import type { DirectLinksOptions, LinkAddress } from "../../../src/exchange/links/direct-links.ts";
import {
  type ArrivedFrame,
  type BrokenRule,
  type Ending,
  encodeHeader,
  endings,
  FrameReader,
} from "../../../src/exchange/links/link-frames.ts";
import { takeHello } from "../../../src/exchange/links/link-hello.ts";
import { crc32c, portableCrc32c } from "../../../src/ports/crc32c.ts";
import { fc } from "../../helpers/properties.ts";
import { rounds } from "../../helpers/thinned.ts";
import { until } from "../../helpers/until.ts";
import {
  connectLinks,
  endingOf,
  frameOf,
  type LinkHost,
  place,
  rawSender,
  regionBytes,
  regionOf,
  type Sockets,
  startLinkHosts,
} from "./link-hosts.ts";

const kinds: readonly Sockets[] = ["native", "net"];

async function startPair(sockets: Sockets, change?: (host: number) => Partial<DirectLinksOptions>) {
  const running = await startLinkHosts({
    ...{ sockets: [sockets, sockets], way: "tcp" },
    ...(change !== undefined && { change }),
  });
  const [a, b] = running.hosts as [LinkHost, LinkHost];
  return { a, b, [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
}

const refusesTo = (t: ExecutionContext, dial: Promise<void>, reason: RegExp) =>
  t.throwsAsync(dial, { instanceOf: LinkUnusableError, message: reason });

test.serial(
  "a hello of another run, generation or host, or without the token, is refused",
  async (t) => {
    const cases: readonly [RegExp, Partial<DirectLinksOptions>][] = [
      [/the clusters or the runs differ/, { place: { ...place, run: "r2" } }],
      [/the clusters or the runs differ/, { place: { ...place, cluster: "other" } }],
      [/the generations differ/, { place: { ...place, generation: 4 } }],
      [/the numbers of the hosts do not agree/, { host: 1 }],
    ];
    for (const [reason, own] of cases) {
      await using pair = await startPair("net", (host) => (host === 0 ? own : {}));
      const { a, b } = pair;
      await refusesTo(t, connectLinks(a, b), reason);
      await until("the refusal", () => b.refused.length === 1);
      t.regex(b.refused[0] ?? "", reason);
    }
    await using pair = await startPair("net");
    const { a, b } = pair;
    const token = randomBytes(32);
    const wrong = /the token is not the one that was agreed/;
    await refusesTo(t, a.links.dial(1, b.address, token), wrong);
    b.links.admit(0, token);
    await refusesTo(t, a.links.dial(1, b.address, randomBytes(32)), wrong);
    await a.links.dial(1, b.address, token);
    await refusesTo(t, a.links.dial(1, b.address, token), wrong); // A token opens one connection.
    await until("the refusals", () => b.refused.length === 3);
    for (const reason of b.refused) t.regex(reason, wrong);
  },
);

test.serial(
  "other versions, and a link that only one end encrypts, are named on both ends",
  async (t) => {
    await using pair = await startPair("net");
    const { a, b } = pair;
    const token = randomBytes(32);
    b.links.admit(0, token);
    const dial = (change: Partial<LinkAddress>) =>
      a.links.dial(1, { ...b.address, ...change }, token);
    await refusesTo(
      t,
      dial({ version: 7 }),
      /versions of direct links differ: it has 7, this host 1/,
    );
    await refusesTo(t, dial({ isEncrypted: true }), /only one end encrypts/);
    await until("the refusal", () => b.refused.length === 1);
    t.regex(b.refused[0] ?? "", /only one end encrypts/);
    // Greetings of version 9, as receiver and as dialer.
    const greeting = Buffer.alloc(48);
    greeting.writeUInt32LE(0x474c534f);
    greeting.writeUInt32LE(9, 4);
    const server = createServer((socket) => void socket.on("error", () => {}).write(greeting));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as { port: number };
    await refusesTo(t, dial({ port }), /versions of direct links differ: it has 9, this host 1/);
    server.close();
    const hello = Buffer.from(greeting).fill("OSLH", 0, 4);
    await strange(b, [hello]);
    await until("the refusal", () => b.refused.length === 2);
    t.is(b.refused[1], "the versions of direct links differ: it has 9, this host 1");
  },
);

/** Sends bytes as a stranger, and waits until the host has closed the connection. */
async function strange(to: LinkHost, parts: readonly (Uint8Array | string)[]): Promise<void> {
  const socket = connect(to.address.port, to.address.host);
  socket.on("error", () => undefined).resume();
  const closed = once(socket, "close");
  for (const part of parts) {
    socket.write(part);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  await closed;
}

test.serial(
  "connections that send garbage, HTTP, single bytes or nothing are refused and counted",
  async (t) => {
    await using patient = await startPair("native");
    await using hasty = await startPair("native", () => ({ openMs: 200 }));
    const trickle = Array.from({ length: 20 }, (_, i) => Buffer.from("OSLH").subarray(i, i + 1));
    const [foreign, slow] = [
      "these are not the bytes of a direct link",
      "it did not open within 200 ms",
    ];
    const cases: readonly [LinkHost, string, readonly (Uint8Array | string)[]][] = [
      [patient.b, foreign, [randomBytes(4000)]],
      [patient.b, foreign, ["GET / HTTP/1.1\r\nHost: a\r\n\r\n"]],
      [hasty.b, slow, []],
      [hasty.b, slow, trickle],
    ];
    for (const [i, [host, reason, parts]] of cases.entries()) {
      await strange(host, parts);
      await until("the refusal", () => host.refused.length === (i % 2) + 1);
      t.is(host.refused[i % 2], reason);
    }
    await connectLinks(patient.a, patient.b); // A valid connection is still accepted.
    t.deepEqual(patient.b.lost, []);
  },
);

test.serial("the error names an address that does not answer, with the reason", async (t) => {
  await using pair = await startPair("native");
  await using hasty = await startPair("native", () => ({ openMs: 200 }));
  const { a, b } = pair;
  const token = randomBytes(32);
  const closed = { ...b.address, port: 1 };
  const at = /^Cannot use the direct link to 127.0.0.1:\d+: /;
  const error = await refusesTo(t, a.links.dial(1, closed, token), /ECONNREFUSED/);
  t.regex(error?.message ?? "", at);
  const silent = createServer((socket) => void socket.on("error", () => {}));
  await once(silent.listen(0, "127.0.0.1"), "listening");
  const { port } = silent.address() as { port: number };
  const dial = hasty.a.links.dial(1, { ...b.address, port }, token);
  await refusesTo(t, dial, /did not open within 200 ms/);
  await t.throwsAsync(
    startLinkHosts({
      sockets: ["net"],
      way: "tcp",
      change: () => ({ listen: { address: "127.0.0.1", port, isEncrypted: false } }),
    }),
    { instanceOf: LinkUnusableError, message: /EADDRINUSE/ },
  );
  silent.close();
});

/** A frame as bytes: its payload is `bytes` times 0xab. */
function bytesOf(sequence: number, sizes: readonly number[], change = {}): Buffer {
  const frame = frameOf(0, sequence, sizes, change);
  const payload = Buffer.alloc(
    sizes.reduce((sum, bytes) => sum + bytes, 0),
    0xab,
  );
  return Buffer.concat([
    encodeHeader(frame, { bytes: payload.length, crc: crc32c(payload) }),
    payload,
  ]);
}

/** A copy with one flipped bit. */
function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 16;
  return copy;
}

const empty = { ...frameOf(0, 0, []), missing: [] };
const tooMany = encodeHeader(empty, { bytes: 0, crc: 0 });
tooMany.writeUInt16LE(65, 12);

const hostile: readonly [string, Ending, readonly Buffer[]][] = [
  ["a flipped bit in a header", "header", [flipped(bytesOf(1, [100]), 40)]],
  ["a flipped bit in the length of a payload", "header", [flipped(bytesOf(1, [100]), 6)]],
  ["more pieces than a frame may have", "header", [tooMany]],
  ["a flipped bit in a payload", "payload", [bytesOf(1, [99]), flipped(bytesOf(2, [900]), 500)]],
  ["a route of another host", "misfit", [bytesOf(1, [100], { route: 8 })]],
  ["a piece beyond its region", "misfit", [bytesOf(1, [100], { first: regionBytes - 99 })]],
  ["a piece far beyond its region", "misfit", [bytesOf(1, [100], { first: 2 ** 53 - 64 })]],
  ["a piece longer than its round", "misfit", [bytesOf(1, [100], { total: 99 })]],
  ["a repeated sequence", "order", [bytesOf(4, [9]), bytesOf(4, [9])]],
  ["an earlier sequence", "order", [bytesOf(4, [9]), bytesOf(3, [9])]],
  ["a piece without a sequence", "order", [bytesOf(0, [9])]],
];

for (const kind of kinds) {
  test.serial(
    `${kind}: frames that break a rule end their connection, and change no other byte`,
    async (t) => {
      await using pair = await startPair(kind);
      const { b } = pair;
      for (const [what, ending, chunks] of hostile) {
        const before = { frames: b.arrived.length, lost: b.lost.length };
        const outside = Buffer.from(b.memory).subarray(0, regionOf(0));
        const image = Buffer.from(outside);
        const after = Buffer.from(Buffer.from(b.memory).subarray(regionOf(0) + regionBytes));
        t.is(await endingOf(await rawSender(b), chunks), ending, what);
        await until(what, () => b.lost.length > before.lost);
        t.is(b.lost.at(-1), `0 incoming: ${endings[ending]}`, what);
        t.is(b.arrived.length, before.frames + chunks.length - 1, what);
        t.true(image.equals(outside) && after.equals(Buffer.from(b.memory, regionOf(1))), what);
      }
    },
  );

  test.serial(`${kind}: a receiver reports a flipped bit of a frame to the sender`, async (t) => {
    await using pair = await startPair(kind);
    const { a, b } = pair;
    const token = randomBytes(32);
    b.links.admit(0, token);
    const flip = 128 + 3000; // After the hello, in the first frame.
    const server = createServer((from) => {
      const to = connect(b.address.port, b.address.host);
      let seen = 0;
      from.on("data", (bytes: Buffer) => {
        const at = flip - seen;
        seen += bytes.length;
        to.write(at >= 0 && at < bytes.length ? flipped(bytes, at) : bytes);
      });
      to.on("data", (bytes) => from.write(bytes)).on("end", () => from.end());
      for (const socket of [from, to]) socket.on("error", () => undefined);
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as { port: number };
    await a.links.dial(1, { ...b.address, port }, token);
    a.links.send(1, frameOf(0, 1, [100_000]));
    await until("both ends", () => a.lost.length + b.lost.length === 2);
    t.deepEqual(a.lost, [`1 outgoing: ${endings.payload}`]);
    t.deepEqual(b.lost, [`0 incoming: ${endings.payload}`]);
    t.deepEqual(b.arrived, []);
    server.close();
  });

  test.serial(`${kind}: an end within a frame, or a reset, is a loss on both ends`, async (t) => {
    await using pair = await startPair(kind);
    const { b } = pair;
    const cut = await rawSender(b);
    cut.end(bytesOf(1, [5000]).subarray(0, 3000));
    await until("the end", () => b.lost.length === 1);
    const reset = await rawSender(b);
    reset.write(bytesOf(1, [5000]).subarray(0, 3000));
    await new Promise((resolve) => setTimeout(resolve, 20));
    reset.resetAndDestroy();
    await until("the reset", () => b.lost.length === 2);
    for (const reason of b.lost) t.regex(reason, /^0 incoming: it was cut/);
    t.deepEqual(b.arrived, []);
  });

  test.serial(`${kind}: a host closes even if its peer reads no bytes`, async (t) => {
    await using pair = await startPair(kind);
    const { a } = pair;
    const token = randomBytes(32);
    const sockets: Socket[] = [];
    const server = createServer(async (socket) => {
      sockets.push(socket.on("error", () => undefined));
      const at = { place, isEncrypted: false, host: 1, tokenOf: () => token, use: () => undefined };
      const { answer } = await takeHello(socket, at);
      socket.write(answer); // From here on, reads nothing: the link is half open.
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as { port: number };
    await a.links.dial(1, { ...a.address, port }, token);
    for (let i = 1; i <= 40; i++) a.links.send(1, frameOf(0, i, [regionBytes]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    t.true(a.links.isOpen(1));
    await a.links.close();
    t.deepEqual(a.lost, []);
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

test.serial(
  "both link carriers treat damaged streams of frames as the frame reader does",
  async (t) => {
    await using native = await startPair("native");
    const memory = new SharedArrayBuffer(native.b.memory.byteLength);
    const region = { first: regionOf(0), bytes: regionBytes };
    const damage = fc.record({
      sizes: fc.array(fc.array(fc.nat(3000), { maxLength: 5 }), { minLength: 1, maxLength: 5 }),
      flips: fc.array(fc.nat(30_000), { maxLength: 2 }),
      cut: fc.option(fc.nat(20_000)),
      chunk: fc.integer({ min: 1, max: 9000 }),
    });
    const property = fc.asyncProperty(damage, async ({ sizes, flips, cut, chunk }) => {
      let bytes: Buffer = Buffer.concat(
        sizes.map((of, i) => bytesOf(of.length === 0 ? 0 : i + 1, of)),
      );
      for (const at of flips) if (at < bytes.length) bytes = flipped(bytes, at);
      bytes = bytes.subarray(0, cut ?? bytes.length);
      const chunks: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += chunk) chunks.push(bytes.subarray(at, at + chunk));
      // Reads with the portable carrier, from memory.
      for (const one of [memory, native.b.memory]) Buffer.from(one).fill(0);
      const reader = new FrameReader(memory, new Map([[0, region]]));
      const frames: ArrivedFrame[] = [];
      let expected: Ending = "cut";
      try {
        for (const one of chunks) reader.take(one, frames);
      } catch (error) {
        expected = (error as BrokenRule).ending;
      }
      // Reads with the native carrier, from a socket.
      const { b } = native;
      const [before, lost] = [b.arrived.length, b.lost.length];
      const socket = await rawSender(b);
      const ending = expected === "cut" ? void socket.end(bytes) : await endingOf(socket, chunks);
      await until("the end of the stream", () => b.lost.length > lost);
      if (expected !== "cut") t.is(ending, expected);
      t.is(b.lost.at(-1), `0 incoming: ${endings[expected]}`);
      const arrived = b.arrived.slice(before).map(({ frame }) => {
        const { generation: _, from: __, ...rest } = frame;
        return rest;
      });
      t.deepEqual(arrived, frames);
      const outside = Buffer.from(b.memory);
      const inside = outside.subarray(region.first, region.first + region.bytes);
      if (expected === "cut")
        t.true(inside.equals(Buffer.from(memory, region.first, region.bytes)));
      inside.fill(0);
      t.true(outside.equals(Buffer.alloc(outside.length)));
    });
    await fc.assert(property, { numRuns: rounds("damaged streams", 20, 2000) });
  },
);

test("the addon's checksum equals that of the tables, for any length and alignment", (t) => {
  t.is(portableCrc32c(Buffer.from("123456789")), 0xe3069283); // The check value of the standard.
  t.is(crc32c(Buffer.alloc(32, 0xff)), 0x62a8ab43); // RFC 3720, B.4
  const bytes = randomBytes(20_000);
  for (let i = 0; i < 200; i++) {
    const part = bytes.subarray(i % 9, 100 * i + (i % 7));
    t.is(crc32c(part, i), portableCrc32c(part, i));
  }
});
