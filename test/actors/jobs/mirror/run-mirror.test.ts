// The mirror of runs in JetStream, with a real nats-server: it holds every event of the leader's
// runs once and in order, even if the server loses or refuses some.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import type { ExecutionContext } from "ava";
import { lostQueue } from "../../../../actors/cluster/queue-recovery.ts";
import { jetstreamOptions, openMirrorLink } from "../../../../actors/jobs/mirror/mirror-link.ts";
import type { QueueEntry } from "../../../../actors/jobs/mirror/queue-entry.ts";
import { mirroring, RunMirror } from "../../../../actors/jobs/mirror/run-mirror.ts";
import { keptNowhere, Registry } from "../../../../actors/run/state/registry.ts";
import type { RunEvent } from "../../../../actors/run/state/run-events.ts";
import type { RunRecord } from "../../../../actors/run/state/run-record.ts";
import { openNetwork } from "../../../../actors/runtime/network.ts";
import { connect } from "../../../../index.ts";
import { type JobOptions, resolveJob } from "../../../../src/job/job.ts";
import type { Log } from "../../../../src/ports/log.ts";
import { dialNats } from "../../../../src/wire/transports/nats-transport.ts";
import type { JournalEntry } from "../../../../storage/cluster/run-journal.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";
import { startNatsServer } from "../../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../../helpers/needs.ts";
import { until } from "../../../helpers/until.ts";

async function startServer(t: ExecutionContext, flags: readonly string[] = []) {
  const server = await startNatsServer(["-js", "-sd", startDirectory(t), ...flags]);
  t.teardown(() => server.kill());
  return server;
}

/** A leader's registry and its mirror; `former` has the journal entries of the leader before. */
async function startLeader(
  t: ExecutionContext,
  url: string,
  {
    former = [],
    term = 1,
    isWhole = true,
  }: { former?: Iterable<JournalEntry<RunEvent>>; term?: number; isWhole?: boolean } = {},
) {
  const logged: string[] = [];
  const log: Log = {
    write(_level, message, fields) {
      if (fields?.actor === "mirror:0") logged.push(message);
    },
    keep() {},
  };
  const network = await openNetwork({
    connection: { servers: url },
    cluster: "c1",
    faultsAllowed: false,
    log,
    onError: () => {},
  });
  t.teardown(() => network.transport.close());
  const link = await openMirrorLink(network, jetstreamOptions.parse({}), {});
  if (link === undefined) throw new Error("the server has no JetStream");
  t.teardown(() => link.nats.close());
  const keeper = mirroring(keptNowhere, (run) => mirror?.changed(run));
  const state = { isLeading: true, isTelling: true };
  const publish = (event: RunEvent) => {
    if (state.isTelling) mirror?.published(event);
  };
  const registry = new Registry(`r${term}-`, publish, keeper);
  registry.restore([...former], (run) => t.fail(run), isWhole);
  const isLeading = () => state.isLeading;
  const mirror: RunMirror | undefined = new RunMirror(link, { network, registry, term, isLeading });
  t.teardown(() => mirror?.close());
  const copied = () => until("the copies of all events", () => mirror?.report.due === 0);
  return { network, link, registry, mirror, logged, state, copied };
}

function jobIn(directory: string, name: string): JobOptions {
  return { name, model: smallModel, data: smallData, checkpoint: { directory } };
}

/** Starts a run and appends progress events up to step `steps`. */
function live(record: RunRecord, steps: number): void {
  record.status = "running";
  for (let step = 1; step <= steps; step++) {
    const progress = { step, steps, loss: 0.5, samplesPerSecond: 1, repairedIds: [] };
    record.append(1, { type: "run.progress", ...progress });
  }
}

function end(record: RunRecord): void {
  const error = { name: "Error", code: "X", recovery: "stop" as const, message: "over" };
  record.append(1, { type: "run.failed", error });
}

/**
 * The events that any NATS client reads: by an ordered consumer of JetStream, from sequence `from`
 * on.
 */
