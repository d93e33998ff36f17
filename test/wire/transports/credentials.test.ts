// Authentication at a real nats-server: each of its methods, and each refused with wrong
// credentials.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { Cluster, Host } from "../../../index.ts";
import {
  InputUnusableError,
  InvalidOptionError,
  TransportLostError,
} from "../../../src/errors/errors.ts";
import type { Credentials } from "../../../src/wire/transports/credentials.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { startDirectory } from "../../data/data-files.ts";
import { type NatsServer, startNatsServer } from "../../helpers/nats/nats.ts";
import { pem, writeCredentials, writeSeed } from "../../helpers/nats/nats-identities.ts";
import { natsServer, testAll, testIf } from "../../helpers/needs.ts";
import { startCli } from "../../helpers/processes/start-cli.ts";

async function serverOf(t: ExecutionContext, config: string): Promise<NatsServer | undefined> {
  const file = join(startDirectory(t), "server.conf");
  writeFileSync(file, config);
  return startNatsServer(["-c", file]);
}

/**
 * The deadline where the client refuses the server's certificate: it dials again until then.
 */
const dialledMs = 1000;

/** Connects, and returns whether it receives its own message. */
async function speaks(
  servers: string,
  credentials: Credentials,
  deadlineMs = 120_000,
): Promise<boolean> {
  const client = await connectNats({ ...credentials, servers, name: "test", deadlineMs });
  try {
    const heard = new Promise<boolean>((resolve) => client.subscribe("a", () => resolve(true)));
    client.publish("a", new Uint8Array(1));
    return await heard;
  } finally {
    await client.close();
  }
}

const tls = (verify: boolean) => `tls {
  cert_file: "${pem("server")}"
  key_file: "${pem("server-key")}"
  ca_file: "${pem("ca")}"
  verify: ${verify}
}
`;

testIf(natsServer).serial(
  "a user logs in with a password, or with an nkey whose seed stays local",
  async (t) => {
    const { publicKey, file } = writeSeed(startDirectory(t));
    const other = writeSeed(startDirectory(t));
    const users = `{ user: ada, password: s3cret }, { nkey: ${publicKey} }`;
    await using server = (await serverOf(t, `authorization { users: [ ${users} ] }`)) ?? null;
    if (server === null) return;
    t.true(await speaks(server.url, { user: "ada", pass: "s3cret" }));
    t.true(await speaks(server.url.replace("//", "//ada:s3cret@"), {}));
    for (const wrong of [{}, { user: "ada" }, { user: "ada", pass: "s4" }, { token: "s3cret" }]) {
      await t.throwsAsync(speaks(server.url, wrong), { instanceOf: TransportLostError });
    }
    t.true(await speaks(server.url, { nkey: file }));
    await t.throwsAsync(speaks(server.url, { nkey: other.file }), {
      instanceOf: TransportLostError,
      message: /refused the credentials/,
    });
    // A client with TLS options does not fall back to plain text if the server has no TLS.
    await t.throwsAsync(
      speaks(server.url, { user: "ada", pass: "s3cret", tls: { ca: pem("ca") } }, dialledMs),
      {
        instanceOf: TransportLostError,
      },
    );
    await keepsPasswordsToItself(t, server.url);
  },
);

/** Checks that a password in the address appears in no output of `up` and `host`. */
async function keepsPasswordsToItself(t: ExecutionContext, url: string): Promise<void> {
  const at = ["--nats", url.replace("//", "//ada:s3cret@"), "--devices"];
  const up = startCli(["up", ...at, "0"], startDirectory(t));
  t.true((await up.line((line) => line.startsWith("Submit:"))).includes(url));
  const host = startCli(["host", ...at, "1"], startDirectory(t));
  await host.line((line) => line.startsWith("Joined"));
  const running = [host, up];
  for (const one of running) one.kill("SIGKILL");
  for (const { stdout, stderr } of await Promise.all(running.map(({ ended }) => ended))) {
    t.notRegex(stdout + stderr, /s3cret/);
  }
}

