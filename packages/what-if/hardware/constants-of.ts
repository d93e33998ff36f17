// Derives the planner's inputs from a kind of machine: constants, and the memory below caches.

import {
  checkConstants,
  type JobSpec,
  type MachineConstants,
  type Setting,
} from "../../../internal.ts";
import { type ClusterDevices, type Hardware, type Link, sharesMemory } from "./hardware.ts";
import { serverHosts, serverKind } from "./server-hosts.ts";

/** Elements of a link in the planner's constants. */
type Collectives = MachineConstants["insideHost"];

/**
 * The planner's constants of a device: measured ones where the file has some. The others are
 * TorchRec's, of V100-class devices: factors of narrow rows, and passes over tables with copies.
 */
export function constantsOf(hardware: Hardware, devices: ClusterDevices): MachineConstants {
  const { constants, device, host, scaleUp, scaleOut, source } = hardware;
  const { memoryBytes, hostBytes, diskBytes } = memoryOf(hardware, devices);
  const sharers = scaleOut.isShared ? devices.perHost : 1;
  const acrossHosts = collectivesOf({ ...scaleOut, bandwidth: scaleOut.bandwidth / sharers });
  const hostRoundSeconds = devices.hosts === 1 ? 0 : scaleOut.latency;
  const between = { acrossHosts, hostRoundSeconds };
  // A row that misses a device's cache crosses the host's memory and the host link.
  const lowerBandwidth = Math.min(device.hostLink, host.memory.bandwidth / devices.perHost);
  if (constants !== undefined) {
    return { ...constants, ...between, memoryBytes, lowerBandwidth, cores: host.cores };
  }
  return checkConstants({
    source: `${hardware.name}: ${source}`,
    memoryBytes,
    // Without a disk, rows below caches have no other place.
    ...(host.disk === undefined
      ? { hostMemoryBytes: devices.perHost * hostBytes }
      : { diskBytes: devices.perHost * diskBytes }),
    memoryBandwidth: device.memory.lookups,
    lowerBandwidth,
    // Hosts with one device have no link inside.
    ...(!sharesMemory(hardware) && { insideHost: collectivesOf(scaleUp) }),
    ...between,
    idSortSeconds: device.idSort,
    denseFlops: (device.flops.float32 ?? 0) * device.gemmShare,
    ...(host.cores !== undefined && host.cores < devices.perHost && { cores: host.cores }),
  });
}

/**
 * The planner's constants of a cluster. Where servers run on machines of their own kind, `fleet`
 * has the memory and the row speed of each device. The planner takes the links of trainers for
 * servers too; plans that place rows on servers alone do not depend on links.
 */
export function fleetOf(
  hardware: Hardware,
  devices: ClusterDevices,
  placement: JobSpec["placement"],
): Pick<Setting, "constants" | "fleet"> {
  const constants = constantsOf(hardware, devices);
  const hosts = serverHosts(hardware, devices, placement);
  if (hosts === 0) return { constants };
  const servers = constantsOf(serverKind(hardware, devices), devices);
  const memoryBytes = Math.max(constants.memoryBytes, servers.memoryBytes);
  const ofHost = { memory: constants.memoryBytes / memoryBytes, rowSpeed: 1, denseSpeed: 1 };
  const rowSpeed = servers.memoryBandwidth / constants.memoryBandwidth;
  const ofServer = { memory: servers.memoryBytes / memoryBytes, rowSpeed, denseSpeed: 1 };
  const first = (devices.hosts - hosts) * devices.perHost;
  const fleet = Array.from({ length: devices.hosts * devices.perHost }, (_, rank) =>
    rank < first ? ofHost : ofServer,
  );
  return { constants: { ...constants, memoryBytes }, fleet };
}

function collectivesOf({ bandwidth, allToAllShare, allReduceShare }: Link) {
  const allToAll = bandwidth * allToAllShare;
  const allReduce = bandwidth * allReduceShare;
  return {
    allToAll,
    reduceScatter: allToAll,
    allGather: allToAll,
    allReduce,
  } satisfies Collectives;
}

/**
 * Bytes of a device; and for rows below it, of its share of the host's memory and disk. Where the
 * memory of devices is a part of the host's memory, only the rest of that is shared.
 */
export function memoryOf({ constants, device, host }: Hardware, { perHost }: ClusterDevices) {
  const { bytes, isShared } = device.memory;
  const isOfHost = isShared || constants !== undefined;
  const all = Math.min(constants?.memoryBytes ?? perHost * bytes, host.memory.bytes);
  const memoryBytes = isOfHost ? Math.floor(all / perHost) : bytes;
  const ofHost = isOfHost ? perHost * memoryBytes : 0;
  return {
    memoryBytes,
    hostBytes: Math.max(0, Math.floor((host.memory.bytes - ofHost) / perHost)),
    diskBytes: Math.floor((host.disk?.bytes ?? 0) / perHost),
  };
}

/** Share of the memory below devices that caches of rows may take. */
const cacheShare = 0.9;

/**
 * The job with the caches that this kind of machine has room for: in its devices' memory, and in
 * each device's share of the host's memory. Rows that no cache holds are on the disk. All devices
 * have caches of one size, so that the smaller of two kinds of machines decides.
 */
export function withCachesOf<Job extends Pick<JobSpec, "tiers">>(
  job: Job,
  hardware: Hardware,
  devices: ClusterDevices,
): Job {
  const all = [hardware, serverKind(hardware, devices)].map((kind) => memoryOf(kind, devices));
  const least = (level: "memoryBytes" | "hostBytes") =>
    Math.floor(cacheShare * Math.min(...all.map((own) => own[level])));
  const tiers = { ...job.tiers, hbmBytes: least("memoryBytes"), ddrBytes: least("hostBytes") };
  return { ...job, tiers };
}