async function readAll(url: string, subject: string, from = 1): Promise<RunEvent[]> {
  const connection = await dialNats({ servers: url, name: "reader", deadlineMs: 60_000 });
  try {
    const options = {
      filter_subjects: subject,
      opt_start_seq: from,
      deliver_policy: "by_start_sequence",
    } as const;
    const consumer = await jetstream(connection).consumers.get("osiris-events-c1", options);
    const events: RunEvent[] = [];
    const messages = await consumer.fetch({ max_messages: 1000, expires: 1000 });
    for await (const message of messages) {
      events.push(message.json());
      if (message.info.pending === 0) break;
    }
    return events;
  } finally {
    await connection.close();
  }
}

testIf(natsServer).serial(
  "a server that restarts empty receives all events again, each once and in order",
  async (t) => {
    const server = await startServer(t);
    const { url } = server;
    const directory = startDirectory(t);
    const leader = await startLeader(t, url);
    const over = leader.registry.add(resolveJob(jobIn(directory, "over")));
    live(over, 30);
    end(over);
    const runs = leader.registry.add(resolveJob(jobIn(directory, "runs")));
    live(runs, 150); // More events than a round of the mirror.
    await leader.copied();
    const [first, second] = [`osiris.c1.stream.${over.run}`, `osiris.c1.stream.${runs.run}`];
    t.deepEqual(await readAll(url, first), over.since(0));
    t.deepEqual(await readAll(url, second), runs.since(0));
    const late = await readAll(url, second, 100);
    t.true(late.length > 50 && late.length < 151);
    t.deepEqual(late, runs.since(0).slice(-late.length));

    // Events that are not in the journal yet are not in the mirror, either.
    const before = runs.since(0);
    leader.state.isTelling = false;
    live(runs, 2);
    runs.scale(1);
    await leader.copied();
    t.deepEqual(await readAll(url, second), before);
    leader.state.isTelling = true;
    live(runs, 1);
    await leader.copied();
    t.deepEqual(await readAll(url, second), runs.since(0));

    // Another leader with the same journal adds only the missing events.
    leader.state.isLeading = false;
    live(runs, 3);
    const next = await startLeader(t, url, { former: leader.registry.entries(), term: 2 });
    await next.copied();
    t.deepEqual(await readAll(url, second), runs.since(0));
    t.is(next.mirror?.report.events, 3);

    await server.kill();
    const again = await startServer(t, ["-p", new URL(url).port]);
    live(next.registry.get(runs.run) ?? runs, 2);
    const readSecond = () => readAll(again.url, second).catch(() => []);
    await until("159 events", async () => (await readSecond()).length === 159);
    await next.copied();
    t.deepEqual(await readAll(url, first), over.since(0));
    t.deepEqual(await readAll(url, second), next.registry.get(runs.run)?.since(0));
    t.deepEqual(leader.logged, []);

    // Without a leader, our client reads the events from the mirror, too.
    await using client = await connect({ nats: url });
    const past: RunEvent[] = [];
    for await (const event of client.run(over.run).events()) past.push(event);
    t.deepEqual(past, over.since(0));
  },
);

testIf(natsServer).serial(
  "two leaders that both write duplicate no event, and the current one owns the queue",
  async (t) => {
    const { url } = await startServer(t);
    const directory = startDirectory(t);
    const zombie = await startLeader(t, url);
    const record = zombie.registry.add(resolveJob(jobIn(directory, "job")), { key: "k" });
    await zombie.copied();
    const leader = await startLeader(t, url, { former: zombie.registry.entries(), term: 2 });
    const own = leader.registry.get(record.run);
    if (own === undefined) return t.fail();
    for (let round = 0; round < 20; round++) {
      live(record, 2);
      live(own, 2);
      await sleep(10);
    }
    await zombie.copied();
    zombie.state.isLeading = false;
    record.cancel();
    live(own, 1);
    own.scale(1);
    await leader.copied();
    const seqs = (await readAll(url, `osiris.c1.stream.${record.run}`)).map(({ seq }) => seq);
    t.deepEqual(
      seqs,
      [...new Set(seqs)].sort((a, b) => a - b),
    );

    const connection = await dialNats({ servers: url, name: "reader", deadlineMs: 60_000 });
    t.teardown(() => connection.close());
    const bucket = await new Kvm(connection).open("osiris-queue-c1");
    const entry = (await bucket.get(record.run))?.json<QueueEntry>();
    t.like(entry, {
      run: record.run,
      status: "running",
      priority: 0,
      key: "k",
      attempts: 1,
      term: 2,
    });
    t.deepEqual(entry?.requests, [{ devices: 1 }]);
    t.is(entry?.digest.length, 64);
  },
);

