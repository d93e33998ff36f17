// The client, its blocking form, the trial of stores and the checkpoint store over Ceph's S3
// server, because the memory bucket of other tests may share the client's mistakes.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import test, { type ImplementationFn } from "ava";
import { AwsClient } from "aws4fetch";
import {
  blockingObjectStore,
  openObjectStore,
  promisesOf,
} from "../../src/objects/open-object-store.ts";
import { probeStore, requireFence } from "../../src/objects/probe.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { setEnvironment } from "../helpers/environment.ts";
import { cephServer, testAll, testIf } from "../helpers/needs.ts";
import { startObjectsAt } from "../helpers/stores/checkpoints.ts";
import { keepsCheckpoints } from "../suites/checkpoint-store.ts";
import { keepsLongObjects, keepsObjects } from "../suites/object-store.ts";

/** A free port, below 65,001: the server also takes the two ports above it, unchecked. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return Math.min(port, 65_000);
}

const needs = [testAll, cephServer] as const;
let variables: Promise<Readonly<Record<string, string>>> | undefined;
let stop = async () => {};

/** Declares a test over the server, which the first such test starts. */
function overCeph(title: string, run: ImplementationFn<[]>): void {
  testIf(...needs).serial(title, async (t) => {
    t.timeout(180_000);
    variables ??= startCeph();
    setEnvironment(t, await variables);
    await run(t);
  });
}

/** Starts a server with an empty bucket. Resolves to its client's environment. */
async function startCeph(): Promise<Record<string, string>> {
  const home = mkdtempSync(join(tmpdir(), "osiris-ceph-"));
  const script = resolve("test/objects/radosgw.sh");
  const server = spawn("bash", [script, join(home, "ceph"), String(await freePort())], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(server, "exit");
  stop = async () => {
    server.stdin.end();
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  const line = await Promise.race([
    once(server.stdout, "data").then(([chunk]) => String(chunk)),
    ended.then(([code]) => Promise.reject(new Error(`the server ended with ${code}`))),
  ]);
  const told = Object.fromEntries(
    line
      .trim()
      .split(" ")
      .map((one) => one.split("=")),
  );
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = told;
  const client = new AwsClient({ accessKeyId, secretAccessKey, service: "s3" });
  const { ok } = await client.fetch(`${told.AWS_ENDPOINT_URL_S3}/bucket`, { method: "PUT" });
  if (!ok) throw new Error("the server makes no bucket");
  return told;
}

test.after.always(() => stop());

let started = 0;
const startStored = () => startObjectsAt(`s3://bucket/laws-${started++}`);
keepsCheckpoints("a real S3 server", startStored, overCeph);

overCeph("a real S3 server keeps objects, and fences", async (t) => {
  const store = await openObjectStore("s3://bucket/later");
  await requireFence(store);
  const verdict = await probeStore(store);
  t.log(verdict.findings.map(({ name, found }) => `${name}: ${found}`).join("; "));
  t.deepEqual(
    verdict.findings.filter(({ state }) => state !== "ok"),
    [],
  );
  await store.remove(["store.json"]);
  await keepsObjects(t, store);
  await keepsLongObjects(t, store);
  await store.close();
  const blocking = promisesOf(blockingObjectStore("s3://bucket/blocking", realDisk));
  await keepsObjects(t, blocking);
  await keepsLongObjects(t, blocking);
  for (let round = 0; round < 10; round++) {
    const racing = await openObjectStore(`s3://bucket/race-${round}`);
    const made = await Promise.all(
      Array.from({ length: 8 }, (_, i) => racing.create("one", Buffer.from(`racer ${i}`))),
    );
    t.is(made.filter((won) => won).length, 1);
    await racing.close();
  }
});
