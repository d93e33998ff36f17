// Hosts of servers: devices that hold rows and run no samples (`placement.servers`) may be machines
// of another kind, as the CPU servers beside the GPUs of the Zion paper (arXiv 2011.05497). They
// are the last hosts of a cluster, and each runs as many devices as the others.

import { expected, type JobSpec } from "../../../internal.ts";
import type { ClusterDevices, Hardware } from "./hardware.ts";

/**
 * The number of hosts that are servers of another kind; 0: there is no other kind.
 * @throws InvalidOptionError where servers would not fill whole hosts, or would leave no other host
 */
export function serverHosts(
  { servers: kind }: Hardware,
  { hosts, perHost }: ClusterDevices,
  { servers = 0 }: Partial<JobSpec["placement"]> = {},
): number {
  if (kind === undefined) return 0;
  if (hosts === 1) {
    throw expected("hosts", `2 or more, as the last ones are servers of ${kind.name}`, hosts);
  }
  const count = servers / perHost;
  if (Number.isInteger(count) && count >= 1 && count < hosts) return count;
  const each = hosts === 2 ? "1 host" : `each of 1 to ${hosts - 1} hosts`;
  const what = `${perHost} for ${each} of ${kind.name}`;
  throw expected("placement.servers", what, servers);
}

/**
 * The kind of the hosts of servers, divided into as many equal devices as other hosts have. If no
 * other kind is given, it is `hardware` itself.
 */
export function serverKind(hardware: Hardware, { perHost }: ClusterDevices): Hardware {
  const { servers } = hardware;
  if (servers === undefined) return hardware;
  const { device, scaleUp, scaleOut, host } = servers;
  const share = host.devices / perHost;
  if (share === 1) return servers;
  const { memory, flops } = device;
  const { bandwidth, isShared } = scaleOut;
  const peaks = Object.entries(flops).map(([precision, peak]) => [precision, share * (peak ?? 0)]);
  return {
    ...servers,
    host: { ...host, devices: perHost },
    device: {
      ...device,
      memory: {
        ...memory,
        bytes: Math.floor(share * memory.bytes),
        bandwidth: share * memory.bandwidth,
        lookups: share * memory.lookups,
      },
      flops: Object.fromEntries(peaks),
      idSort: device.idSort / share,
      hostLink: share * device.hostLink,
    },
    scaleUp: { ...scaleUp, bandwidth: share * scaleUp.bandwidth },
    scaleOut: { ...scaleOut, isShared: true, bandwidth: (isShared ? 1 : host.devices) * bandwidth },
  };
}