testIf(natsServer).serial(
  "a queue that exists only in JetStream is restored once, with the runs that can resume",
  async (t) => {
    const { url } = await startServer(t);
    const directory = startDirectory(t);
    const lost = await startLeader(t, url);
    const add = (name: string) => lost.registry.add(resolveJob(jobIn(join(directory, name), name)));
    const names = ["over", "waits", "cut", "paused"] as const;
    const [over, waits, cut, paused] = names.map(add);
    if (!over || !waits || !cut || !paused) return t.fail();
    end(over);
    paused.pause();
    const saved = { step: 10, digest: "d", best: false, bytes: 1, stallMs: 0, waitedMs: 0 };
    cut.append(1, { type: "run.checkpointed", ...saved });
    await lost.copied();
    lost.state.isLeading = false;

    const { network, link, logged } = await startLeader(t, url, { term: 2 });
    const service = network.transport.subscribe("osiris.c1.jobs.list", ({ reply = "" }) => {
      network.transport.publish(reply, new Uint8Array());
    });
    t.deepEqual(await lostQueue(link, network), []);
    t.regex(logged.join("\n"), /queue of another leader, which answers/);
    service.unsubscribe();
    await network.transport.flush();
    t.deepEqual(await lostQueue({ ...link, queue: "log" }, network), []);
    t.deepEqual(await lostQueue({ ...link, queue: "off" }, network), []);
    const entries = await lostQueue(link, network);
    t.regex(
      logged.join("\n"),
      /have lost their checkpoints and are not restored; submit them again: .*\(cut, step 10\)/,
    );

    const taken = await startLeader(t, url, { former: entries, term: 3, isWhole: false });
    t.deepEqual(
      taken.registry
        .all()
        .map(({ run, job, status, isPauseRequested }) => [run, job.name, status, isPauseRequested]),
      [
        [waits.run, "waits", "queued", false],
        [paused.run, "paused", "queued", true],
      ],
    );
    await taken.copied();
    const events = await readAll(url, `osiris.c1.stream.${waits.run}`);
    t.deepEqual(
      events.map(({ seq, type }) => [seq, type]),
      [
        [0, "run.queued"],
        [1, "run.queued"],
        [1002, "run.renumbered"],
      ],
    );
    t.regex(taken.logged.join("\n"), new RegExp(`which stay there: ${cut.run}$`, "m"));
  },
);

testIf(natsServer).serial(
  "a server that refuses writes is logged and counted, and the mirror retries",
  async (t) => {
    const directory = startDirectory(t);
    const config = join(directory, "refusing.conf");
    const user = (deny: string) => `no_auth_user: u
authorization { users: [ { user: u, password: p, permissions: { publish: { deny: [${deny}] } } } ] }
jetstream { store_dir: "${directory}" }
`;
    writeFileSync(config, user('"$JS.API.STREAM.CREATE.>"'));
    const server = await startNatsServer(["-c", config]);
    t.teardown(() => server.kill());
    const leader = await startLeader(t, server.url);
    const record = leader.registry.add(resolveJob(jobIn(directory, "job")));
    live(record, 5);
    await until("three refusals", () => (leader.mirror?.report.refused ?? 0) > 2);
    t.is(leader.logged.length, 1, leader.logged.join("\n"));
    t.regex(leader.logged[0] ?? "", /refuses the copies of runs; the leader will try again: /);
    t.is(record.since(0).length, 6);

    writeFileSync(config, user('"nothing"'));
    await server.kill();
    const again = await startNatsServer(["-c", config, "-p", new URL(server.url).port]);
    t.teardown(() => again.kill());
    await until("six events", () => leader.mirror?.report.events === 6);
    const accepted = "JetStream accepts the copies of runs again";
    await until("the end of the refusals", () => leader.logged.at(-1) === accepted);
  },
);
