// The checksum of frames. Without it, one bit of a `device.reached` that flips in the broker
// changes a loss in the run's history, unnoticed.

import test from "ava";
import { FrameCorruptError } from "../../../internal.ts";
import { startBroker } from "../../../src/wire/broker/broker.ts";
import {
  checksumHeader,
  withChecksum,
  withoutChecksum,
} from "../../../src/wire/messages/checksum.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";

const subject = "a.b";
const payload = Buffer.from("a row of weights");

test("adding and checking a checksum leaves a frame's headers unchanged", (t) => {
  const headers = { "osiris-frame": "7 1 3" };
  const sealed = withChecksum(payload, headers);
  t.deepEqual(withoutChecksum({ subject, payload, headers: sealed }), headers);
  t.deepEqual(withoutChecksum({ subject, payload, headers }), headers, "foreign clients have none");
});

test("a header that the server adds about the requester does not invalidate the checksum", (t) => {
  const headers = { "content-type": "application/json" };
  const sealed = { ...withChecksum(payload, headers), "Nats-Request-Info": '{"acc":"acme"}' };
  t.like(withoutChecksum({ subject, payload, headers: sealed }), headers);
});

test("a flip of any bit of the payload or a header is detected", (t) => {
  const headers = withChecksum(payload, { "osiris-frame": "7 1 3" });
  for (let bit = 0; bit < 8 * payload.length; bit++) {
    const wrong = Buffer.from(payload);
    wrong.writeUInt8(wrong.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    t.throws(() => withoutChecksum({ subject, payload: wrong, headers }), {
      instanceOf: FrameCorruptError,
    });
  }
  const other = { ...headers, "osiris-frame": "7 1 2" };
  t.throws(() => withoutChecksum({ subject, payload, headers: other }));
  t.throws(() =>
    withoutChecksum({ subject, payload, headers: { ...headers, [checksumHeader]: "" } }),
  );
});

test("a frame that the broker has damaged is dropped and reported", async (t) => {
  let isBad = true;
  await using broker = await startBroker({
    auth: "open",
    intercept: () => (isBad ? "corrupt" : "deliver"),
  });
  const errors: unknown[] = [];
  const options = { servers: broker.url, deadlineMs: 60_000 };
  const onError = (error: unknown) => errors.push(error);
  const receiver = await connectNats({ ...options, name: "receiver", onError });
  const sender = await connectNats({ ...options, name: "sender" });
  const heard: string[] = [];
  receiver.subscribe(subject, (frame) => heard.push(Buffer.from(frame.payload).toString()));
  await receiver.flush();
  sender.publish(subject, Buffer.from("one"));
  await sender.flush();
  isBad = false;
  sender.publish(subject, Buffer.from("two"));
  await sender.flush();
  await receiver.flush();
  t.deepEqual(heard, ["two"]);
  t.like(errors, [{ code: "FRAME_CORRUPT" }]);
  await Promise.all([sender.close(), receiver.close()]);
});

test("a frame that the broker reorders is overtaken by the next one, and not lost", async (t) => {
  let frames = 0;
  await using broker = await startBroker({
    auth: "open",
    intercept: () => (frames++ === 0 ? "reorder" : "deliver"),
  });
  const options = { servers: broker.url, deadlineMs: 60_000 };
  const client = await connectNats({ ...options, name: "client" });
  const heard: string[] = [];
  client.subscribe(subject, (frame) => heard.push(Buffer.from(frame.payload).toString()));
  for (const text of ["one", "two", "three"]) client.publish(subject, Buffer.from(text));
  await client.flush();
  await client.flush();
  t.deepEqual(heard, ["two", "one", "three"]);
  await client.close();
});
