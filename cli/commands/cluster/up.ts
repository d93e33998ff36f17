// osiris up: a cluster that takes jobs over NATS, until Ctrl-C.

import { type Command, Option } from "commander";
import { Cluster, type HostRecord, InvalidOptionError, type RunLine } from "../../../internal.ts";
import {
  type DashboardArguments,
  dashboardLines,
  dashboardOf,
  withDashboard,
} from "../../../packages/dashboard/commands/dashboard-options.ts";
import { isS3 } from "../../../src/objects/s3-address.ts";
import { addressOf } from "../../../src/wire/transports/server-address.ts";
import {
  bytesFrom,
  type CommonOptions,
  type CredentialArguments,
  credentialsOf,
  integerFrom,
  numberFrom0,
  portFrom0,
  secondsFrom,
  usualPort,
  withCommon,
  withCredentials,
} from "../../support/arguments.ts";
import { keepBroker } from "../../support/broker.ts";
import { plural } from "../../support/format.ts";
import {
  type Health,
  type HealthArguments,
  serveHealth,
  withHealth,
} from "../../support/health.ts";
import {
  type DrainArguments,
  drainNotice,
  interruption,
  withDrain,
} from "../../support/interrupt.ts";
import { type LinkArguments, linksFrom, withLinks } from "../../support/links.ts";
import { devicesFrom } from "../../support/machine.ts";
import {
  type ObservingArguments,
  observingOf,
  usualLevel,
  withObserving,
} from "../../support/observing.ts";
import { keepToken, ownToken } from "../../support/token-file.ts";
import { readTenants } from "./nats-config.ts";

interface UpOptions
  extends CommonOptions,
    CredentialArguments,
    ObservingArguments,
    DrainArguments,
    HealthArguments,
    DashboardArguments,
    LinkArguments {
  readonly links?: "auto" | "direct" | "broker";
  readonly devices: number;
  readonly threads: number | "auto";
  readonly minDevices?: number;
  readonly hostSilence?: number;
  readonly port: number;
  readonly cluster: string;
  readonly nats?: string;
  readonly lease?: string;
  readonly finished?: number;
  readonly state?: string;
  readonly dataRoot?: string;
  readonly modelRoot?: string[];
  readonly checkpointRoot?: string;
  readonly tenants?: string;
  readonly eventsDays?: number;
  readonly eventsBytes?: number;
  readonly lostQueue?: "restore" | "log" | "off";
}

export function addUp(program: Command): void {
  const command = program
    .command("up")
    .description("run a cluster that takes jobs over NATS, until Ctrl-C")
    .option("--devices <N>", "devices of this process: threads that compute", integerFrom(0), 2)
    .option("--threads <N>", "threads of each device, or auto: cores / devices", devicesFrom, 1)
    .option(
      "--min-devices <N>",
      "a run waits until the cluster has N devices, hosts included (default: --devices)",
      integerFrom(1),
    )
    .option(
      "--host-silence <TIME>",
      "a host without a heartbeat for this time is lost; raise it on busy machines (default: 1.25s)",
      secondsFrom,
    )
    .addOption(
      new Option("--port <P>", "port of the embedded broker on 127.0.0.1; 0: any free port")
        .argParser(portFrom0)
        .default(usualPort)
        .conflicts("nats"),
    )
    .addOption(
      new Option("--nats <URL>", "use this nats-server instead of the embedded broker").env(
        "OSIRIS_NATS",
      ),
    )
    .addOption(
      new Option(
        "--token <TOKEN>",
        "token that clients must send (default: random; with --state, the same after a restart)",
      ).env("OSIRIS_TOKEN"),
    )
    .option(
      "--data-root <DIR>",
      "the only directory of data; `{tenant}` in it is replaced by the tenant's name",
    )
    .option(
      "--model-root <PATH...>",
      "let jobs run custom models whose module (`model.path`) is in this directory (default: none)",
    )
    .option(
      "--checkpoint-root <DIR>",
      "the only directory of checkpoints, or s3://bucket/prefix; each tenant has a part of it",
    )
    .option(
      "--tenants <FILE>",
      "file with the tenants and their limits, as for `osiris nats-config`",
    )
    .option(
      "--state <PLACE>",
      "keep the job queue in this directory or s3://bucket/prefix, so that runs survive a restart",
    )
    .option(
      "--finished <N>",
      "finished runs that the cluster still lists (default: 1000)",
      integerFrom(0),
    )
    .option(
      "--lease <PLACE>",
      "lead, or stand by until the leader is gone; PLACE: a shared directory, s3://bucket/prefix, nats",
    )
    .option(
      "--events-days <N>",
      "days for which JetStream keeps a copy of events; 0: no copy (default: 30)",
      numberFrom0,
    )
    .option(
      "--events-bytes <BYTES>",
      "most bytes of events kept for each tenant (default: 256MiB)",
      bytesFrom,
    )
    .addOption(
      new Option(
        "--lost-queue <WHAT>",
        "jobs that only JetStream has: restore them (default) or only log them; off: keep no copy",
      ).choices(["restore", "log", "off"]),
    )
    .addOption(
      new Option(
        "--links <WAY>",
        "frames between hosts: direct links, the broker, or auto: the faster (default: auto)",
      ).choices(["auto", "direct", "broker"]),
    )
    .option("--cluster <NAME>", "name of the cluster", "c1");
  withLinks(command);
  withCommon(withObserving(withCredentials(withDashboard(withHealth(withDrain(command))))), [
    "up",
    "up --devices 8 --port 4333 --state runs",
    "up --nats nats://10.0.0.5:4222 --nkey nats/root.nk",
    "up --devices 0 --min-devices 8      # of hosts only: osiris host",
    "up --dashboard-port 8080 --dashboard-allow control",
    "up --nats nats://10.0.0.5:4222 --lease s3://bucket/osiris   # on two machines, or --lease nats",
  ]).action(up);
}

