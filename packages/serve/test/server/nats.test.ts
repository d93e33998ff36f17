// Served models over NATS: requests in both encodings, service discovery, refusals, and a broker
// that dies.

import { decode, encode } from "@msgpack/msgpack";
import test from "ava";
import { connect, type Msg } from "nats";
import { startBroker } from "../../../../src/wire/broker/broker.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";
import { patient } from "../../../../test/helpers/nats/nats.ts";
import { until } from "../../../../test/helpers/until.ts";

test.serial("a model is discovered and queried over NATS, and survives its broker", async (t) => {
  const model = await startModel(t);
  let broker = await startBroker({ auth: "open" });
  const { port } = broker;
  t.teardown(() => broker.close());
  const options = { models: { m: { path: model.directory } }, nats: { url: broker.url } };
  const { server, post } = await startServer(t, { ...options, requestSamples: 10 });
  const endless = { reconnectTimeWait: 50, maxReconnectAttempts: -1 };
  const client = await connect({ servers: broker.url, ...endless });
  t.teardown(() => void client.close());
  const instances = recordsOf(2);
  const expected = [...(await server.predict("m", instances)).scores];

  const json = await client.request(
    "osiris.serve.m.predict",
    JSON.stringify({ instances }),
    patient,
  );
  t.like(json.json(), { predictions: expected, version: server.versions.m?.digest });
  const packed = await client.request("osiris.serve.m.predict", encode({ instances }), patient);
  t.deepEqual((decode(packed.data) as { predictions: number[] }).predictions, expected);
  const body = JSON.stringify({ user: { I1: 1 }, candidates: [{ A: 1 }, { A: 2 }], top: 1 });
  const ranked = await client.request("osiris.serve.m.rank", body, patient);
  t.is(ranked.json<{ ranked: unknown[] }>().ranked.length, 1);

  const refusals: [string, string, string][] = [
    ["{", "FRAME_CORRUPT", "400"],
    [JSON.stringify({ instances: [{ a: 1 }] }), "INVALID_OPTION", "400"],
    [JSON.stringify({ instances: recordsOf(11) }), "REQUEST_TOO_LARGE", "413"],
    [JSON.stringify([]), "REQUEST_UNUSABLE", "400"],
  ];
  for (const [wrong, code, status] of refusals) {
    const refused = await client.request("osiris.serve.m.predict", wrong, patient);
    t.is(refused.json<{ error: { code: string } }>().error.code, code);
    t.is(refused.headers?.get("Nats-Service-Error-Code"), status);
  }
  const found = await client.request("$SRV.INFO.osiris-serve", "", patient);
  const { endpoints } = found.json<{ endpoints: { subject: string; queue_group: string }[] }>();
  t.deepEqual(
    endpoints.map(({ subject }) => subject),
    ["osiris.serve.m.predict", "osiris.serve.m.rank"],
  );

  await broker.close();
  t.is((await post("/v1/models/m:predict", { instances })).status, 200);
  broker = await startBroker({ auth: "open", port });
  // Until the server has reconnected, the broker refuses each request at once, and a request that
  // the client sends before it has reconnected itself is lost.
  let answer: Msg | undefined;
  await until("an answer over the new broker", async () => {
    const request = JSON.stringify({ instances });
    answer = await client
      .request("osiris.serve.m.predict", request, { timeout: 1000 })
      .catch(() => undefined);
    return answer !== undefined;
  });
  t.deepEqual(answer?.json<{ predictions: number[] }>().predictions, expected);
});
