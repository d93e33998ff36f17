// A run on two hosts while a client with the broker's token sends invalid and repeated messages to
// every actor of the run: each message is answered or counted, and no bit of the model changes. In
// `npm run test:all` the client sends 100,000 messages.

import { connect, headers as emptyHeaders, type NatsConnection } from "nats";
import { jobMethods } from "../../../actors/jobs/job-api.ts";
import { inspectParts } from "../../../actors/observe/inspection.ts";
import { type Cluster, Host, type Incident } from "../../../internal.ts";
import {
  inspectSubject,
  jobsSubject,
  matches,
  subjectPattern,
} from "../../../src/wire/messages/subjects.ts";
import {
  calmResult,
  inEpochs,
  only,
  runJob,
  smallSteps,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { type Forgery, forgeryOf, Overheard, saidAgain } from "../../helpers/nats/forgeries.ts";
import { drawsOf, hostileFrame, oneOf } from "../../helpers/nats/hostile.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { rounds } from "../../helpers/thinned.ts";

/**
 * Epochs with hostile messages, and all epochs: two more, so that the run is alive to the last
 * message.
 */
const disturbed = rounds("epochs under hostile frames", 2, 60);
const epochs = disturbed + 2;
/** Hostile frames at each checkpoint and evaluation; an epoch has seven of these. */
const wave = rounds("hostile frames at each checkpoint", 60, 250);

testIf(testAll).serial(
  "invalid messages to every actor of a run change no bit of its model",
  async (t) => {
    const incidents: Incident[] = [];
    const onIncident = (incident: Incident) => void incidents.push(incident);
    await using place = await startTestCluster(1, { minDevices: 2, faultsAllowed: false });
    const { cluster } = place;
    const { url: servers, token = "" } = cluster;
    await using host = await Host.join({ nats: servers, token, devices: 1, onIncident });
    const client = await connect({ servers, token, noEcho: true });
    const stranger = listenTo(client);
    const job = inEpochs(place.job(), epochs);
    const { result, events } = await runJob(place, job, async (event) => {
      if (event.type !== "run.checkpointed" && event.type !== "run.evaluated") return;
      const { run, generation, step } = event;
      if (step > disturbed * smallSteps) return;
      for (let one = 0; one < wave; one++) stranger.say({ cluster: cluster.name, run, generation });
      await client.flush();
    });
    await settled(cluster, host, client);
    t.is(result.digest, (await calmResult(epochs)).digest, "no bit differs");
    t.is(result.step, smallSteps * epochs);
    t.is(result.generation, 1, "no generation failed");
    t.deepEqual(only(events, "run.incident"), []);

    const all = [...incidents, ...place.incidents];
    const refused = all.filter(({ reason }) => reason.code === "FRAME_CORRUPT");
    t.deepEqual(
      all
        .filter(({ reason }) => reason.code !== "FRAME_CORRUPT")
        .map(({ reason }) => reason.message),
      [],
    );
    const counted = cluster.network.refused.frames + host.network.refused.frames;
    t.is(counted, refused.length, "each reported refusal is counted");
    const { processes } = await cluster.client.inspect();
    t.is(
      processes.reduce((sum, one) => sum + one.refusedFrames, 0),
      counted,
      "an inspection reports the count",
    );

    // Each actor counted at least the invalid messages that it received. The broker answered
    // requests without a receiver.
    const uncounted = stranger.receivedBy(
      (subject) => refused.filter(({ reason }) => reason.message.includes(` ${subject} `)).length,
    );
    t.deepEqual(uncounted, []);
    t.log(`${stranger.told.size} frames: ${counted} counted, ${stranger.answered.size} answered`);
    t.log(`of ${stranger.overheard.names.length} kinds: ${stranger.overheard.names.join(", ")}`);
    t.true(stranger.told.size >= 6 * disturbed * wave);
    for (const role of [
      "coordinator",
      "checkpoint",
      "host",
      "device",
      "writer",
      "bridge",
    ] as const) {
      const pattern = subjectPattern({ role });
      const heard = [...stranger.told.values()].filter(({ subject }) => matches(pattern, subject));
      t.true(heard.length > 20, role);
      t.true(
        refused.some(({ reason }) => reason.message.includes(`.${role}.`)),
        role,
      );
    }
    await client.close();
  },
);

type Place = { readonly cluster: string; readonly run: string; readonly generation: number };

/** A client that receives all messages and sends invalid ones. */
function listenTo(client: NatsConnection) {
  const overheard = new Overheard();
  const forgeries = new Map<number, Forgery>();
  const answered = new Set<number>();
  client.subscribe("osiris.>", {
    callback: (_, { subject, data: payload, headers: given }) => {
      const headers = Object.fromEntries(
        [...(given ?? [])].map(([name, [value]]) => [name, value ?? ""]),
      );
      overheard.hear({ subject, payload, headers });
    },
  });
  client.subscribe("fuzz.*", {
    callback: (_, { subject }) => void answered.add(Number(subject.slice(5))),
  });
  let next = 0;
  return {
    overheard,
    told: forgeries,
    answered,
    say(place: Place): void {
      const index = next++;
      const isRequest = index % 10 === 0;
      const forged = isRequest ? requestOf(index, place) : forgeryOf(index, overheard, place);
      if (forged === undefined) return;
      const headers = emptyHeaders();
      for (const [name, value] of Object.entries(forged.headers)) headers.append(name, value);
      forgeries.set(index, forged);
      client.publish(forged.subject, forged.payload, { headers, reply: `fuzz.${index}` });
    },
    /** Subjects on which more invalid messages arrived than `countOf` returns. */
    receivedBy(countOf: (subject: string) => number): string[] {
      const heard = new Map<string, Forgery[]>();
      for (const [index, forged] of forgeries) {
        if (answered.has(index) || forged.wrong === saidAgain) continue;
        // The inspector listens only while it requests; a message just after that has no receiver.
        if (forged.subject.includes(".inspector.0.")) continue;
        heard.set(forged.subject, [...(heard.get(forged.subject) ?? []), forged]);
      }
      return [...heard].flatMap(([subject, all]) => {
        const kinds = [...new Set(all.map(({ wrong }) => wrong))];
        const counted = countOf(subject);
        return counted < all.length ? [`${subject}: ${all.length} but ${counted}, ${kinds}`] : [];
      });
    },
  };
}

/**
 * A request of a tenant about another tenant's run, or a request of any sender with random content.
 */
function requestOf(index: number, { cluster, run }: Place): Forgery {
  const stream = drawsOf(index);
  const method = oneOf(stream, jobMethods);
  const request = { run, devices: 1, job: {}, since: 0 };
  const own = { headers: {}, payload: Buffer.from(JSON.stringify(request)) };
  const part = oneOf(stream, inspectParts);
  const anything = hostileFrame(stream, request);
  const wrong = "the tenant";
  switch (stream.below(3)) {
    case 0:
      return { ...own, subject: jobsSubject(cluster, method, "other"), wrong };
    case 1:
      return { ...anything, subject: jobsSubject(cluster, method, "other"), wrong };
    default:
      return { ...anything, subject: inspectSubject(cluster, part), wrong };
  }
}

/** Waits until all messages to the cluster and to the host, and their answers, have arrived. */
async function settled(cluster: Cluster, host: Host, client: NatsConnection): Promise<void> {
  await client.flush();
  await cluster.network.transport.flush();
  await host.network.transport.flush();
  await client.flush();
}
