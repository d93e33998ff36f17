// Credentials of a store's client: each source, with servers of this test in place of the machine's
// metadata, of STS and of a container's agent; renewal before and after they expire.

import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { CredentialChain } from "../../src/objects/credentials.ts";
import { siteOf } from "../../src/objects/environment.ts";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { startDirectory } from "../data/data-files.ts";
import { setEnvironment } from "../helpers/environment.ts";
import { same } from "../suites/object-store.ts";
import { quickLimits, startBucketServer } from "./bucket-server.ts";

/** A request that a source's server got. */
interface Got {
  readonly line: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

type Answer = readonly [status: number, body: string];

/** Serves a source of credentials; returns its address, and the list of its requests. */
async function startSource(t: ExecutionContext, answer: (got: Got) => Answer) {
  const asked: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const { method, url, headers } = incoming;
      const line = `${method} ${url}`;
      asked.push(line);
      const [status, body] = answer({ line, headers, body: Buffer.concat(chunks).toString() });
      outgoing.writeHead(status).end(body);
    });
  });
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function startHome(t: ExecutionContext): string {
  const home = startDirectory(t);
  mkdirSync(join(home, ".aws"));
  return home;
}

const keysInJson = (id: string, until: number) =>
  JSON.stringify({
    ...{ AccessKeyId: id, SecretAccessKey: "secret", Token: "token" },
    Expiration: new Date(until).toISOString(),
  });

const minute = 60_000;
const hour = 60 * minute;

test("keys of the environment come first, then those of the profile that is named", async (t) => {
  const home = startHome(t);
  writeFileSync(
    join(home, ".aws", "credentials"),
    "# keys\n[default]\naws_access_key_id = ONE\naws_secret_access_key=1\n\n" +
      "[work]\naws_access_key_id=TWO\naws_secret_access_key = 2\naws_session_token = T\n",
  );
  const config = "[default]\nregion = eu-west-1\n[profile work]\nendpoint_url = http://ceph:8080\n";
  writeFileSync(join(home, ".aws", "config"), config);
  const HOME = home;
  const idOf = async (env: object) => await new CredentialChain({ HOME, ...env }).current();
  t.like(await idOf({}), { accessKeyId: "ONE", source: "a profile of ~/.aws" });
  const AWS_PROFILE = "work";
  t.like(await idOf({ AWS_PROFILE }), { accessKeyId: "TWO", sessionToken: "T" });
  const named = { AWS_ACCESS_KEY_ID: "THREE", AWS_SECRET_ACCESS_KEY: "3" };
  t.like(await idOf({ AWS_PROFILE, ...named }), { accessKeyId: "THREE", sessionToken: undefined });
  t.deepEqual(siteOf({ HOME }), { region: "eu-west-1", endpoint: undefined });
  t.deepEqual(siteOf({ HOME, AWS_PROFILE }), { region: "us-east-1", endpoint: "http://ceph:8080" });
  const other = {
    AWS_REGION: "auto",
    AWS_ENDPOINT_URL: "http://a",
    AWS_ENDPOINT_URL_S3: "http://b",
  };
  t.deepEqual(siteOf({ HOME, AWS_PROFILE, ...other }), { region: "auto", endpoint: "http://b" });
  const empty = { AWS_REGION: "", AWS_ENDPOINT_URL_S3: "", AWS_ENDPOINT_URL: "http://c" };
  t.deepEqual(siteOf({ HOME, ...empty }), { region: "eu-west-1", endpoint: "http://c" }, "not set");
});

test("keys of a machine's role come from IMDSv2, and again before they expire", async (t) => {
  const clock = new SimulatedClock();
  let keys = 0;
  const source = await startSource(t, ({ line, headers }) => {
    if (line === "PUT /latest/api/token") {
      const isAsked = headers["x-aws-ec2-metadata-token-ttl-seconds"] === "21600";
      return isAsked ? [200, "session"] : [400, ""];
    }
    if (headers["x-aws-ec2-metadata-token"] !== "session") return [401, ""];
    if (line.endsWith("/security-credentials/")) return [200, "trainer\n"];
    return [200, keysInJson(`KEY-${++keys}`, clock.date().getTime() + 2 * hour)];
  });
  const env = { HOME: startHome(t), AWS_EC2_METADATA_SERVICE_ENDPOINT: source.url };
  const chain = new CredentialChain(env, clock);
  const all = await Promise.all([chain.current(), chain.current(), chain.current()]);
  t.deepEqual(
    all.map((one) => one?.accessKeyId),
    ["KEY-1", "KEY-1", "KEY-1"],
  );
  t.is(source.asked.length, 3, "concurrent calls share one lookup, of three requests");
  t.is(source.asked.at(-1), "GET /latest/meta-data/iam/security-credentials/trainer");
  clock.advance(hour + 54 * minute);
  t.is((await chain.current())?.accessKeyId, "KEY-1");
  clock.advance(2 * minute);
  t.is((await chain.current())?.accessKeyId, "KEY-2", "renewed five minutes early");
});

