// A lease in a bucket, over HTTP: clusters of one process each, which share nothing else.

import test from "ava";
import { Cluster, startBroker } from "../../../internal.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { startBucketServer } from "../../objects/bucket-server.ts";

/** A leader that closes releases its lease; one that stalls for seconds keeps it. */
const lease = { directory: "s3://bucket/lease", ms: 6000 };

test.serial("a lease and a queue in a bucket pass from one process to the next", async (t) => {
  const { bucket } = await startBucketServer(t);
  await using broker = await startBroker({ auth: { token: "t" } });
  const at = { nats: broker.url, token: "t", devices: 0, minDevices: 2, lease };
  let onStandby = (_: string) => {};
  const standing = new Promise<string>((resolve) => {
    onStandby = resolve;
  });
  await using first = await Cluster.start(at);
  await first.leading;
  await using second = await Cluster.start({ ...at, onStandby });
  await standing;
  const data = { ...smallData, cache: "/nowhere" } as object as typeof smallData;
  const job = { model: smallModel, data, checkpoint: { directory: "/nowhere/run" } };
  const run = await first.submit(job, { key: "one" });
  t.true(bucket.keys.some((key) => key.startsWith("lease/runs/00000001/0001/")));
  // The bucket fails while the second cluster takes over, which repeats its requests.
  const asks = (method: string, key: string) => (request: { method: string; key: string }) =>
    request.method === method && request.key.startsWith(key);
  bucket.fault(asks("GET", "lease/runs/00000001/0001/0"), { kind: "unavailable" }, 40);
  bucket.fault(asks("PUT", "lease/runs/00000002/0001/0"), { kind: "unavailable" }, 4);
  await first.close();
  await second.leading;
  t.deepEqual(
    (await second.list()).map((line) => line.run),
    [run.run],
  );
  t.is((await second.submit(job, { key: "one" })).run, run.run);
  t.true(bucket.keys.includes("lease/runs/00000002/0001/begun"));
});

test.serial("no lease is held in a bucket that lets two writers create one object", async (t) => {
  await startBucketServer(t, { isUnfenced: true });
  await using broker = await startBroker({ auth: { token: "t" } });
  const start = () => Cluster.start({ nats: broker.url, token: "t", devices: 0, lease });
  await t.throwsAsync(start, { code: "STORE_UNFENCED" });
});
