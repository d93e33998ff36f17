// osiris dpp-worker: a preprocessing worker of a cluster, until Ctrl-C.

import type { Command } from "commander";
import { DppWorker } from "../../../internal.ts";
import { addressOf } from "../../../src/wire/transports/server-address.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withCommon,
  withConnection,
} from "../../support/arguments.ts";
import { interruption } from "../../support/interrupt.ts";

interface WorkerArguments extends CommonOptions, ConnectionArguments {}

export function addDppWorker(program: Command): void {
  const command = program
    .command("dpp-worker")
    .description("preprocess data files into samples for a cluster's runs, until Ctrl-C");
  withCommon(withConnection(command), [
    "dpp-worker --nats nats://10.0.0.5:4222",
    "dpp-worker --nats tls://nats.example:4222 --creds worker.creds",
  ]).action(dppWorker);
}

async function dppWorker(options: WorkerArguments): Promise<void> {
  const { cluster, nats } = options;
  const interrupted = interruption();
  const json = options.json === true;
  const say = (line: string) => (json ? console.error(line) : console.log(line));
  say(`A worker of cluster ${cluster} at ${addressOf([nats])}; Ctrl-C drains it.`);
  const { tenant: _, ...connection } = connectionOf(options);
  await using _worker = await DppWorker.join({
    ...connection,
    onRun(run, generation, state) {
      if (json) console.log(JSON.stringify({ report: "dpp-worker", run, generation, state }));
      else if (state === "serving") say(`Makes samples for run ${run}, generation ${generation}.`);
      else say(`Run ${run}, generation ${generation}, needs no more samples.`);
    },
    onError: (error) => console.error(error.message),
  });
  await interrupted;
  say("Finishes the splits that it has begun ...");
}
