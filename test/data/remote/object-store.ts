// An object store for a test: s3rver, which stores on disk and checks signatures, behind a proxy
// that injects faults on request.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { AwsClient } from "aws4fetch";
import { setEnvironment } from "../../helpers/environment.ts";
import { startDirectory } from "../data-files.ts";

/** Faults that the proxy injects into a response. */
export type StoreFault = "none" | "503" | "cut" | "short" | "slow";

/** A store, and the means to fill it. */
export interface ObjectStore {
  readonly endpoint: string;
  /** Faults of the next responses, in order; then none. */
  readonly faults: StoreFault[];
  /** Requested paths, with their queries. */
  readonly asked: string[];
  put(bucket: string, key: string, bytes: Uint8Array): Promise<void>;
}

const bucketNames = ["clicks", "other.bucket"];

/** The access key that may read and write; also its secret. */
export const keyId = "S3RVER";

/** Starts a store with empty buckets; it ends with the test. */
export async function startObjectStore(t: ExecutionContext): Promise<ObjectStore> {
  const port = await startProgram(t);
  const faults: StoreFault[] = [];
  const urls: string[] = [];
  const put = new Set<string>();
  const proxy = createServer((incoming, outgoing) => {
    const { url = "" } = incoming;
    const [, key = ""] = /^\/[^/?]+\/([^?]*)/.exec(url) ?? [];
    // A prefetch of an earlier test may still arrive, and must not take a fault of this test.
    const isOwn = key === "" || put.has(decodeURIComponent(key));
    if (isOwn) urls.push(url);
    pass(incoming, outgoing, port, (isOwn ? faults.shift() : undefined) ?? "none");
  });
  await new Promise<void>((resume) => proxy.listen(0, "127.0.0.1", resume));
  t.teardown(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const client = new AwsClient({ accessKeyId: keyId, secretAccessKey: keyId, service: "s3" });
  return {
    endpoint,
    faults,
    asked: urls,
    async put(bucket, key, bytes) {
      put.add(key);
      const url = `${endpoint}/${bucket}/${key.split("/").map(encodeURIComponent).join("/")}`;
      const { ok, status } = await client.fetch(url, {
        method: "PUT",
        body: new Uint8Array(bytes),
      });
      if (!ok) throw new Error(`put ${key}: ${status}`);
    },
  };
}

/** Sets the environment variables of a reader; restored after the test. */
export function asks(
  t: ExecutionContext,
  { endpoint }: Pick<ObjectStore, "endpoint">,
  secret = keyId,
): void {
  setEnvironment(t, {
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_ACCESS_KEY_ID: keyId,
    AWS_SECRET_ACCESS_KEY: secret,
  });
}

/** Starts the store's process; returns its port. */
async function startProgram(t: ExecutionContext): Promise<number> {
  const program = join(import.meta.dirname, "object-store-program.js");
  const flags = ["--openssl-legacy-provider", program, join(startDirectory(t), "objects")];
  const child = spawn(process.execPath, [...flags, ...bucketNames], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  t.teardown(async () => {
    child.kill();
    await ended;
  });
  const lost = ended.then(([code]) => {
    throw new Error(`the object store ended with ${code}`);
  });
  const [chunk] = await Promise.race([once(child.stdout, "data"), lost]);
  return Number(String(chunk));
}

/** Forwards a request, with the host that was signed. */
function pass(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  port: number,
  fault: StoreFault,
): void {
  const { method, url, headers } = incoming;
  if (fault === "503") return void outgoing.writeHead(503, { "retry-after": "0" }).end();
  if (fault === "slow") return; // Unanswered until the client disconnects.
  const inner = request({ port, host: "127.0.0.1", method, path: url, headers }, (answer) => {
    const chunks: Buffer[] = [];
    answer.on("data", (chunk: Buffer) => chunks.push(chunk));
    answer.on("end", () => {
      const body = Buffer.concat(chunks);
      const { "transfer-encoding": _, ...own } = answer.headers;
      const given = fault === "short" ? body.subarray(1) : body;
      outgoing.writeHead(answer.statusCode ?? 500, { ...own, "content-length": given.length });
      const half = body.subarray(0, body.length / 2);
      if (fault === "cut") return void outgoing.write(half, () => outgoing.destroy());
      outgoing.end(given);
    });
  });
  inner.on("error", () => outgoing.destroy());
  incoming.pipe(inner);
}
