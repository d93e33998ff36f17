// osiris host: a process that joins a cluster and gives it its devices, until Ctrl-C.

import type { Command } from "commander";
import { Host } from "../../../internal.ts";
import { kernelNotice } from "../../../src/kernels/index.ts";
import { addressOf } from "../../../src/wire/transports/server-address.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  numberFrom0,
  withCommon,
  withConnection,
} from "../../support/arguments.ts";
import { plural } from "../../support/format.ts";
import {
  type Health,
  type HealthArguments,
  serveHealth,
  withHealth,
} from "../../support/health.ts";
import { type DrainArguments, interruption, withDrain } from "../../support/interrupt.ts";
import { type LinkArguments, linksFrom, withLinks } from "../../support/links.ts";
import { devicesFrom } from "../../support/machine.ts";
import {
  type ObservingArguments,
  observingOf,
  usualLevel,
  withObserving,
} from "../../support/observing.ts";

interface HostArguments
  extends CommonOptions,
    ConnectionArguments,
    ObservingArguments,
    DrainArguments,
    HealthArguments,
    LinkArguments {
  readonly devices: number;
  readonly threads: number | "auto";
  readonly grace: number;
}

export function addHost(program: Command): void {
  const command = program
    .command("host")
    .description("join a cluster as a host, and provide devices to its runs, until Ctrl-C")
    .option("--devices <N>", "devices of this host: threads that compute", integerFrom(1), 2)
    .option("--threads <N>", "threads of each device, or auto: cores / devices", devicesFrom, 1)
    .option(
      "--grace <SECONDS>",
      "after Ctrl-C: longest wait until all runs continue without this host",
      numberFrom0,
      25,
    );
  withLinks(command);
  withCommon(withObserving(withConnection(withHealth(withDrain(command)))), [
    "host --devices 2",
    "host --nats nats://10.0.0.5:4222 --devices 8",
    "host --nats tls://nats.example:4222 --creds host.creds",
    "host --devices 8 --link-address 10.1.0.5:4600-4663   # a faster network than the broker's",
    "host --devices 8 --drain-url aws       # a spot machine leaves before it is taken away",
  ]).action(host);
}

async function host(options: HostArguments): Promise<void> {
  const { devices, threads, cluster, nats, grace, drainFile, drainUrl } = options;
  const interrupted = interruption();
  const json = options.json === true;
  const say = (line: string) => (json ? console.error(line) : console.log(line));
  let health: Health = { isReady: false, state: "joining" };
  const report = (index: number | undefined) => {
    const isReady = index !== undefined;
    health = { isReady, state: isReady ? `host:${index}` : "the cluster does not answer" };
    if (json) console.log(JSON.stringify({ report: "host", host: index ?? null, devices }));
    else if (index === undefined) say(`Cluster ${cluster} is gone; waiting for it ...`);
    else say(`Joined cluster ${cluster} as host:${index}: ${plural(devices, "device")}`);
  };
  if (!json) say(`Joining cluster ${cluster} at ${addressOf([nats])} ... Ctrl-C leaves it.`);
  await using _health = await serveHealth(options, () => health);
  await using joined = await Host.join({
    ...connectionOf(options),
    devices,
    threads,
    graceMs: 1000 * grace,
    ...linksFrom(options),
    ...(drainFile === undefined ? {} : { drainFile }),
    ...(drainUrl === undefined ? {} : { drainUrl }),
    onHost: report,
    onDrain: ({ reason, seconds = grace }) => {
      health = { isReady: false, state: "draining" };
      if (json) console.log(JSON.stringify({ report: "draining", reason, seconds }));
      else say(`Draining, for at most ${plural(Math.round(seconds), "second")}: ${reason}`);
    },
    ...observingOf(options, usualLevel()),
  });
  const notice = kernelNotice();
  if (notice !== undefined) say(notice);
  const asked = interrupted.then(() => {
    health = { isReady: false, state: "draining" };
    say("Leaving; Ctrl-C again ends it at once ...");
    return joined.leave({ reason: "its process was asked to end" });
  });
  await Promise.race([asked, joined.failed, joined.closed]);
}
