// A bucket in memory behind HTTP: checks signatures, and carries its faults out on the connection.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ExecutionContext } from "ava";
import { AwsV4Signer } from "aws4fetch";
import {
  type BucketFlaws,
  MemoryBucket,
  type StoreFault,
} from "../../chaos/objects/memory-bucket.ts";
import type { StoreRequest } from "../../src/objects/requests.ts";
import type { StoreLimits } from "../../src/objects/rules.ts";
import { setEnvironment } from "../helpers/environment.ts";

/** Limits with which faults cost milliseconds. */
export const quickLimits: StoreLimits = { attemptsMax: 9, attemptMs: 400, backoffMs: 2 };

export interface BucketServer {
  readonly bucket: MemoryBucket;
  readonly endpoint: string;
  /** Secrets of the keys that may ask; the others have expired. */
  readonly secrets: Map<string, string>;
  /** Bytes of objects that clients have got, by the client's address, then by key. */
  readonly sent: Map<string, Map<string, number>>;
  /** Sends a client to another region. */
  region: string;
  stop(): void;
}

/** The environment of a client of a bucket's server. */
export function bucketEnvironment(endpoint: string) {
  return {
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: "KEY",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
}

/** Serves a bucket until the test ends, and sets the environment of its client. */
export async function startBucketServer(
  t: ExecutionContext,
  flaws: BucketFlaws = {},
): Promise<BucketServer> {
  const server = await serveBucket(flaws);
  t.teardown(server.stop);
  setEnvironment(t, bucketEnvironment(server.endpoint));
  return server;
}

/** Serves a bucket. `at`: where, for clients on other machines. */
export async function serveBucket(
  flaws: BucketFlaws = {},
  at: { readonly host: string; readonly port: number } = { host: "127.0.0.1", port: 0 },
): Promise<BucketServer> {
  const bucket = new MemoryBucket("bucket", flaws);
  const secrets = new Map([["KEY", "secret"]]);
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => void answer(own, incoming, Buffer.concat(chunks), outgoing));
  });
  await new Promise<void>((resume) => server.listen(at.port, at.host, resume));
  const endpoint = `http://${at.host}:${(server.address() as AddressInfo).port}`;
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  const sent = new Map();
  const own: BucketServer = { bucket, endpoint, secrets, sent, region: "us-east-1", stop };
  return own;
}

async function answer(
  server: BucketServer,
  incoming: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
): Promise<void> {
  const { bucket, region } = server;
  const url = new URL(incoming.url ?? "", server.endpoint);
  const [, name = "", key = ""] = /^\/([^/]*)\/?(.*)$/.exec(url.pathname) ?? [];
  const code = await refusalOf(server, incoming, url);
  if (code !== undefined) return send(outgoing, 403, {}, problem(code));
  if (name !== bucket.name) return send(outgoing, 404, {}, problem("NoSuchBucket"));
  if (region !== "us-east-1") {
    return send(outgoing, 301, { "x-amz-bucket-region": region }, problem("PermanentRedirect"));
  }
  const headers = Object.entries(incoming.headers).map(([one, value]) => [one, String(value)]);
  const given = bucket.answer({
    method: incoming.method as StoreRequest["method"],
    key: decodeURIComponent(key),
    query: Object.fromEntries(url.searchParams),
    headers: Object.fromEntries(headers),
    ...(body.length > 0 || incoming.method === "PUT" ? { body } : {}),
  });
  if (given.afterMs > 0) await new Promise((resume) => setTimeout(resume, given.afterMs));
  if (given.status === 0) return void outgoing.destroy();
  if (incoming.method === "GET" && key !== "") {
    const client = incoming.socket.remoteAddress ?? "";
    const ofClient = server.sent.get(client) ?? new Map<string, number>();
    server.sent.set(client, ofClient);
    ofClient.set(key, (ofClient.get(key) ?? 0) + given.body.length);
  }
  const length = Number(given.headers["content-length"] ?? given.body.length);
  const facts = { ...given.headers, "content-length": length };
  if (given.body.length === length) return send(outgoing, given.status, facts, given.body);
  outgoing.writeHead(given.status, facts); // A torn answer.
  outgoing.write(given.body, () => outgoing.destroy());
}

const problem = (code: string) => Buffer.from(`<Error><Code>${code}</Code></Error>`);

function send(outgoing: ServerResponse, status: number, headers: object, body: Uint8Array): void {
  outgoing.writeHead(status, { "content-length": body.length, ...headers });
  outgoing.end(body);
}

/** Why a request may not be answered: signs it again, and compares. */
async function refusalOf(
  { secrets }: BucketServer,
  { method = "", headers }: IncomingMessage,
  url: URL,
): Promise<string | undefined> {
  const { authorization = "" } = headers;
  const [, key = "", region = ""] = /Credential=([^/]+)\/\d+\/([^/]+)\//.exec(authorization) ?? [];
  const [, names = ""] = /SignedHeaders=([^,]+)/.exec(authorization) ?? [];
  if (key === "") return "AccessDenied";
  const secret = secrets.get(key);
  if (secret === undefined) return "ExpiredToken";
  const signed = names.split(";").filter((name) => name !== "host" && name !== "x-amz-date");
  const signer = new AwsV4Signer({
    ...{ method, url: url.href, service: "s3", region, accessKeyId: key, secretAccessKey: secret },
    datetime: String(headers["x-amz-date"]),
    headers: Object.fromEntries(signed.map((name) => [name, String(headers[name])])),
  });
  const again = (await signer.sign()).headers.get("authorization");
  return again === authorization ? undefined : "SignatureDoesNotMatch";
}

/** One fault of each kind; those that cost a deadline last. */
export const eachFault: readonly StoreFault[] = [
  ...(["request-lost", "answer-lost", "torn", "unavailable", "conflict", "expired"] as const).map(
    (kind) => ({ kind }),
  ),
  { kind: "duplicated", after: 1 },
  { kind: "delayed", after: 0 },
  { kind: "delayed", after: 1 },
  { kind: "slow", ms: 20_000 },
];
