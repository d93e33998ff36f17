// Objects in a bucket of JetStream, with a real nats-server.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { startBroker } from "../../../internal.ts";
import { openNatsObjects } from "../../../src/wire/jetstream/nats-objects.ts";
import { startDirectory } from "../../data/data-files.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { keepsLongObjects, keepsObjects, same, someBytes } from "../../suites/object-store.ts";

async function startServer(t: ExecutionContext) {
  const directory = startDirectory(t);
  let servers = 0;
  const start = (...flags: string[]) =>
    startNatsServer(["-js", "-sd", join(directory, `${servers++}`), ...flags]);
  const server = await start();
  t.teardown(() => server.kill());
  const open = async () => {
    const objects = await openNatsObjects({
      ...{ servers: server.url, name: "test", deadlineMs: 60_000 },
      ...{ bucket: "osiris-lease-test", timeoutMs: 60_000 },
    });
    t.teardown(() => objects.close());
    return objects;
  };
  return { server, start, open };
}

testIf(natsServer)("JetStream stores and returns short and long objects", async (t) => {
  const { open } = await startServer(t);
  await keepsObjects(t, await open());
  await keepsLongObjects(t, await open());
});

testIf(natsServer)(
  "an object in parts is removed with its parts, and its key is free",
  async (t) => {
    const { open } = await startServer(t);
    const objects = await open();
    const long = someBytes(0x18_0000);
    t.true(await objects.create("runs/1", long));
    t.false(await objects.create("runs/1", someBytes(0x18_0000, 2)));
    same(t, await objects.get("runs/1"), long);
    t.deepEqual(await objects.list(""), ["runs/1"]);
    await objects.remove(["runs/1"]);
    t.deepEqual(await objects.list(""), []);
    t.true(await objects.create("runs/1", someBytes(10)));
  },
);

testIf(natsServer)("if a nats-server restarts empty, its bucket is created again", async (t) => {
  const { server, start, open } = await startServer(t);
  const objects = await open();
  await objects.put("a", someBytes(3));
  await server.kill();
  const next = await start("-p", new URL(server.url).port);
  t.teardown(() => next.kill());
  t.is(await objects.get("a"), undefined);
  t.true(await objects.create("a", someBytes(4)));
});

test("objects are refused by a server without JetStream", async (t) => {
  const broker = await startBroker({ auth: { token: "t" } });
  t.teardown(() => broker.close());
  const options = { servers: broker.url, token: "t", name: "test", deadlineMs: 60_000 };
  await t.throwsAsync(openNatsObjects({ ...options, bucket: "b", timeoutMs: 60_000 }), {
    code: "INPUT_UNUSABLE",
    message: /has no JetStream: start it with `-js`$/,
  });
});
