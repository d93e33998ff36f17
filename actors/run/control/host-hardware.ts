// The hardware that a plan assumes: memory, cores and speed of the hosts, as announced, and the
// links between them. Links are measured before the first plan for some machines, and kept for
// later plans; a recovery measures nothing. A failed measurement fails no run: the plan notes the
// reason, and counts links as no faster than shared memory. Hardware changes no bit (law 4).

import { PeerLostError, recordError } from "../../../src/errors/errors.ts";
import type { HostLinks } from "../../../src/exchange/links/link-options.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import {
  type HostMachine,
  hostSpeeds,
  type KeptLinks,
  type LinkChoice,
  type MeasuredLinks,
} from "../../../src/planner/fleet.ts";
import { linksMs } from "../../../src/ports/deadlines.ts";
import type { HostShare, Membership } from "../../host/membership.ts";
import { type Mailbox, type Network, request } from "../../runtime/mailbox.ts";
import type { DeviceName } from "../state/straggler-watch.ts";

/** The hosts of a generation, for its plan. */
export interface HostHardware {
  /** By host, in the order of ranks; left out: no host has announced anything. */
  readonly machines?: (HostMachine | null)[];
  readonly links?: MeasuredLinks | string;
  /** How frames travel between them; left out: there is one host, or no direct links here. */
  readonly choice?: LinkChoice;
}

interface HostsInput {
  readonly network: Network;
  readonly hosts: readonly HostShare[];
  readonly membership: Membership;
}

interface MeasuringInput extends HostsInput {
  readonly mailbox: Mailbox;
  readonly job: Pick<JobSpec, "sharding">;
  readonly command: number;
  readonly failedAtMs: number | undefined;
}

/** The announced hardware, and kept measurements of links. */
export function hardwareOf(input: HostsInput): HostHardware {
  const { network } = input;
  const names = namesOf(input);
  const links =
    names.length > 1 ? network.links?.find(names, network.connection.servers) : undefined;
  const machines = machinesOf(input);
  return { ...(machines.some((one) => one !== null) && { machines }), ...byWay(input, links) };
}

/** The choice of a way, and the links of that way. */
function byWay({ network, hosts }: HostsInput, known: KeptLinks | undefined) {
  const { mode } = network.hostLinks ?? {};
  const choice = hosts.length === 1 || !mode ? undefined : chooseWay(mode, known);
  const { direct, ...broker } = known ?? {};
  const links = choice?.way === "direct" && typeof direct === "object" ? direct : broker;
  return {
    ...(choice && { choice }),
    ...(known !== undefined && { links: links as MeasuredLinks }),
  };
}

/** The way of frames between hosts: by option, else by measurement. */
export function chooseWay(
  mode: NonNullable<HostLinks["mode"]>,
  known: KeptLinks | undefined,
): LinkChoice {
  if (known === undefined) {
    const reason =
      mode === "auto" ? "not measured: direct links where they open" : `chosen: links ${mode}`;
    return { way: mode === "broker" ? mode : "direct", reason };
  }
  const { direct, ...broker } = known;
  const measured = { broker, ...(direct !== undefined && { direct }) };
  if (mode !== "auto") return { way: mode, reason: `chosen: links ${mode}`, measured };
  if (direct === undefined) {
    return { way: "direct", reason: "only the broker was measured", measured };
  }
  if (typeof direct === "string") return { way: "broker", reason: direct, measured };
  // Both ways are compared by the same bytes of each kind, since the bytes of a step are unknown
  // here.
  const secondsOf = ({ allToAll, allReduce, roundSeconds }: MeasuredLinks) =>
    mixtureBytes / allToAll + mixtureBytes / allReduce + roundSeconds;
  const factor = secondsOf(broker) / secondsOf(direct);
  const reason = `measured: direct links take 1/${factor.toFixed(2)} of the broker's time`;
  return { way: factor >= 1 ? "direct" : "broker", reason, measured };
}

/** Bytes of each kind of exchange by which two ways are compared. */
const mixtureBytes = 2 ** 20;

/** Whether these hosts are to measure their links: a plan is searched, and none are kept. */
export function lacksLinks(input: MeasuringInput, { links, choice }: HostHardware): boolean {
  const { hosts, network, job, failedAtMs } = input;
  const isKnown = network.hostLinks?.mode !== "auto" || choice?.measured?.direct !== undefined;
  if ((links !== undefined && isKnown) || network.links === undefined || hosts.length === 1)
    return false;
  return job.sharding === "auto" && failedAtMs === undefined;
}

