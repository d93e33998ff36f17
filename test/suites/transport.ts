// The conformance suite of the port Transport, for every broker.

import type { ExecutionContext } from "ava";
import {
  FrameTooLargeError,
  InvalidOptionError,
  RequestFailedError,
  TransportLostError,
} from "../../src/errors/errors.ts";
import type { Frame, Transport } from "../../src/wire/messages/transport.ts";

/** A broker under test, and its clients. */
export interface TransportBed extends AsyncDisposable {
  connect(name: string, onError?: (error: unknown) => void): Promise<Transport>;
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (frame: Frame): string => new TextDecoder().decode(frame.payload);

/** Registers the suite for one implementation; each test starts its own bed. */
export function transportSuite(
  test: (title: string, run: (t: ExecutionContext) => Promise<void>) => void,
  name: string,
  start: () => Promise<TransportBed>,
): void {
  const check = (
    title: string,
    body: (t: ExecutionContext, bed: TransportBed) => Promise<void>,
  ) => {
    test(`${name}: ${title}`, async (t) => {
      await using bed = await start();
      await body(t, bed);
    });
  };

  check("a frame arrives with its subject, payload, headers and reply", async (t, bed) => {
    const [sender, receiver] = await Promise.all([bed.connect("a"), bed.connect("b")]);
    const frames: Frame[] = [];
    receiver.subscribe("rows.3", (frame) => frames.push(frame));
    await receiver.flush();
    const payload = bytes("weights");
    const headers = { "content-type": "text/plain", Shard: " 7 " };
    sender.publish("rows.3", payload, { headers, reply: "back.here" });
    payload.fill(0); // The caller may overwrite the payload at once.
    await settle(sender, receiver);
    t.is(frames.length, 1);
    const [frame] = frames;
    if (frame === undefined) return;
    t.is(frame.subject, "rows.3");
    t.is(text(frame), "weights");
    t.is(frame.reply, "back.here");
    t.deepEqual(frame.headers, { "content-type": "text/plain", Shard: "7" });
    await Promise.all([sender.close(), receiver.close()]);
  });

  check("the frames of one sender keep their order", async (t, bed) => {
    const [sender, receiver] = await Promise.all([bed.connect("a"), bed.connect("b")]);
    const seen: string[] = [];
    receiver.subscribe("order.>", (frame) => seen.push(text(frame)));
    await receiver.flush();
    const sent = Array.from({ length: 500 }, (_, index) => String(index));
    for (const one of sent) sender.publish(`order.${Number(one) % 3}`, bytes(one));
    await settle(sender, receiver);
    t.deepEqual(seen, sent);
    await Promise.all([sender.close(), receiver.close()]);
  });

  check("wildcards select one token, or the rest", async (t, bed) => {
    const client = await bed.connect("a");
    const seen: string[] = [];
    const listen = (pattern: string) => {
      client.subscribe(pattern, (frame) => seen.push(`${pattern} ${frame.subject}`));
    };
    for (const pattern of ["a.*.c", "a.>", "*.*", "a.b.c"]) listen(pattern);
    await client.flush();
    for (const subject of ["a.b.c", "a.b", "b.c", "a"]) client.publish(subject, bytes(""));
    await settle(client);
    const expected = ["*.* a.b", "*.* b.c", "a.*.c a.b.c", "a.> a.b", "a.> a.b.c", "a.b.c a.b.c"];
    t.deepEqual(seen.sort(), expected);
    await client.close();
  });

  check(
    "one member of a queue group gets a frame, and all others that asked do",
    async (t, bed) => {
      const client = await bed.connect("a");
      const seen = { first: 0, second: 0, all: 0 };
      client.subscribe("work", () => seen.first++, { queue: "readers" });
      client.subscribe("work", () => seen.second++, { queue: "readers" });
      client.subscribe("work", () => seen.all++);
      await client.flush();
      for (let index = 0; index < 60; index++) client.publish("work", bytes("x"));
      await settle(client);
      t.is(seen.first + seen.second, 60);
      t.true(seen.first > 0 && seen.second > 0);
      t.is(seen.all, 60);
      await client.close();
    },
  );

  check("nothing arrives after unsubscribing", async (t, bed) => {
    const client = await bed.connect("a");
    let seen = 0;
    const subscription = client.subscribe("news", () => seen++);
    client.publish("news", bytes("1"));
    await settle(client);
    subscription.unsubscribe();
    subscription.unsubscribe();
    client.publish("news", bytes("2"));
    await settle(client);
    t.is(seen, 1);
    await client.close();
  });

  check("a request gets the first answer", async (t, bed) => {
    const [asker, answerer] = await Promise.all([bed.connect("a"), bed.connect("b")]);
    answerer.subscribe("echo", (frame) => {
      if (frame.reply === undefined) return;
      answerer.publish(frame.reply, bytes(`${text(frame)}!`), { headers: { from: "b" } });
      answerer.publish(frame.reply, bytes("too late"));
    });
    await answerer.flush();
    const requests = ["one", "two", "three"].map((word) =>
      asker.request("echo", bytes(word), { deadlineMs: 60_000 }),
    );
    const answers = await Promise.all(requests);
    t.deepEqual(answers.map(text), ["one!", "two!", "three!"]);
    t.is(answers[0]?.headers.from, "b");
    await Promise.all([asker.close(), answerer.close()]);
  });

  check("a request fails at once where nobody listens", async (t, bed) => {
    const client = await bed.connect("a");
    const error = await t.throwsAsync(
      client.request("nobody.here", bytes("?"), { deadlineMs: 60_000 }),
      { instanceOf: RequestFailedError },
    );
    t.is(error?.message, "No answer on nobody.here: nobody listens");
    await client.close();
  });

  check("a request fails after its deadline where nobody answers", async (t, bed) => {
    const client = await bed.connect("a");
    client.subscribe("silent", () => undefined);
    const error = await t.throwsAsync(client.request("silent", bytes("?"), { deadlineMs: 30 }), {
      instanceOf: RequestFailedError,
    });
    t.is(error?.message, "No answer on silent: none within 30 ms");
    await client.close();
  });

  check("a payload of one frame is sent as it is, a larger one arrives whole", async (t, bed) => {
    const client = await bed.connect("a");
    const largest = new Uint8Array(client.frameBytesMax).fill(7);
    const larger = Uint8Array.from({ length: 2 * client.frameBytesMax + 5 }, (_, i) => i % 251);
    const seen: Frame[] = [];
    let chunks = 0;
    const onChunk = () => void chunks++;
    client.subscribe("large", (frame) => seen.push(frame), { onChunk });
    client.publish("large", largest);
    client.publish("large", largest, { headers: { a: "b" } }); // Too large with its headers.
    client.publish("large", larger, { reply: "here" });
    await settle(client);
    t.deepEqual(
      seen.map(({ payload, headers }) => [payload.length, headers]),
      [
        [largest.length, {}],
        [largest.length, { a: "b" }],
        [larger.length, {}],
      ],
    );
    t.true(Buffer.from(seen[2]?.payload ?? []).equals(larger));
    t.is(seen[2]?.reply, "here");
    t.is(chunks, 1 + 2); // The last chunk of a payload completes it.
    await client.close();
  });

  check("a request and its answer may both be larger than a frame", async (t, bed) => {
    const [asker, answerer] = await Promise.all([bed.connect("a"), bed.connect("b")]);
    answerer.subscribe("echo", ({ reply, payload, headers }) => {
      if (reply !== undefined) answerer.publish(reply, payload.toReversed(), { headers });
    });
    await answerer.flush();
    const larger = Uint8Array.from({ length: asker.frameBytesMax + 9 }, (_, i) => i % 249);
    const options = { headers: { a: "b" }, deadlineMs: 60_000 };
    const answer = await asker.request("echo", larger, options);
    t.true(Buffer.from(answer.payload).equals(larger.toReversed()));
    t.deepEqual(answer.headers, { a: "b" });
    const error = await t.throwsAsync(asker.request("nobody.here", larger, options));
    t.is(error?.message, "No answer on nobody.here: nobody listens");
    t.throws(() => asker.publish("echo", new Uint8Array(asker.bodyBytesMax + 1)), {
      instanceOf: FrameTooLargeError,
    });
    await Promise.all([asker.close(), answerer.close()]);
  });

  check("subjects and headers that no broker takes are refused here", async (t, bed) => {
    const client = await bed.connect("a");
    const refused = { instanceOf: InvalidOptionError };
    for (const subject of ["", "a b", "a..b", ".a", "a.", "a.*", ">", "a\r\nPING"]) {
      t.throws(() => client.publish(subject, bytes("")), refused, subject);
    }
    for (const pattern of ["", "a.>.b", "a b"]) {
      t.throws(() => client.subscribe(pattern, () => undefined), refused, pattern);
    }
    t.throws(() => client.publish("a", bytes(""), { reply: "b c" }), refused);
    t.throws(() => client.publish("a", bytes(""), { headers: { "a:b": "c" } }), refused);
    t.throws(() => client.publish("a", bytes(""), { headers: { a: "b\r\nc" } }), refused);
    await client.close();
  });

  check("a receiver that throws is reported, and the client reads on", async (t, bed) => {
    const errors: unknown[] = [];
    const client = await bed.connect("a", (error) => errors.push(error));
    const seen: string[] = [];
    client.subscribe("fragile", (frame) => {
      seen.push(text(frame));
      if (text(frame) === "1") throw new Error("broken receiver");
    });
    client.publish("fragile", bytes("1"));
    client.publish("fragile", bytes("2"));
    await settle(client);
    t.deepEqual(seen, ["1", "2"]);
    t.deepEqual(
      errors.map((error) => error instanceof Error && error.message),
      ["broken receiver"],
    );
    await client.close();
  });

  check("what was published before a close arrives", async (t, bed) => {
    const [sender, receiver] = await Promise.all([bed.connect("a"), bed.connect("b")]);
    const seen: string[] = [];
    receiver.subscribe("last", (frame) => seen.push(text(frame)));
    await receiver.flush();
    sender.publish("last", bytes("words"));
    await sender.close();
    await settle(receiver);
    t.deepEqual(seen, ["words"]);
    await receiver.close();
  });

  check("a closed client tells so, once, and refuses what needs a broker", async (t, bed) => {
    const client = await bed.connect("a");
    const told: string[] = [];
    client.onStatus((status) => told.push(status));
    client.onStatus((status) => told.push(status)).unsubscribe();
    await client.close();
    await client.close();
    t.deepEqual(told, ["closed"]);
    t.notThrows(() => client.publish("a", bytes("lost")));
    t.throws(() => client.subscribe("a", () => undefined), { instanceOf: TransportLostError });
    await t.throwsAsync(client.flush(), { instanceOf: TransportLostError });
    await t.throwsAsync(client.request("a", bytes(""), { deadlineMs: 100 }), {
      instanceOf: RequestFailedError,
    });
  });
}

/**
 * Waits until both directions are empty: two rounds, so that answers to frames have arrived, too.
 */
async function settle(...clients: readonly Transport[]): Promise<void> {
  for (let round = 0; round < 2; round++) {
    for (const client of clients) await client.flush();
  }
}
