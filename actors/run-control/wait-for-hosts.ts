// Gathering: the hosts that a generation begins with. The first one of a run waits until all are
// there that it asks for; a later one waits a moment for who was lost to come back, and goes on
// with whoever is there (the number of devices changes no bit).

import { fromPromise } from "xstate";
import { HostsMissingError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { HostShare, Membership } from "../host/membership.ts";

export interface GatheringInput {
  readonly clock: Clock;
  readonly membership: Membership;
  /** Whose hosts they will be. */
  readonly run: string;
  /** Devices to wait for. */
  readonly wanted: number;
  /** Devices that are of use. */
  readonly most: number;
  /** Whether it goes on with fewer than it wants. */
  readonly isElastic: boolean;
  /** Called once, where it has to wait. */
  readonly onWait: () => void;
}

/** How long a host that was lost may take to be back: a process starts within a second. */
export const graceMs = 2000;

/** @throws HostsMissingError after the membership's deadline */
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
      // Other runs have them: it is their deadlines that end this wait.
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
