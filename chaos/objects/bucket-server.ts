// Serves a bucket in memory over HTTP: checks signatures, and injects faults of the connection.
// Tests and benches use it in place of a remote store.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AwsV4Signer } from "aws4fetch";
import type { StoreRequest } from "../../src/objects/requests.ts";
import { guarded } from "../../src/wire/http/answering.ts";
import { type BucketFlaws, MemoryBucket } from "./memory-bucket.ts";

export interface BucketServer {
  readonly bucket: MemoryBucket;
  readonly endpoint: string;
  /** Secrets by access key; requests with any other key are refused as expired. */
  readonly secrets: Map<string, string>;
  /** Bytes of objects sent to clients, by address of the client, then by key. */
  readonly sent: Map<string, Map<string, number>>;
  /** Region of the bucket; with any other value than the default, clients are redirected. */
  region: string;
  stop(): void;
}

/** Serves a bucket. `at`: address to listen on, for clients on other machines. */
export async function serveBucket(
  flaws: BucketFlaws = {},
  at: { readonly host: string; readonly port: number } = { host: "127.0.0.1", port: 0 },
): Promise<BucketServer> {
  const bucket = new MemoryBucket("bucket", flaws);
  const secrets = new Map([["KEY", "secret"]]);
  const receive = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    await answer(own, incoming, Buffer.concat(chunks), outgoing);
  };
  const server = createServer(
    guarded(receive, (_error, _incoming, { socket }) => socket?.destroy()),
  );
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
  outgoing.writeHead(given.status, facts); // A torn response.
  outgoing.write(given.body, () => outgoing.destroy());
}

const problem = (code: string) => Buffer.from(`<Error><Code>${code}</Code></Error>`);

function send(outgoing: ServerResponse, status: number, headers: object, body: Uint8Array): void {
  outgoing.writeHead(status, { "content-length": body.length, ...headers });
  outgoing.end(body);
}

/** The code of a refusal: signs the request again, and compares the signatures. */
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
