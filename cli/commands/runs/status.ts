// osiris status [RUN]: shows what a running cluster, or one of its runs, is doing.

import type { Command } from "commander";
import { type Client, type ClusterReport, connect, type RunSummary } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { count, percent } from "../../support/format.ts";
import { namedRun } from "../../support/named-run.ts";
import { allShardLines, allTierLines, readerLines, treeLines } from "../../views/cluster-view.ts";
import { incidentLines } from "../../views/incidents.ts";
import { reportOf } from "../../views/report.ts";
import { printRuns } from "./ls.ts";

interface StatusArguments extends CommonOptions, ConnectionArguments {
  readonly tree?: true;
  readonly shards?: true;
  readonly tiers?: true;
  readonly readers?: true;
}

export function addStatus(program: Command): void {
  const command = program
    .command("status")
    .argument("[run]", "run or name of its job (default: all runs)")
    .option("--tree", "show the supervision tree: the actors of all processes")
    .option("--shards", "show the embedding shards of all runs, sorted by lookups")
    .option("--tiers", "show the tiers of cached tables: rows and hit rate of each")
    .option("--readers", "show the readers of all runs: positions and speeds")
    .description("show what the runs of a running cluster are doing");
  const views = ["status --tree", "status --shards", "status --tiers", "status --readers"];
  const examples = ["status", "status r12-1 --json", ...views];
  withCommon(withClient(command), examples).action(async (run, options: StatusArguments) => {
    await using client = await connect(connectionOf(options));
    if (options.tree === true) printTree(await client.inspect(), options.json === true);
    else if (options.shards === true) printShards(await client.inspect(), options.json === true);
    else if (options.tiers === true) printTiers(await client.inspect(), options.json === true);
    else if (options.readers === true) printReaders(await client.inspect(), options.json === true);
    else if (run === undefined) printRuns("status", await client.list(), options);
    else await printRun(client, run, options.json === true);
  });
}

function printTree(report: ClusterReport, json: boolean): void {
  const { processes, unresponsive } = report;
  const trees = processes.map(({ host, actors }) => ({ host, actors }));
  if (json) console.log(JSON.stringify({ report: "tree", trees, unresponsive }));
  else for (const line of treeLines(report)) console.log(line);
}

function printShards(report: ClusterReport, json: boolean): void {
  const { processes, unresponsive } = report;
  const shards = processes.flatMap(({ host, shards: own }) => own.map((one) => ({ host, ...one })));
  if (json) console.log(JSON.stringify({ report: "shards", shards, unresponsive }));
  else for (const line of allShardLines(report)) console.log(line);
}

function printTiers(report: ClusterReport, json: boolean): void {
  const { processes, unresponsive } = report;
  const tiers = processes.flatMap(({ host, tiers: own }) => own.map((one) => ({ host, ...one })));
  if (json) console.log(JSON.stringify({ report: "tiers", tiers, unresponsive }));
  else for (const line of allTierLines(report)) console.log(line);
}

function printReaders(report: ClusterReport, json: boolean): void {
  const { processes, unresponsive } = report;
  const readers = processes.flatMap(({ host, readers: own }) =>
    own.map((one) => ({ host, ...one })),
  );
  if (json) console.log(JSON.stringify({ report: "readers", readers, unresponsive }));
  else for (const line of readerLines(report)) console.log(line);
}

async function printRun(client: Client, name: string, json: boolean): Promise<void> {
  const summary = await (await namedRun(client, name)).status();
  if (json) console.log(JSON.stringify({ report: "status", ...summary }));
  else if (summary.result !== undefined) printSummary(summary, []);
  else {
    const { runs } = await client.inspect();
    const found = runs.find(({ run }) => run === summary.run);
    const { standstill, alerts = [] } = found ?? {};
    printSummary(summary, standstill === undefined ? alerts : [standstill, ...alerts]);
  }
}

/** `notes`: what a run waits for, and its alerts. */
function printSummary(summary: RunSummary, notes: readonly string[]): void {
  const { run, name, status, result, error, incidents, step, steps } = summary;
  console.log(`Run ${run} (${name}): ${status}${error === undefined ? "" : `: ${error.message}`}`);
  if (result === undefined && step !== undefined && steps) {
    console.log(`  step ${count(step)} of ${count(steps)}, ${percent(step / steps)}`);
  }
  if (result === undefined) console.log(`  checkpoints in ${summary.directory}`);
  for (const note of notes) console.log(`  ! ${note}`);
  for (const line of incidents.flatMap(incidentLines)) console.log(line);
  if (result !== undefined) for (const line of reportOf(result)) console.log(line);
}