async function up(options: UpOptions): Promise<void> {
  const { devices, threads, minDevices, hostSilence, cluster: name } = options;
  const { nats, port, lease, state } = options;
  const { dataRoot: data, checkpointRoot: checkpoints, modelRoot: models } = options;
  const roots = { data, checkpoints, models };
  const tenants = await readTenants(options.tenants);
  if (lease !== undefined && nats === undefined) throw leaseNeedsBroker();
  const interrupted = interruption();
  const say = (line: string) => (options.json === true ? console.error(line) : console.log(line));
  const token =
    options.token ??
    (nats === undefined ? ownToken(isS3(state ?? "") ? undefined : state) : undefined);
  await using broker =
    nats === undefined ? await keepBroker({ port, token: token ?? "", log: say }) : null;
  const url = broker?.url ?? nats ?? "";
  using kept = broker === null || options.token ? null : keepToken(url, token ?? "");
  let health: Health = { isReady: false, state: "starting" };
  await using _health = await serveHealth(options, () => health);
  await using cluster = await Cluster.start({
    devices,
    threads,
    ...(minDevices === undefined ? {} : { minDevices }),
    ...(hostSilence === undefined ? {} : { hostSilenceMs: Math.round(1000 * hostSilence) }),
    roots,
    tenants,
    ...(lease === undefined ? {} : { lease: { directory: lease } }),
    ...(state === undefined ? {} : { state: { directory: state } }),
    ...(options.links === undefined ? {} : { links: options.links }),
    ...linksFrom(options),
    ...(options.finished === undefined ? {} : { finishedMax: options.finished }),
    jetstream: jetstreamOf(options),
    onStandby: (leader) => {
      health = { isReady: true, state: "standby" };
      say(`Standby: ${leader} leads cluster ${name}.`);
    },
    name,
    nats: url,
    ...(await dashboardOf(options, token, Object.keys(tenants).length > 0)),
    onHosts: (hosts) => say(hostsLine(hosts)),
    ...credentialsOf({ ...options, ...(token === undefined ? {} : { token }) }),
    ...observingOf(options, usualLevel()),
  });
  const brokerPid = broker?.pid;
  const address = addressOf([url]);
  const json = options.json === true;
  const { dashboard } = cluster;
  printUp({ url: address, tokenFile: kept?.path, name, devices, brokerPid, json, dashboard });
  if (cluster.notice !== undefined) say(cluster.notice);
  if (broker !== null && Object.keys(tenants).length > 0) say(tokenIsAll);
  void cluster.leading.then(() => {
    health = { isReady: true, state: "leading" };
    if (lease !== undefined || state !== undefined) printLeading(name, options);
  });
  try {
    await Promise.race([interrupted, drainNotice(options, say), cluster.lost]);
  } finally {
    printRefused(cluster.refused, options);
  }
  // Runs are cancelled only if nothing continues them: with `state`, the next start of this cluster
  // continues them; under a lease, the next leader does.
  if (state !== undefined) await saveRuns(cluster, say);
  else if (lease === undefined) await stopRuns(cluster, say);
}

