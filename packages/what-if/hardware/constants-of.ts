// What the planner needs of a kind of machine: its constants, and the memory below its caches.

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
  const own = { memory: constants.memoryBytes / memoryBytes, rowSpeed: 1, denseSpeed: 1 };
  const rowSpeed = servers.memoryBandwidth / constants.memoryBandwidth;
  const ofServer = { memory: servers.memoryBytes / memoryBytes, rowSpeed, denseSpeed: 1 };
  const first = (devices.hosts - hosts) * devices.perHost;
  const fleet = Array.from({ length: devices.hosts * devices.perHost }, (_, rank) =>
    rank < first ? own : ofServer,
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
 * Bytes of each device; and for the rows below, of each device's share of the host's memory and
 * disk. Devices whose memory is a part of the host's leave what is not theirs.
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
 * each device's share of the host's memory below. What a cache does not hold rests on the disk.
 * Caches of servers are as large, so that of two kinds the smaller decides.
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
