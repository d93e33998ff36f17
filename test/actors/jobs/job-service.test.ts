// The job service as NATS's official client sees it: service discovery finds it, and its answers
// name every error of a request.

import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { connect, type NatsConnection } from "nats";
import {
  Cluster,
  connect as connectTo,
  type JobOptions,
  RemoteError,
  type RunEvent,
} from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { shared } from "../../helpers/clusters/one-for-many.ts";
import { patient } from "../../helpers/nats/nats.ts";

/** No run of this cluster starts: each waits for more devices than the cluster has. */
const onCluster = shared(() => Cluster.start({ devices: 1, minDevices: 2 }));

async function clientOf(cluster: Cluster): Promise<NatsConnection> {
  return connect({
    servers: cluster.url,
    ...(cluster.token === undefined ? {} : { token: cluster.token }),
  });
}

const wrongJob = {
  model: {
    kind: "dlrm",
    dense: -1,
    tables: [{ name: "T", rows: 0, dim: 4 }],
    bottom: "x",
    top: [1],
  },
  data: { kind: "synthetic", samples: 10, batchSize: 10, dense: 2 },
};

onCluster.test(
  "NATS service discovery finds the job service, its endpoints and its request counts",
  async (t, cluster) => {
    const client = await clientOf(cluster);
    const ask = async (subject: string, body?: unknown) =>
      (await client.request(subject, JSON.stringify(body ?? {}), patient)).json<
        Record<string, unknown>
      >();

    const ping = await ask("$SRV.PING");
    t.like(ping, { type: "io.nats.micro.v1.ping_response", name: "osiris-c1" });
    t.regex(String(ping.version), /^\d+\.\d+\.\d+/);
    t.deepEqual(await ask("$SRV.PING.osiris-c1"), ping);
    t.deepEqual(await ask(`$SRV.PING.osiris-c1.${ping.id}`), ping);

    const info = await ask("$SRV.INFO.osiris-c1");
    t.like(info, { type: "io.nats.micro.v1.info_response", id: ping.id });
    const endpoints = info.endpoints as { name: string; subject: string; queue_group: string }[];
    const submit = endpoints.find(({ name }) => name === "submit");
    t.like(submit, { subject: "osiris.c1.jobs.submit", queue_group: "jobs" });

    // Like `nats request osiris.c1.jobs.list ''`.
    for (const nothing of ["osiris.c1.jobs.list", "osiris.c1.inspect.runs"]) {
      t.deepEqual((await client.request(nothing, "", patient)).json(), { runs: [] }, nothing);
    }
    await ask("osiris.c1.jobs.submit", { job: wrongJob });
    const stats = await ask("$SRV.STATS.osiris-c1");
    t.like(stats, { type: "io.nats.micro.v1.stats_response" });
    t.true(Math.abs(Date.parse(String(stats.started)) - Date.now()) < 600_000);
    const counted = stats.endpoints as { name: string; num_requests: number; num_errors: number }[];
    const of = (method: string) => counted.find(({ name }) => name === method);
    t.like(of("list"), { num_requests: 1, num_errors: 0, last_error: "" });
    t.like(of("submit"), { num_requests: 1, num_errors: 1 });
    t.like(of("cancel"), { num_requests: 0, average_processing_time: 0 });
    await client.close();
  },
);

onCluster.test("an invalid job is refused with all its errors at once", async (t, cluster) => {
  const client = await clientOf(cluster);
  const reply = await client.request(
    "osiris.c1.jobs.submit",
    JSON.stringify({ job: wrongJob }),
    patient,
  );
  t.is(reply.headers?.get("Nats-Service-Error-Code"), "400");
  t.regex(reply.headers?.get("Nats-Service-Error") ?? "", /Expected `model\.dense` to be/);
  const { error } = reply.json<{
    error: { code: string; message: string; problems: { option: string; message: string }[] };
  }>();
  t.is(error.code, "INVALID_OPTION");
  const wrong = ["model.dense", "model.tables[0].rows", "model.bottom"];
  t.deepEqual(new Set(error.problems.map(({ option }) => option)), new Set(wrong));
  t.is(error.message, error.problems.map(({ message }) => message).join("; "));
  await client.close();
});