test("keys are used until they expire, even if their source fails", async (t) => {
  const clock = new SimulatedClock();
  let isDown = false;
  const source = await startSource(t, ({ headers }) => {
    if (headers.authorization !== "pod") return [401, ""];
    return isDown ? [500, ""] : [200, keysInJson("KEY", clock.date().getTime() + hour)];
  });
  const file = join(startHome(t), "token");
  writeFileSync(file, "pod\n");
  const env = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${source.url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    HOME: startHome(t),
  };
  const chain = new CredentialChain(env, clock);
  t.is((await chain.current())?.accessKeyId, "KEY");
  isDown = true;
  clock.advance(57 * minute);
  t.is((await chain.current())?.accessKeyId, "KEY");
  t.is((await chain.current())?.accessKeyId, "KEY");
  t.is(source.asked.length, 2, "a source that failed gets no request for a while");
  clock.advance(4 * minute);
  await t.throwsAsync(chain.current(), { message: /^the container \(.*\): it says 500$/ });
  const plain = { ...env, AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://evil.example/keys" };
  await t.throwsAsync(new CredentialChain(plain, clock).current(), {
    code: "INPUT_UNUSABLE",
    message: /its address must be https, or lie on this machine/,
  });
});

test("a web identity becomes a role, and STS's refusal is named without the token", async (t) => {
  const clock = new SimulatedClock();
  const forms: URLSearchParams[] = [];
  let refusal: string | undefined;
  const sts = await startSource(t, ({ body }) => {
    forms.push(new URLSearchParams(body));
    if (refusal !== undefined) return [403, `<Error><Code>${refusal}</Code></Error>`];
    const keys =
      "<AccessKeyId>WEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey>" +
      `<SessionToken>t&amp;u</SessionToken><Expiration>${new Date(hour).toISOString()}</Expiration>`;
    return [200, `<AssumeRoleWithWebIdentityResponse>${keys}</AssumeRoleWithWebIdentityResponse>`];
  });
  const home = startHome(t);
  const file = join(home, "web-token");
  writeFileSync(file, "the-token");
  const env = {
    ...{ HOME: home, AWS_ENDPOINT_URL_STS: sts.url, AWS_WEB_IDENTITY_TOKEN_FILE: file },
    AWS_ROLE_ARN: "arn:aws:iam::1:role/trainer",
  };
  const chain = new CredentialChain(env, clock);
  t.like(await chain.current(), { accessKeyId: "WEB", sessionToken: "t&u", expiresMs: hour });
  t.is(forms[0]?.get("Action"), "AssumeRoleWithWebIdentity");
  t.is(forms[0]?.get("WebIdentityToken"), "the-token");
  refusal = "AccessDenied";
  const error = await t.throwsAsync(new CredentialChain(env, clock).current(), {
    code: "INPUT_UNUSABLE",
    message: /web identity .*: it says 403 AccessDenied; check the role and its trust policy$/,
  });
  t.notRegex(error?.message ?? "", /the-token/);
});

test("the AWS SDK, where it is installed, comes before all sources on the network", async (t) => {
  const clock = new SimulatedClock();
  const asked = async (find: () => Promise<{ accessKeyId: string; secretAccessKey: string }>) => {
    const sdk = { fromNodeProviderChain: () => find };
    const env = { HOME: startHome(t), AWS_EC2_METADATA_DISABLED: "true" };
    return new CredentialChain(env, clock, async () => sdk).current();
  };
  const keys = { accessKeyId: "SSO", secretAccessKey: "s", expiration: new Date(hour) };
  t.like(await asked(async () => keys), {
    ...{ accessKeyId: "SSO", source: "the AWS SDK", expiresMs: hour },
  });
  const none = Object.assign(new Error("none"), { name: "CredentialsProviderError" });
  t.is(await asked(() => Promise.reject(none)), undefined);
});

test("without credentials requests are unsigned, and sources rest for a minute", async (t) => {
  const source = await startSource(t, () => [404, ""]);
  const env = { HOME: startHome(t), AWS_EC2_METADATA_SERVICE_ENDPOINT: source.url };
  const chain = new CredentialChain(env, new SimulatedClock());
  t.is(await chain.current(), undefined);
  t.is(await chain.current(), undefined);
  t.is(source.asked.length, 1);
});

test.serial("when a store rejects expired credentials, new ones are read", async (t) => {
  const server = await startBucketServer(t);
  server.secrets.clear();
  server.secrets.set("KEY-1", "secret");
  let keys = 0;
  const source = await startSource(t, () => [200, keysInJson(`KEY-${++keys}`, Date.now() + hour)]);
  setEnvironment(t, {
    ...{ AWS_ACCESS_KEY_ID: undefined, AWS_SECRET_ACCESS_KEY: undefined, HOME: startHome(t) },
    AWS_CONTAINER_CREDENTIALS_FULL_URI: source.url,
  });
  const store = await openObjectStore("s3://bucket/prefix", undefined, quickLimits);
  await store.put("one", Buffer.from("1"));
  server.secrets.clear();
  server.secrets.set("KEY-2", "secret");
  const reads = await Promise.all(Array.from({ length: 8 }, () => store.get("one")));
  for (const bytes of reads) same(t, bytes, Buffer.from("1"));
  t.is(keys, 2, "eight refused requests get one new pair of keys");
  await store.close();
});
