// The whole cluster over a real nats-server, if one is installed: the same job gives the same
// digest as over the embedded broker, and the run survives the server's death.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Cluster, type JobOptions } from "../../../index.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";

function jobIn(directory: string, epochs: number): JobOptions {
  const tables = ["A", "B", "C"].map((name) => ({ name, rows: 200, dim: 8 }));
  return {
    model: { kind: "dlrm", dense: 4, tables, bottom: [16, 8], top: [16, 1] },
    data: {
      kind: "synthetic",
      samples: 3000,
      dense: 4,
      batchSize: 64,
      epochs,
      cache: join(directory, "cache"),
    },
    checkpoint: { directory: join(directory, "checkpoints"), everySteps: 20 },
  };
}

async function digestOn(options: { nats?: string }): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  await using cluster = await Cluster.start({ devices: 2, ...options });
  const run = await cluster.submit(jobIn(directory, 1));
  const { digest } = await run.result();
  rmSync(directory, { recursive: true });
  return digest;
}

testIf(natsServer)("a real nats-server carries the same run to the same digest", async (t) => {
  await using server = await startNatsServer();
  t.is(await digestOn({ nats: server.url }), await digestOn({}));
});

testIf(natsServer)("a run outlives the death of its nats-server", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const first = await startNatsServer();
  const port = new URL(first.url).port;
  await using cluster = await Cluster.start({ devices: 2, nats: first.url });
  const run = await cluster.submit(jobIn(directory, 8));
  let second: Awaited<ReturnType<typeof startNatsServer>> | undefined;
  for await (const event of run.events()) {
    if (event.type === "run.progress" && second === undefined) {
      await first.kill();
      second = await startNatsServer(["-p", port]);
    }
    if (event.type === "run.failed") t.fail(event.error.message);
    if (event.type === "run.finished") t.is(event.result.step, 47 * 8);
  }
  await cluster.close();
  await second?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
  t.truthy(second, "the server was killed while the run went on");
});