testIf(natsServer).serial("a client logs in with the credentials file of a user", async (t) => {
  const { config, file } = writeCredentials(startDirectory(t));
  const other = writeCredentials(startDirectory(t));
  await using server = (await serverOf(t, config)) ?? null;
  if (server === null) return;
  t.true(await speaks(server.url, { creds: file }));
  await t.throwsAsync(speaks(server.url, { creds: other.file }), {
    instanceOf: TransportLostError,
  });
});

testIf(natsServer).serial(
  "TLS: a client connects only if it trusts the server's certificate and name",
  async (t) => {
    await using server = (await serverOf(t, tls(false))) ?? null;
    if (server === null) return;
    t.true(await speaks(server.url, { tls: { ca: pem("ca") } }));
    t.true(await speaks(server.url.replace("tls://", "nats://"), { tls: { ca: pem("ca") } }));
    for (const wrong of [{ tls: {} }, { tls: { ca: pem("other-ca") } }]) {
      await t.throwsAsync(speaks(server.url, wrong, dialledMs), { instanceOf: TransportLostError });
    }
  },
);

testIf(natsServer).serial("mutual TLS: a client without a certificate is refused", async (t) => {
  await using server = (await serverOf(t, tls(true))) ?? null;
  if (server === null) return;
  const [ca, cert, key] = [pem("ca"), pem("client"), pem("client-key")];
  await t.throwsAsync(speaks(server.url, { tls: { ca } }, dialledMs), {
    instanceOf: TransportLostError,
  });
  t.true(await speaks(server.url, { tls: { ca, cert, key } }));
});

testIf(natsServer, testAll).serial(
  "mutual TLS: a cluster of two hosts trains over it",
  async (t) => {
    await using server = (await serverOf(t, tls(true))) ?? null;
    if (server === null) return;
    const [ca, cert, key] = [pem("ca"), pem("client"), pem("client-key")];
    const connection = { nats: server.url, tls: { ca, cert, key } };
    const directory = startDirectory(t);
    await using cluster = await Cluster.start({ ...connection, devices: 1, minDevices: 2 });
    await using host = await Host.join({ ...connection, devices: 1 });
    const table = { rows: 50, dim: 4 };
    const run = await cluster.submit({
      model: {
        kind: "dlrm",
        dense: 2,
        tables: ["A", "B"].map((name) => ({ ...table, name })),
        bottom: [4],
        top: [4, 1],
      },
      data: { kind: "synthetic", samples: 640, dense: 2, batchSize: 64, cache: directory },
      checkpoint: { directory: join(directory, "checkpoints") },
    });
    const { status, step } = await run.result();
    t.like({ status, step, host: await host.joined }, { status: "finished", step: 10, host: 1 });
  },
);

test("invalid credentials are refused before a connection is opened", async (t) => {
  const directory = startDirectory(t);
  const broken = join(directory, "broken");
  writeFileSync(broken, "not a seed\n");
  const refused = async (credentials: Credentials, instanceOf: typeof Error, message: RegExp) => {
    await t.throwsAsync(speaks("nats://127.0.0.1:1", credentials), { instanceOf, message });
  };
  const input = InputUnusableError as unknown as typeof Error;
  await refused({ nkey: broken }, input, /to hold the secret that `nk` or `nsc` wrote/);
  await refused({ creds: broken }, input, /to hold the secret that `nk` or `nsc` wrote/);
  await refused({ creds: join(directory, "none") }, input, /^Cannot read the credentials: ENOENT/);
  await refused({ tls: { ca: join(directory, "none") } }, input, /^Cannot read the credentials/);
  const option = InvalidOptionError as unknown as typeof Error;
  await refused(
    { token: "a", nkey: broken },
    option,
    /`nkey` to be left out where there is `token`/,
  );
  await refused({ tls: { cert: pem("client") } }, option, /both `cert` and `key`, or neither/);
});
