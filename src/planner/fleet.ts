// The hosts of a run, as input of a plan: memory, cores and measured speed of each host, and the
// measured links between them. Placement changes no bit of the result (law 4).

import { z } from "zod";
import type { MachineConstants } from "./cost/constants.ts";
import type { PlannedDevice } from "./shards.ts";

const rate = z.number().positive();

/** The hardware that a host announces. */
export interface HostMachine {
  /** Bytes of memory that its process may use. */
  readonly memoryBytes: number;
  readonly cores: number;
  /** Bytes per second of lookups, and operations per second; left out: it was never measured. */
  readonly lookups?: number | undefined;
  readonly flops?: number | undefined;
}

/** Schema of the links between some hosts, measured by an exchange of one device of each. */
export const measuredLinksSchema = z.object({
  /** Bytes per second of a host, counted as the cost model counts (cost/cost.ts). */
  allToAll: rate,
  /** Bytes of gradients per second. */
  allReduce: rate,
  /** Seconds of a round without bytes. */
  roundSeconds: z.number().min(0),
});

export type MeasuredLinks = z.output<typeof measuredLinksSchema>;

const directSchema = z.union([measuredLinksSchema, z.string()]).optional();

/** The links over the broker; direct links, if they were measured, or why they could not be. */
export const keptLinksSchema = measuredLinksSchema.extend({ direct: directSchema });

export type KeptLinks = z.output<typeof keptLinksSchema>;

/** The way of frames between the hosts of a run, the reason for it, and the measured links. */
export const linkChoiceSchema = z.object({
  way: z.enum(["broker", "direct"]),
  reason: z.string(),
  measured: z.object({ broker: measuredLinksSchema, direct: directSchema }).optional(),
});

export type LinkChoice = z.output<typeof linkChoiceSchema>;

/** Stores measured links by the names of the machines and the broker between them. */
export interface LinkKeeper {
  /** The links of these machines, or of a set of machines that includes them. */
  find(machines: readonly string[], broker: string): KeptLinks | undefined;
  /** Returns the reason if the links could not be stored. */
  keep(machines: readonly string[], broker: string, links: KeptLinks): string | undefined;
}

/** The speed of a host, relative to the first host. */
export interface HostSpeed {
  readonly rowSpeed: number;
  readonly denseSpeed: number;
}

/** Ratio of speeds up to which they count as equal: calibrations of one machine differ as much. */
const noise = 1.25;

/** The speed of a device of each host. Devices that outnumber the cores run in turns. */
export function hostSpeeds(
  hosts: readonly number[],
  machines: readonly (HostMachine | null)[],
): HostSpeed[] {
  const [first] = machines;
  const turnsOf = (host: number) => {
    const { cores = Number.POSITIVE_INFINITY } = machines[host] ?? {};
    return Math.min(1, cores / (hosts[host] ?? 1));
  };
  return hosts.map((_, host) => {
    const speedBy = (of: "lookups" | "flops") => {
      const [own, reference] = [machines[host]?.[of], first?.[of]];
      const measured = own === undefined || reference === undefined ? 1 : own / reference;
      const speed = (measured * turnsOf(host)) / turnsOf(0);
      return speed < noise && speed > 1 / noise ? 1 : speed;
    };
    return { rowSpeed: speedBy("lookups"), denseSpeed: speedBy("flops") };
  });
}

/** Whether the present hosts are as fast as the former, and have enough memory for their plan. */
export function areAlike(
  hosts: readonly number[],
  former: PlannedHosts["machines"] = [],
  now: PlannedHosts["machines"] = [],
): boolean {
  const [before, after] = [hostSpeeds(hosts, former), hostSpeeds(hosts, now)];
  return hosts.every((_, host) => {
    const [was, is] = [before[host], after[host]];
    const isAsFast = was?.rowSpeed === is?.rowSpeed && was?.denseSpeed === is?.denseSpeed;
    const bytes = former[host]?.memoryBytes ?? 0;
    return isAsFast && (now[host]?.memoryBytes ?? bytes) * noise >= bytes;
  });
}

/** The hosts that a plan is made for. */
export interface PlannedHosts {
  /** Number of devices of each host, in the order of their ranks. */
  readonly hosts: readonly number[];
  readonly constants: MachineConstants;
  /** Bytes that the process of a host may use, for hosts that have not announced their memory. */
  readonly memoryBytes: number;
  /** The hardware of each host; left out: hosts are alike. */
  readonly machines?: readonly (HostMachine | null)[] | undefined;
}