onCluster.test(
  "a second leader of a cluster is refused, with and without a state directory",
  async (t, cluster) => {
    const at = { nats: cluster.url, token: cluster.token ?? "", devices: 1 };
    await t.throwsAsync(Cluster.start(at), { code: "CLUSTER_SERVED" });
    const directory = startDirectory(t);
    await using second = await Cluster.start({ ...at, state: { directory } });
    await t.throwsAsync(second.lost, { code: "CLUSTER_SERVED" });
  },
);

onCluster.test("the schemas of a job and of the requests are published", async (t, cluster) => {
  const client = await clientOf(cluster);
  const reply = await client.request("osiris.c1.jobs.schema", "{}", patient);
  const { version, job, requests, event } = reply.json<{
    version: number;
    event: { oneOf: { properties: { type: { const: string } }; required: string[] }[] };
    job: { required: string[]; properties: Record<string, { default?: unknown }> };
    requests: Record<string, { required?: string[] }>;
  }>();
  t.is(version, 1);
  t.deepEqual(job.required, ["model", "data"]);
  t.is(job.properties.stepDeadlineMs?.default, 30_000);
  t.deepEqual(requests.submit?.required, ["job"]);
  t.deepEqual(requests.status?.required, ["run"]);
  const finished = event.oneOf.find(({ properties }) => properties.type.const === "run.finished");
  t.deepEqual(finished?.required, ["seq", "run", "generation", "type", "result"]);
  await client.close();
});

onCluster.test("a tenant sees and controls its own runs and no others", async (t, cluster) => {
  const at = { nats: cluster.url, ...(cluster.token ? { token: cluster.token } : {}) };
  await using acme = await connectTo({ ...at, tenant: "acme" });
  await using other = await connectTo({ ...at, tenant: "other" });
  await using house = await connectTo(at);
  const job = waitingJob(t);
  const mine = await acme.submit(job, { key: "k" });
  const theirs = await other.submit(job, { key: "k" });
  t.is((await acme.submit(job, { key: "k" })).run, mine.run);
  t.not(mine.run, theirs.run, "each tenant has keys of its own");

  const namesOf = async (client: typeof acme) => (await client.list()).map(({ run }) => run);
  t.deepEqual(await namesOf(acme), [mine.run]);
  t.deepEqual(await namesOf(other), [theirs.run]);
  t.deepEqual(await namesOf(house), [mine.run, theirs.run]);
  const page = await house.request("list", { most: 1 });
  t.like(page, { runs: [{ run: mine.run }], next: mine.run });
  const rest = await house.request("list", { most: 1, after: page.next });
  t.deepEqual([rest.runs.map(({ run }) => run), rest.next], [[theirs.run], undefined]);
  const guessed = await acme.request("list", { after: theirs.run });
  t.is(guessed.runs[0]?.run, mine.run, "the other tenant's run stays hidden");
  t.is((await house.run(theirs.run).status()).tenant, "other");

  const foreign = acme.run(theirs.run);
  const requests = [
    () => foreign.status(),
    () => foreign.cancel(),
    () => foreign.scale({ devices: 1 }),
    () => acme.request("events", { run: theirs.run }),
  ];
  for (const ask of requests) {
    const error = await t.throwsAsync(ask, { instanceOf: RemoteError });
    t.regex(error.message, /^Expected `run` to be the name of a run of this cluster, got /);
  }
  const heard: RunEvent[] = [];
  const following = (async () => {
    for await (const event of mine.events()) heard.push(event);
  })();
  await mine.cancel();
  await following;
  t.is(heard.at(-1)?.type, "run.failed");
  t.is((await other.run(theirs.run).status()).error, undefined);
  await theirs.cancel();
});

onCluster.test(
  "a tenant's name must be valid in a NATS subject and in a broker's configuration",
  async (t, cluster) => {
    const client = await clientOf(cluster);
    const reply = await client.request("osiris.c1.jobs.a$b.list", "{}", patient);
    t.like(reply.json(), { error: { code: "INVALID_OPTION" } });
    await client.close();
  },
);

function waitingJob(t: ExecutionContext): JobOptions {
  const directory = startDirectory(t);
  return {
    model: smallModel,
    data: { ...smallData, cache: join(directory, "cache") },
    checkpoint: { directory: join(directory, "checkpoints") },
  };
}
