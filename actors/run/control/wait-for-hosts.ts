// Waits for the hosts of a generation. The first generation of a run waits for all devices that the
// job requests. A later one waits briefly for a lost host to return, then continues with the
// present hosts: the result does not depend on the number of devices, to the bit.

import { fromPromise } from "xstate";
import { HostsMissingError } from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { devicesOf, type HostShare, type Membership } from "../../host/membership.ts";
import type { RunRecord } from "../state/run-record.ts";
import { devicesMax } from "./scaling.ts";

export interface GatheringInput {
  readonly clock: Clock;
  readonly membership: Membership;
  /** The run that the hosts will belong to. */
  readonly run: string;
  /** Devices to wait for. */
  readonly wanted: number;
  /** Devices that the run can use. */
  readonly most: number;
  /** Whether the run may continue with fewer devices than wanted. */
  readonly isElastic: boolean;
  /** Called once, if devices are missing. */
  readonly onWait: () => void;
}

/** Wait for a lost host to return: a process starts within a second. */
export const graceMs = 2000;

/** Number of devices that a generation waits for, and the most that it can use. */
export function devicesWanted({
  membership,
  hosts,
  record,
  failedAtMs,
}: {
  readonly membership: Membership;
  /** Hosts of the previous generation; empty: there was none. */
  readonly hosts: readonly HostShare[];
  readonly record: RunRecord;
  /** Time of the previous generation's failure; undefined: it did not fail. */
  readonly failedAtMs: number | undefined;
}): { readonly wanted: number; readonly most: number } {
  const { job, devicesRequested, scaling } = record;
  const most = devicesMax(record);
  // A planned change ended the previous generation knowing the present devices: no wait.
  if (scaling !== undefined && failedAtMs === undefined) return { wanted: 1, most };
  const before = devicesOf(hosts);
  const first = devicesRequested ?? (job.devices === 0 ? membership.minDevices : job.devices);
  return { wanted: Math.min(before === 0 ? first : before, most), most };
}

/**
 * Resolves to the allocated hosts once enough devices are free. @throws HostsMissingError after the
 * membership's deadline
 */
export const gathering = fromPromise<HostShare[], GatheringInput>(({ input, signal }) => {
  const { clock, membership, run, wanted, most, isElastic, onWait } = input;
  return new Promise((resolve, reject) => {
    const cancels: (() => void)[] = [];
    const settle = (end: () => void) => {
      for (const cancel of cancels) cancel();
      end();
    };
    let enough = wanted;
    const look = () => {
      if (membership.devicesFor(run) < enough) return false;
      const shares = membership.sharesFor(run, most);
      membership.take(run, shares);
      settle(() => resolve(shares));
      return true;
    };
    if (look()) return;
    onWait();
    const { joinDeadlineMs } = membership;
    const giveUp = () => {
      // Other runs hold the devices: the deadlines of those runs end this wait.
      if (membership.devices >= enough)
        return void cancels.push(clock.after(joinDeadlineMs, giveUp));
      const error = new HostsMissingError(enough, membership.devices, joinDeadlineMs);
      settle(() => reject(error));
    };
    const goOnWithFewer = () => {
      enough = 1;
      look();
    };
    signal.addEventListener("abort", () => settle(() => reject(signal.reason)), { once: true });
    cancels.push(membership.onFree(look), clock.after(joinDeadlineMs, giveUp));
    if (isElastic) cancels.push(clock.after(Math.min(graceMs, joinDeadlineMs), goOnWithFewer));
  });
});