/** Adds the links, measured by all hosts at the same time; or why they were not. */
export async function withMeasuredLinks(
  known: HostHardware,
  input: MeasuringInput,
  signal: AbortSignal,
): Promise<HostHardware> {
  const { network, hosts, command, mailbox } = input;
  const { links: keeper, connection, log } = network;
  const failed = (why: string) => ({
    ...known,
    links: `the links between hosts were not measured (${why}), and count as no faster than shared memory`,
  });
  const fault = new AbortController(); // The failure of one host ends the measurement.
  try {
    const found = await request({
      ...{ network, mailbox, type: "host.measure" },
      signal: AbortSignal.any([signal, fault.signal]),
      to: hosts.map(({ host }) => ({ role: "host" as const, index: host })),
      body: {
        ...{ command, hosts: hosts.map(({ host }) => host) },
        isDirect: network.hostLinks !== undefined && network.hostLinks.mode !== "broker",
      },
      answer(message) {
        if (message.type !== "host.measured" || message.body.command !== command) return undefined;
        const { host: sender, links, direct } = message.body;
        const from = hosts.findIndex(({ host }) => host === sender);
        if (typeof links !== "string") {
          return from < 0 ? undefined : { from, answer: { links, direct } };
        }
        fault.abort(new PeerLostError(`host:${sender}`, links));
        return undefined;
      },
      deadlineMs: 2 * linksMs, // The hosts start a thread, and have `linksMs` themselves.
    });
    const direct = found.map((own) => own.direct).filter((own) => own !== undefined);
    const refused = direct.find((own) => typeof own === "string");
    const opened = direct.filter((own) => typeof own !== "string");
    const isAll = opened.length === hosts.length;
    const links: KeptLinks = {
      ...slowestOf(found.map((own) => own.links)),
      ...(isAll ? { direct: slowestOf(opened) } : refused !== undefined && { direct: refused }),
    };
    const notKept = keeper?.keep(namesOf(input), connection.servers, links);
    if (notKept !== undefined) {
      log.write("warn", `the links between hosts are not kept: ${notKept}`, {
        actor: "coordinator",
      });
    }
    return { ...known, ...byWay(input, links) };
  } catch (error) {
    if (signal.aborted) throw error;
    return failed(recordError(error).message);
  }
}

/** The links of all hosts: each step waits for the slowest. */
function slowestOf(links: readonly MeasuredLinks[]): MeasuredLinks {
  const slowest = (of: "allToAll" | "allReduce") => Math.min(...links.map((own) => own[of]));
  return {
    ...{ allToAll: slowest("allToAll"), allReduce: slowest("allReduce") },
    roundSeconds: Math.max(...links.map((own) => own.roundSeconds)),
  };
}

/** The announced speeds of devices on hosts that are faster or slower than the first. */
export function announcedSpeeds(input: HostsInput): Map<DeviceName, number> {
  const { hosts } = input;
  const counts = hosts.map(({ devices }) => devices);
  const speeds = hostSpeeds(counts, machinesOf(input)).flatMap(({ denseSpeed }, at) => {
    const { host, devices } = hosts[at] ?? { host: 0, devices: 0 };
    return Array.from({ length: denseSpeed === 1 ? 0 : devices }, (_, index) => {
      return [`${host}/${index}` as const, denseSpeed] as const;
    });
  });
  return new Map(speeds);
}

/** The announcements of the hosts; processes of one machine share its cores. */
function machinesOf({ hosts, membership }: HostsInput): (HostMachine | null)[] {
  const present = new Map(membership.present().map((one) => [one.host, one]));
  const onMachine = new Map<string, number>();
  for (const { host, devices } of hosts) {
    const name = present.get(host)?.machine ?? "";
    onMachine.set(name, (onMachine.get(name) ?? 0) + devices);
  }
  return hosts.map(({ host, devices }) => {
    const { hardware, machine = "" } = present.get(host) ?? {};
    if (hardware === undefined) return null;
    return { ...hardware, cores: (hardware.cores * devices) / (onMachine.get(machine) ?? devices) };
  });
}

function namesOf({ hosts, membership }: HostsInput): string[] {
  const present = new Map(membership.present().map((one) => [one.host, one.machine]));
  return hosts.map(({ host }) => present.get(host) ?? "");
}