/** Bytes that the process of each host may use. */
export function bytesOfHosts({
  hosts,
  machines,
  memoryBytes,
}: Omit<PlannedHosts, "constants">): number[] {
  return hosts.map((_, host) => machines?.[host]?.memoryBytes ?? memoryBytes);
}

type Memory = "together" | "each";

/**
 * The constants of the devices; and each device, if hosts are unequal. A device may use the memory
 * of its host (`together`) or an even share of it (`each`), less `ddrBytes`.
 */
export function devicesIn(planned: PlannedHosts, memory: Memory, ddrBytes = 0) {
  const { memoryBytes, fleet } = fleetIn(planned, memory, ddrBytes);
  const constants = { ...planned.constants, memoryBytes };
  // Without `cores`: the speeds already include that devices share the cores in turns.
  return fleet === undefined
    ? { constants, fleet }
    : { constants: { ...constants, cores: undefined }, fleet };
}

/** Bytes of the device with the most memory; and each device, if hosts are unequal. */
export function fleetIn(
  planned: Omit<PlannedHosts, "constants">,
  memory: Memory,
  ddrBytes = 0,
): { readonly memoryBytes: number; readonly fleet: readonly PlannedDevice[] | undefined } {
  const { hosts, machines = [] } = planned;
  const most = Math.max(1, ...hosts);
  const bytes = bytesOfHosts(planned).map((own, host) => {
    const sharers = machines.length === 0 ? most : (hosts[host] ?? most);
    return Math.floor(own / (memory === "together" ? 1 : sharers)) - ddrBytes;
  });
  const [memoryBytes, least] = [Math.max(...bytes), Math.min(...bytes)];
  const speeds = hostSpeeds(hosts, machines);
  const isSlow = speeds.some(({ rowSpeed, denseSpeed }) => rowSpeed !== 1 || denseSpeed !== 1);
  if (!isSlow && least * noise >= memoryBytes) return { memoryBytes: least, fleet: undefined };
  const fleet = hosts.flatMap((count, host): PlannedDevice[] => {
    const { rowSpeed = 1, denseSpeed = 1 } = speeds[host] ?? {};
    const own = { memory: (bytes[host] ?? 0) / memoryBytes, rowSpeed, denseSpeed };
    return Array.from({ length: count }, () => own);
  });
  return { memoryBytes, fleet };
}

/** The hosts for a report; empty if they are alike. */
export function unequalHosts(planned: PlannedHosts) {
  if (devicesIn(planned, "each").fleet === undefined) return {};
  const bytes = bytesOfHosts(planned);
  const speeds = hostSpeeds(planned.hosts, planned.machines ?? []);
  return { hosts: speeds.map((own, host) => ({ ...own, memoryBytes: bytes[host] ?? 0 })) };
}

/**
 * The constants for these hosts. The devices of a host share its link; without a measurement a link
 * is at most as fast as shared memory. Hosts with unequal numbers of devices count as one host
 * whose devices have the links between hosts.
 */
export function withLinks(
  constants: MachineConstants,
  hosts: readonly number[],
  links: MeasuredLinks | undefined,
): MachineConstants {
  if (hosts.length === 1) return constants;
  const { insideHost, acrossHosts } = constants;
  const perHost = Math.max(...hosts);
  const least = (of: keyof typeof insideHost) => Math.min(insideHost[of], acrossHosts[of]);
  const shared = (links?.allToAll ?? 0) / perHost;
  // As `allReduceSeconds` counts: 3/2 of the bytes, and twice as many on more than two hosts.
  const counted = hosts.length > 2 ? 3 : 3 / 2;
  const across =
    links === undefined
      ? {
          ...{ allToAll: least("allToAll"), reduceScatter: least("reduceScatter") },
          ...{ allGather: least("allGather"), allReduce: least("allReduce") },
        }
      : {
          ...{ allToAll: shared, reduceScatter: shared, allGather: shared },
          allReduce: counted * links.allReduce,
        };
  const isUneven = hosts.some((count) => count !== perHost);
  return {
    ...constants,
    acrossHosts: across,
    ...(isUneven && { insideHost: across }),
    hostRoundSeconds: links?.roundSeconds ?? constants.hostRoundSeconds,
  };
}
