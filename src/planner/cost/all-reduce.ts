// The all-reduce of gradients in the cost model: its seconds, and the bytes that devices send.

import { type Devices, deviceCount, type Workload } from "../shards.ts";
import type { MachineConstants } from "./constants.ts";

/** Seconds of an all-reduce of `bytes`; 0 for a single device. */
export function allReduceSeconds(
  devices: Devices,
  { insideHost, acrossHosts }: MachineConstants,
  bytes: number,
): number {
  const { hosts, perHost } = devices;
  if (deviceCount(devices) === 1) return 0;
  const n = Math.min(hosts, 2);
  const link = hosts === 1 ? insideHost : acrossHosts;
  const seconds = (bytes * (2 * n - 1)) / n / link.allReduce;
  return deviceCount(devices) > 2 * perHost ? 2 * seconds : seconds;
}

/**
 * Share of the bytes of float32 that dense gradients take between hosts: half of the sum and, where
 * a host has whole parts of the batch, half of its own part.
 */
export function gradientShare({ gradientParts }: Workload, { hosts }: Devices): number {
  if (gradientParts === undefined || hosts === 1) return 1;
  return gradientParts >= hosts ? 1 / 2 : 3 / 4;
}

/** Bytes of an all-reduce of `bytes`, over all devices; and between hosts. */
export function allReduceTraffic(devices: Devices, bytes: number) {
  return {
    all: 2 * (deviceCount(devices) - 1) * bytes,
    acrossHosts: 2 * (devices.hosts - 1) * bytes,
  };
}
