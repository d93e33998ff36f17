// The native sender of direct links, to a receiver that reads late: frames wait in the system.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type ArrivedFrame, FrameReader } from "../../../src/exchange/links/link-frames.ts";
import { createNativeCarrier } from "../../../src/exchange/links/native-links.ts";
import { nativeKernels, testIf } from "../../helpers/needs.ts";
import { until } from "../../helpers/until.ts";
import { frameOf, openMs, regionBytes } from "./link-hosts.ts";

testIf(nativeKernels).serial(
  "a frame that is sent without a copy arrives, whatever frames are sent after it",
  async (t) => {
    const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, "connection");
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    await once(socket, "connect");
    const [receiver] = (await accepted) as [Socket];
    const carrier = createNativeCarrier(new SharedArrayBuffer(regionBytes), false);
    const sender = await carrier?.outgoing(socket, { key: undefined, openMs }, () => undefined);
    t.teardown(() => {
      sender?.end();
      carrier?.close();
      receiver.destroy();
      server.close();
    });
    let sent = 0;
    const send = (...sizes: number[]) => {
      sender?.send(frameOf(0, sizes.length === 0 ? 0 : sent + 1, sizes));
      sent++;
    };
    // More than the system buffers, then an acknowledgement before a payload of 64 KiB.
    for (let i = 0; i < 200; i++) send(40_000);
    send(65_537);
    send();
    send(65_536);
    for (let i = 0; i < 100; i++) send(100);
    const memory = new SharedArrayBuffer(regionBytes);
    const reader = new FrameReader(memory, new Map([[0, { first: 0, bytes: regionBytes }]]));
    const whole: ArrivedFrame[] = [];
    let broken: unknown;
    receiver.on("data", (bytes) => {
      try {
        if (broken === undefined) reader.take(bytes, whole);
      } catch (error) {
        broken = error;
      }
    });
    receiver.resume();
    await until("all frames", () => whole.length === sent || broken !== undefined);
    t.is(broken, undefined);
  },
);
