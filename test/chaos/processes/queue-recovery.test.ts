// The leader's machine loses its disk: the queue's directory is gone, JetStream has its mirror, and
// the checkpoints are intact.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { Cluster, connect, type RunEvent } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { calmResult, inEpochs, smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { equalsCalm } from "../../helpers/clusters/either-clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testAll, testIf } from "../../helpers/needs.ts";

const epochs = 4;

testIf(testAll, natsServer).serial(
  "jobs whose queue is lost with its disk run once, from the mirror, to the same models",
  async (t) => {
    const directory = startDirectory(t);
    const server = await startNatsServer(["-js", "-sd", join(directory, "jetstream")]);
    t.teardown(() => server.kill());
    const { url: nats } = server;
    const state = { directory: join(directory, "state") };
    const lines: string[] = [];
    const log = { level: "warn", write: (line: string) => void lines.push(line) } as const;
    const start = () => Cluster.start({ nats, state, log, devices: 2 });
    const job = (name: string) => ({
      name,
      model: smallModel,
      data: { ...smallData, cache: join(directory, "cache") },
      evaluation: { everySteps: 15 },
      checkpoint: { everySteps: 10, directory: join(directory, name) },
    });
    await using client = await connect({ nats });

    const lost = await start();
    t.teardown(() => lost.close());
    const first = await client.submit(inEpochs(job("first"), epochs));
    const second = await client.submit(job("second"), { key: "k" });
    let saved = 0;
    for await (const event of first.events()) {
      if (event.type === "run.checkpointed") saved = event.step;
      if (saved >= 20) break;
    }
    await lost.close();
    rmSync(state.directory, { recursive: true });
    const past: RunEvent[] = [];
    for await (const event of first.past()) past.push(event);
    t.true(past.some((event) => event.type === "run.checkpointed" && event.step === saved));

    const next = await start();
    t.teardown(() => next.close());
    t.is((await client.submit(job("second"), { key: "k" })).run, second.run);
    const result = await first.result();
    await equalsCalm(t, result, calmResult(epochs));
    t.is((await second.result()).status, "finished");
    const began: number[] = [];
    for await (const event of first.past()) {
      if (event.type === "run.started") began.push(event.fromStep);
    }
    t.true(began.length > 0 && began.every((step) => step >= saved), began.join());
    t.deepEqual(
      (await client.list()).map(({ run, status }) => [run, status]),
      [first, second].map(({ run }) => [run, "finished"]),
    );
    const { mirror } = await client.inspect();
    t.true(mirror !== null && mirror.events > 10 && mirror.refused === 0, JSON.stringify(mirror));
    const taken = lines.filter((line) =>
      line.includes("The queue was lost; its jobs are restored"),
    );
    t.is(taken.length, 1, lines.join(""));
  },
);
