// The configuration that `osiris nats-config` writes, in a real nats-server: the subjects that each
// user may publish and subscribe to, and a tenant's job on a cluster of two hosts.

import { realpathSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import test from "ava";
import { createInbox } from "nats";
import { Cluster, connect, Host, type RunEvent } from "../../../index.ts";
import { InvalidOptionError, NotPermittedError } from "../../../src/errors/errors.ts";
import { openNatsMirror } from "../../../src/wire/jetstream/nats-mirror.ts";
import { natsConfig } from "../../../src/wire/tenancy/nats-config.ts";
import { tenantsOf } from "../../../src/wire/tenancy/tenants.ts";
import { userKey } from "../../../src/wire/transports/credentials.ts";
import { connectNats, dialNats } from "../../../src/wire/transports/nats-transport.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { checkNatsConfig, startNatsServer } from "../../helpers/nats/nats.ts";
import { pem } from "../../helpers/nats/nats-identities.ts";
import { startRawClient } from "../../helpers/nats/raw-client.ts";
import { directoryOf, placeOf } from "../../helpers/nats/tenants.ts";
import { leavesOut, natsServer, testIf } from "../../helpers/needs.ts";
import { runCli, runOk } from "../../helpers/processes/cli.ts";

testIf(natsServer)(
  "a cluster of two hosts trains a tenant's job, and no other tenant reads or changes it",
  async (t) => {
    const place = await placeOf(t);
    const { url: nats, as, directory } = place;
    const complaints: string[] = [];
    const onIncident = ({ reason }: { reason: { message: string } }) =>
      complaints.push(reason.message);
    const at = { nats, devices: 1, onIncident };
    await using _root = await Cluster.start({ ...at, ...as.root, minDevices: 2 });
    await using _host = await Host.join({ ...at, ...as.host });
    await using ada = await connect({ nats, ...as.ada, tenant: "acme" });
    await using board = await connect({ nats, ...as.board, tenant: "acme" });
    await using bob = await connect({ nats, ...as.bob, tenant: "other" });
    await using admin = await connect({ nats, ...as.admin });
    const job = (name: string) => ({
      model: smallModel,
      data: { ...smallData, cache: join(directory, "cache") },
      checkpoint: { directory: join(directory, name) },
    });

    const run = await ada.submit(job("first"));
    const events: RunEvent[] = [];
    for await (const event of board.run(run.run).events()) events.push(event);
    t.is(events.at(-1)?.type, "run.finished");
    t.is((await admin.run(run.run).status()).tenant, "acme");
    t.deepEqual(await bob.list(), []);

    // A user with all rights reaches only its own tenant's runs; the right to read includes neither
    // submit nor cancel.
    const long = { ...job("second"), data: { ...job("").data, epochs: 1000 } };
    const mine = await ada.submit(long);
    await t.throwsAsync(bob.run(mine.run).cancel(), { code: "INVALID_OPTION" });
    for (const forbidden of [
      () => board.submit(job("third")),
      () => board.run(mine.run).cancel(),
    ]) {
      await t.throwsAsync(forbidden, { instanceOf: NotPermittedError });
    }
    for await (const { type } of mine.events()) if (type === "run.progress") break;
    await mine.cancel();
    t.is((await mine.result()).status, "cancelled");
    t.deepEqual(complaints, []);
  },
);

testIf(natsServer)(
  "a tenant is determined by its account, and reads and writes only its own directories",
  async (t) => {
    const directory = directoryOf(t);
    const jobsOf = (tenant: string) => ({
      service: { account: "OSIRIS", subject: `osiris.c1.jobs.${tenant}.*` },
    });
    // The configuration of an operator who lets `other` send requests as `acme`.
    const accounts = {
      OSIRIS: {
        users: [{ user: "root", password: "r" }],
        exports: [{ service: "osiris.c1.jobs.*.*" }],
      },
      acme: { users: [{ user: "ada", password: "a" }], imports: [jobsOf("acme")] },
      other: {
        users: [{ user: "bob", password: "b" }],
        imports: [jobsOf("acme"), jobsOf("other")],
      },
    };
    const config = join(directory, "accounts.conf");
    writeFileSync(config, `accounts: ${JSON.stringify(accounts)}\n`);
    await using server = await startNatsServer(["-c", config]);
    const nats = server.url;
    await using _root = await Cluster.start({
      ...{ nats, user: "root", pass: "r", devices: 1, minDevices: 2 },
      tenants: tenantsOf({ acme: { users: {} }, other: { users: {} } }),
      roots: { data: join(directory, "{tenant}"), checkpoints: join(directory, "kept") },
    });
    await using ada = await connect({ nats, user: "ada", pass: "a", tenant: "acme" });
    await using bob = await connect({ nats, user: "bob", pass: "b", tenant: "other" });
    await using posing = await connect({ nats, user: "bob", pass: "b", tenant: "acme" });
    const jobWith = (cache: string) => ({ model: smallModel, data: { ...smallData, cache } });

    const mine = await ada.submit(jobWith(join(directory, "acme", "cache")));
    t.is(
      (await mine.status()).directory,
      join(realpathSync(directory), "kept", "acme", "checkpoints"),
    );
    await bob.submit(jobWith("cache"));
    for (const cache of [join(directory, "acme", "cache"), "../acme/cache"]) {
      await t.throwsAsync(bob.submit(jobWith(cache)), { code: "PATH_FORBIDDEN" });
    }
    await t.throwsAsync(posing.submit(jobWith("cache")), { code: "TENANT_REFUSED" });
    await t.throwsAsync(posing.run(mine.run).cancel(), { code: "TENANT_REFUSED" });

    // Forged headers: the server's header in another spelling, twice, or swallowed.
    const claim = 'Nats-Request-Info: {"acc":"acme"}\r\n';
    const forged = [
      `${claim.toLowerCase()}\r\n`,
      `${claim}${claim}\r\n`,
      ...["x: y", "x: y\r\n", "x: Nats-Request-Info\r\n\r\n", ""],
    ].map((lines) => `NATS/1.0\r\n${lines}`);
    using raw = await startRawClient(Number(new URL(nats).port));
    const login = { user: "bob", pass: "b", headers: true, verbose: false };
    raw.send(`CONNECT ${JSON.stringify(login)}`, "SUB own 1");
    for (const head of [...forged, "NATS/1.0"]) {
      raw.send(`HPUB osiris.c1.jobs.acme.list own ${head.length} ${head.length + 2}`, `${head}{}`);
    }
    raw.send("PUB osiris.c1.jobs.other.status own 2", "{}");
    t.notRegex(await raw.until("INVALID_OPTION"), /"runs"/);
  },
);

testIf(natsServer)(
  "each user publishes and receives only its own subjects; the server refuses the rest",
  async (t) => {
    const place = await placeOf(t);
    const house = await place.dial("root");
    const subjects: string[] = [];
    house.transport.subscribe("osiris.c1.>", ({ subject }) => subjects.push(subject));
    await house.transport.flush();
    const all = {
      device: "osiris.c1.r1.1.device.0.run",
      frames: "osiris.c1.r1.1.frames.0.frame",
      submit: "osiris.c1.jobs.submit",
      acme: "osiris.c1.jobs.acme.submit",
      acmeList: "osiris.c1.jobs.acme.list",
      other: "osiris.c1.jobs.other.submit",
      event: "osiris.c1.runs.acme.r1.events",
      houseEvent: "osiris.c1.runs.r1.events",
    } as const;
    const may = {
      host: ["device", "frames"],
      admin: ["submit", "acme", "acmeList", "other"],
      metrics: [],
      ada: ["acme", "acmeList"],
      board: ["acmeList"],
      bob: ["other"],
    } as const;
    for (const [user, expected] of Object.entries(may)) {
      const { transport, complaints } = await place.dial(user as keyof typeof may);
      subjects.length = 0;
      for (const subject of Object.values(all)) transport.publish(subject, new Uint8Array(1));
      await transport.flush();
      await house.transport.flush();
      t.deepEqual([...new Set(subjects)].sort(), expected.map((name) => all[name]).sort(), user);
      t.is(complaints.length, Object.keys(all).length - expected.length, user);
      await transport.close();
    }
    const hears = {
      host: ["device", "frames"],
      admin: ["event", "houseEvent"],
      metrics: ["event", "houseEvent"],
      ada: ["event"],
      board: ["event"],
      bob: [],
    } as const;
    const root = house.transport;
    for (const [user, expected] of Object.entries(hears)) {
      const { transport } = await place.dial(user as keyof typeof hears);
      const heard: string[] = [];
      for (const subject of [...Object.values(all), "osiris.>", ">"]) {
        transport.subscribe(subject, (frame) => heard.push(frame.subject));
      }
      await transport.flush();
      for (const subject of Object.values(all)) root.publish(subject, new Uint8Array(1));
      await root.flush();
      await transport.flush();
      t.deepEqual([...new Set(heard)].sort(), expected.map((name) => all[name]).sort(), user);
      await transport.close();
    }
  },
);

testIf(natsServer)(
  "a tenant reads its own events from JetStream, and no other tenant's",
  async (t) => {
    const place = await placeOf(t);
    const at = (user: keyof typeof place.as) => {
      return { ...place.as[user], servers: place.url, name: user, deadlineMs: 60_000 };
    };
    const limits = { days: 1, bytes: 2 ** 20, messages: 100, replicas: 1 };
    const opened = { cluster: "c1", limits, timeoutMs: 60_000 };
    const mirror = await openNatsMirror({ ...at("root"), ...opened });
    if (mirror === undefined) return t.fail("the server has no JetStream");
    t.teardown(() => mirror.close());
    t.true(await mirror.openStream("acme", ["ada", "board"]));
    t.true(await mirror.openStream("other", ["bob"]));
    const tell = (subject: string, text: string, after = 0) =>
      mirror.append(subject, new TextEncoder().encode(text), { id: `${subject}/${text}`, after });
    t.is(await tell("osiris.c1.stream.acme.r1", "one"), 1);
    t.is(await tell("osiris.c1.stream.acme.r1", "two", 1), 2);
    t.is(await tell("osiris.c1.stream.other.r2", "secret"), 1);

    const dial = async (user: keyof typeof place.as) => {
      const connection = await dialNats(at(user));
      t.teardown(() => connection.close());
      const ask = async (subject: string, body?: object, timeout = 60_000) => {
        const payload = body === undefined ? "" : JSON.stringify(body);
        return (await connection.request(subject, payload, { timeout })).string();
      };
      return { connection, ask };
    };
    const { ask: ada, connection } = await dial("ada");
    const [api, own] = ["$JS.API", "osiris-events-acme@c1"];
    const second = { seq: 2, next_by_subj: "osiris.c1.stream.acme.r1" };
    t.is(await ada(`${api}.DIRECT.GET.${own}`, second), "two");
    t.is(await ada(`${api}.DIRECT.GET.${own}.osiris.c1.stream.acme.r1`), "two");

    // A user's consumer has its own position; another user has another consumer.
    const next = (user: string) => `${api}.CONSUMER.MSG.NEXT.${own}.${user}`;
    const take = async (by: typeof connection, user: string) => {
      const inbox = createInbox();
      const messages = by.subscribe(inbox, { max: 1, timeout: 60_000 });
      by.publish(next(user), "1", { reply: inbox });
      for await (const message of messages) {
        message.respond("+ACK");
        await by.flush();
        return message.string();
      }
      return undefined;
    };
    t.is(await take(connection, "ada"), "one");
    t.is(await take(connection, "ada"), "two");
    t.is(await take((await dial("board")).connection, "board"), "one");
    const { connection: house } = await dial("root");
    const { consumers } = await jetstreamManager(house);
    t.like(await consumers.info(own, "ada"), { num_ack_pending: 0, num_pending: 0 });

    const theirs = "osiris-events-other@c1";
    const consumer = { stream_name: own, config: { deliver_subject: "osiris.c1.jobs.cancel" } };
    const forbidden = [
      `${api}.DIRECT.GET.${theirs}`,
      `${api}.DIRECT.GET.${theirs}.osiris.c1.stream.other.r2`,
      `${api}.STREAM.INFO.${theirs}`,
      `${api}.CONSUMER.MSG.NEXT.${theirs}.bob`,
      next("board"),
      `${api}.CONSUMER.CREATE.${own}`,
      `${api}.CONSUMER.CREATE.${own}.mine.osiris.c1.stream.acme.r1`,
      `${api}.CONSUMER.DURABLE.CREATE.${own}.mine`,
      `${api}.STREAM.DELETE.${own}`,
      `${api}.STREAM.PURGE.${own}`,
      `${api}.DIRECT.GET.KV_osiris-queue-c1.$KV.osiris-queue-c1.r1`,
      "osiris.c1.stream.acme.r1",
    ];
    for (const subject of forbidden)
      await t.throwsAsync(ada(subject, consumer, 1000), undefined, subject);
    t.is((await mirror.last("acme", "osiris.c1.stream.acme.r1"))?.place, 2);

    // The admin reads all streams, but may not create a consumer, either.
    const { ask: admin } = await dial("admin");
    t.is(await admin(`${api}.DIRECT.GET.${theirs}`, { seq: 1 }), "secret");
    t.is(JSON.parse(await admin(`${api}.STREAM.INFO.${own}`, {})).state.messages, 2);
    await t.throwsAsync(admin(`${api}.CONSUMER.CREATE.${own}`, consumer, 1000));
  },
);

testIf(natsServer)(
  "a tenant's connections and subscriptions are limited, and anonymous clients are refused",
  async (t) => {
    const place = await placeOf(t);
    for (let connections = 0; connections < 2; connections++) await place.dial("ada");
    const { transport, complaints } = await place.dial("ada");
    for (let runs = 0; runs < 1025; runs++) {
      transport.subscribe(`osiris.c1.runs.acme.r${runs}.events`, () => {});
    }
    await transport.flush();
    await transport.flush();
    t.is(complaints.length, 1);
    t.regex(complaints[0] ?? "", /maximum subscriptions exceeded/);
    const message = /no connection within 20000 ms .*its log says why, as a limit of connections/;
    await t.throwsAsync(place.dial("board", 20_000), { message });
    await place.dial("bob");
    const servers = place.url;
    await t.throwsAsync(connectNats({ servers, name: "nobody", deadlineMs: 500 }), {
      code: "TRANSPORT_LOST",
    });
  },
);

test("a rewritten configuration keeps the users' secrets, in files only their owner may read", async (t) => {
  const directory = directoryOf(t);
  const flags = ["nats-config", "--tenants", "tenants.yaml", "--json"];
  const secure = [
    ...["--listen", "0.0.0.0:4222", "--monitor", "127.0.0.1:0", "--jetstream", "store"],
    ...["--tls-cert", pem("server"), "--tls-key", pem("server-key")],
    ...["--tls-ca", pem("ca"), "--tls-verify"],
  ];
  interface Report {
    readonly file: string;
    readonly secrets: readonly { user: string; tenant?: string; file: string }[];
    readonly logins: readonly object[];
    readonly notice?: string;
  }
  const report = async (more: readonly string[]) => {
    const { stdout } = await runOk(t, [...flags, ...more], directory);
    return JSON.parse(stdout) as Report;
  };
  const first = await report(["--listen", "0.0.0.0:4222"]);
  t.regex(first.notice ?? "", /without TLS/);
  const read = (file: string) => statSync(join(directory, file));
  const before = first.secrets.map(({ file }) => read(file).mtimeMs);
  const second = await report(secure);
  t.is(second.notice, undefined);
  t.deepEqual(
    second.secrets.map(({ file }) => read(file).mtimeMs),
    before,
  );
  for (const file of [second.file, ...second.secrets.map((secret) => secret.file)]) {
    t.is(read(file).mode & 0o777, 0o600, file);
  }
  const users = second.secrets.map(({ user, tenant }) => [tenant, user]);
  t.deepEqual(users.slice(4), [
    ["acme", "ada"],
    ["acme", "board"],
  ]);
  t.deepEqual(second.logins, [{ tenant: "other", user: "bob", login: "other.bob" }]);
  if (!leavesOut(t, natsServer))
    t.deepEqual(await checkNatsConfig(join(directory, second.file)), 0);

  writeFileSync(join(directory, "nats", "root.nk"), "nothing\n");
  const broken = await runCli(flags, directory);
  t.is(broken.code, 2);
  t.regex(broken.stderr, /root\.nk to hold the seed of a user's nkey/);
  const half = await runCli(["nats-config", "--tls-cert", pem("server")], directory);
  t.is(half.code, 2);
  t.regex(half.stderr, /Expected `--tls-cert` and `--tls-key`/);
});

test("an invalid file of tenants is refused with all its errors", (t) => {
  const wrong = {
    "a.b": { users: {} },
    acme: { users: { ada: { pass: "short", may: "all" } }, connectionsMax: 0 },
  };
  const error = t.throws(() => tenantsOf(wrong), { instanceOf: InvalidOptionError });
  const at = (option: string) => error.problems.some((problem) => problem.option.includes(option));
  for (const option of ["a.b", "users.ada.pass", "users.ada.may", "connectionsMax"]) {
    t.true(at(option), `${option}: ${error.message}`);
  }
  t.throws(() => tenantsOf({ OSIRIS: { users: {} } }), { message: /named otherwise than OSIRIS/ });
  const both = { pass: "correct-horse", nkey: `U${"A".repeat(55)}` };
  t.throws(() => tenantsOf({ a: { users: { b: both } } }), { message: /left out where .* `pass`/ });
  // Users with which nats-server would refuse the whole configuration at its start.
  const unusable = [{ pass: "correct\u0007horse" }, { nkey: `U${"A".repeat(55)}` }];
  for (const user of unusable) {
    t.throws(() => tenantsOf({ a: { users: { b: user } } }), { instanceOf: InvalidOptionError });
  }
  const { publicKey: nkey } = userKey();
  const twice = { a: { users: { b: { nkey } } }, c: { users: { d: { nkey } } } };
  t.throws(() => tenantsOf(twice), {
    message: /^Expected `tenants\.c\.users\.d\.nkey` to be a key of no other/,
  });
  t.throws(() => natsConfig({ cluster: "*", listen: "", tenants: {}, keyOf: () => "" }), {
    instanceOf: InvalidOptionError,
  });
});

testIf(natsServer)(
  "names of tenants and users that look alike when joined stay distinct",
  async (t) => {
    const pass = "correct-horse";
    const tenants = tenantsOf({
      "a-b": { users: { c: { pass } } },
      a: { users: { "b-c": { pass } } },
    });
    const directory = directoryOf(t);
    const file = join(directory, "nats.conf");
    const keyOf = () => userKey().publicKey;
    writeFileSync(file, natsConfig({ cluster: "c1", listen: "127.0.0.1:-1", tenants, keyOf }));
    t.is(await checkNatsConfig(file), 0);
  },
);