function jetstreamOf({ eventsDays, eventsBytes, lostQueue }: UpOptions) {
  return {
    ...(eventsDays === undefined ? {} : { eventsDays }),
    ...(eventsBytes === undefined ? {} : { eventsBytes }),
    ...(lostQueue === undefined ? {} : { queue: lostQueue }),
  };
}

function printUp(up: {
  readonly url: string;
  readonly tokenFile: string | undefined;
  readonly name: string;
  readonly devices: number;
  readonly brokerPid: number | undefined;
  readonly json: boolean;
  readonly dashboard: Cluster["dashboard"];
}): void {
  const { url, tokenFile, name, devices, brokerPid, json, dashboard } = up;
  if (json) {
    const record = {
      report: "up",
      url,
      tokenFile,
      cluster: name,
      devices,
      brokerPid,
      pid: process.pid,
      dashboard: dashboard?.url,
    };
    console.log(JSON.stringify(record));
    return;
  }
  const named = name === "c1" ? "" : ` --cluster ${name}`;
  console.log(`Cluster ${name} is up: ${plural(devices, "device")}, ${url}`);
  if (tokenFile !== undefined)
    console.log(`Its token is in ${tokenFile}; your commands on this machine read it there.`);
  for (const line of dashboardLines(dashboard)) console.log(line);
  console.log(`Submit:  osiris submit JOB --nats ${url}${named} --follow`);
  console.log("Ctrl-C stops the cluster.");
}

const tokenIsAll =
  "A client with the broker's token may act as any tenant: to separate tenants, run over a " +
  "nats-server (--nats) with the configuration of `osiris nats-config`.";

function leaseNeedsBroker(): InvalidOptionError {
  return new InvalidOptionError(
    "nats",
    "Expected `--nats` with `--lease`: the broker must outlive a leader",
  );
}

function printLeading(name: string, { json }: UpOptions): void {
  if (json === true) console.log(JSON.stringify({ report: "leading", cluster: name }));
  else console.log(`This process leads cluster ${name}.`);
}

/** Prints how many messages and writes were refused because this process no longer led. */
function printRefused({ messages, writes }: Cluster["refused"], { json }: UpOptions): void {
  if (json === true) console.log(JSON.stringify({ report: "refused", messages, writes }));
  else if (messages + writes > 0) {
    console.log(`Refused: ${plural(messages, "message")}, ${plural(writes, "write")}.`);
  }
}

function hostsLine(hosts: readonly HostRecord[]): string {
  const names = hosts.map(({ host, devices }) => `host:${host} (${plural(devices, "device")})`);
  return `Hosts: ${names.length === 0 ? "none" : names.join(", ")}`;
}

/** Makes a checkpoint of each run that has made steps, so that the next start resumes from it. */
async function saveRuns(cluster: Cluster, say: (line: string) => void): Promise<void> {
  // A run that still prepares its data has no step to lose, and its first step may be hours away.
  const running = (await cluster.list()).filter((run) => run.status === "running" && run.step);
  if (running.length > 0) say(`Saving ${plural(running.length, "run")}, to continue later ...`);
  await Promise.allSettled(running.map(({ run }) => cluster.client.run(run).checkpoint()));
}

/** Cancels every open run with a checkpoint, from which a new submission can resume. */
async function stopRuns(cluster: Cluster, say: (line: string) => void): Promise<void> {
  const open = (await cluster.list()).filter(isOpen);
  if (open.length > 0) say(`Stopping ${plural(open.length, "run")}, with checkpoints ...`);
  const runs = open.map((summary) => cluster.client.run(summary.run));
  for (const run of runs) await run.cancel();
  await Promise.allSettled(runs.map((run) => run.result()));
}

function isOpen({ status }: RunLine): boolean {
  return status === "queued" || status === "running";
}
