// Chaos under a serving process with load: its broker ends, its model directory disappears, a
// damaged delta and newer checkpoints appear, and it is killed and restarted. Every answer is
// compared with the model of the version that it names.

import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import test from "ava";
import { connect } from "nats";
import { startBroker } from "../../../src/wire/broker/broker.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { recordsOf, startModel } from "../../helpers/models/served.ts";
import { patient } from "../../helpers/nats/nats.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { type Running, startCli } from "../../helpers/processes/start-cli.ts";
import { until } from "../../helpers/until.ts";

interface Answer {
  readonly from: number;
  readonly count: number;
  readonly version: string;
  readonly predictions: readonly number[];
}

/** Clients that send requests, each for its own records, until they are stopped. */
function startLoad(url: string, clients: number) {
  const answers: Answer[] = [];
  const refusals = new Map<string, number>();
  let lost = 0;
  let isOver = false;
  const loop = async (client: number) => {
    for (let round = 0; !isOver; round++) {
      const [from, count] = [7 * client + (round % 20), 1 + (round % 5)];
      try {
        const response = await fetch(`${url}/v1/models/m:predict`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ instances: recordsOf(count, from) }),
        });
        const body = (await response.json()) as Answer & { readonly code: string };
        if (response.status === 200) answers.push({ ...body, from, count });
        else refusals.set(body.code, (refusals.get(body.code) ?? 0) + 1);
      } catch {
        lost++; // The server was killed with the request.
        await sleep(20);
      }
      // Without a pause, requests would take the processor time of the server's other work.
      await sleep(5);
    }
  };
  const loops = Array.from({ length: clients }, (_, client) => loop(client));
  return {
    ...{ answers, refusals, lost: () => lost },
    /** Waits for a new answer of `version`. */
    async answered(version: string) {
      const before = answers.length;
      await until(`an answer of ${version}`, () =>
        answers.slice(before).some((one) => one.version === version),
      );
    },
    async end() {
      isOver = true;
      await Promise.all(loops);
    },
  };
}

test.serial(
  "each answer is computed by the version that it names, whatever fails around the server",
  async (t) => {
    t.timeout(600_000);
    const model = await startModel(t, { rows: 4000 });
    const { directory, home } = model;
    const tiers = join(home, "tiers");
    let broker = await startBroker({ auth: "open" });
    t.teardown(() => broker.close());
    const served = async (port: string): Promise<Running> => {
      const below = ["--memory", "64KiB", "--tier-directory", tiers]; // Rows are on disk.
      const more = ["--nats", broker.url, "--deadline", "30000", ...below, "--json"];
      const args = ["serve", `m=${directory}`, "--port", port, ...more];
      const server = startCli(args, home);
      t.teardown(() => server.kill("SIGKILL"));
      await server.line((line) => line.includes('"report":"serve"'));
      return server;
    };
    let server = await served("0");
    const line = await server.line((line) => line.includes('"report":"serve"'));
    const { url } = JSON.parse(line) as { url: string };
    const port = new URL(url).port;
    const versions = new Map<string, Awaited<ReturnType<typeof loadModel>>>();
    const newest = async () => {
      const loaded = await loadModel(directory, { manifest: "last" });
      t.teardown(() => loaded.close());
      versions.set(loaded.digest, loaded);
      return loaded.digest;
    };

    const first = await newest();
    const load = startLoad(url, 4);
    t.teardown(() => load.end());
    await load.answered(first);
    writeFileSync(join(directory, "0001.delta"), "OSIRIS-D, and then nothing that is one");
    await broker.close();
    await load.answered(first);
    await model.train({ cut: 2 });
    const second = await newest();
    await load.answered(second);
    renameSync(directory, `${directory}-away`);
    await load.answered(second);
    renameSync(`${directory}-away`, directory);

    broker = await startBroker({ auth: "open", port: broker.port });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    t.regex(metrics, /osiris_serve_row_misses_total\{model="m"\} [1-9]/);
    server.kill("SIGKILL");
    await server.ended;
    t.deepEqual(readdirSync(tiers), [], "a killed server leaves no rows");
    server = await served(port);
    await load.answered(second);
    const client = await connect({ servers: broker.url });
    t.teardown(() => void client.close());
    const body = JSON.stringify({ instances: recordsOf(1) });
    const overNats = await client.request("osiris.serve.m.predict", body, patient);
    t.is(overNats.json<{ version: string }>().version, second);
    await model.train({ cut: 3 });
    const third = await newest();
    await load.answered(third);

    server.kill("SIGTERM");
    const { code, stderr } = await server.ended;
    t.is(code, 0, stderr);
    await load.end();
    t.true(load.answers.length > 10, `${load.answers.length} answers`); // Even on a slow machine.
    t.true(load.lost() > 0);
    t.true([...load.refusals.keys()].every((one) => one === "SERVER_DRAINING"));
    t.deepEqual(
      new Set(load.answers.map(({ version }) => version)),
      new Set([first, second, third]),
    );
    for (const { from, count, version, predictions } of load.answers) {
      const scored = await versions.get(version)?.predict(recordsOf(count, from));
      t.deepEqual(predictions, [...(scored ?? [])], `${version} ${from} ${count}`);
    }
  },
);

testIf(testAll).serial(
  "a server that is killed with rows on disk leaves no file, and the next one answers alike",
  async (t) => {
    t.timeout(600_000);
    const { directory, home } = await startModel(t, { rows: 4000 });
    const tiers = join(home, "tiers");
    const loaded = await loadModel(directory);
    t.teardown(() => loaded.close());
    const expected = [...(await loaded.predict(recordsOf(40)))];
    for (let turn = 0; turn < 2; turn++) {
      const more = ["--memory", "64KiB", "--tier-directory", tiers, "--json"];
      const server = startCli(["serve", `m=${directory}`, "--port", "0", ...more], home);
      t.teardown(() => server.kill("SIGKILL"));
      const line = await server.line((line) => line.includes('"report":"serve"'));
      const { url } = JSON.parse(line) as { url: string };
      const response = await fetch(`${url}/v1/models/m:predict`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ instances: recordsOf(40) }),
      });
      const { predictions } = (await response.json()) as Answer;
      t.deepEqual(predictions, expected, `start ${turn}`);
      const metrics = await (await fetch(`${url}/metrics`)).text();
      t.regex(metrics, /osiris_serve_row_misses_total\{model="m"\} [1-9]/); // Rows were on disk.
      server.kill("SIGKILL");
      await server.ended;
      t.deepEqual(readdirSync(tiers), []);
    }
  },
);
