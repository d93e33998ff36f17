// What fails because a generation is over: told to its coordinator, which is gone by then, and
// noted in the record of the incident that ended it (incident-log.ts, I1).

import { fromCallback } from "xstate";
import type { RunRecord } from "../run-state/run-record.ts";
import { type Network, subscribe } from "../runtime/mailbox.ts";

/** Hears the hosts of a generation that is over, for as long as it is invoked. */
export const hearingLate = fromCallback<
  { type: string },
  {
    readonly network: Network;
    readonly record: RunRecord;
    readonly claimed: { readonly generation: number } | undefined;
  }
>(({ input }) => {
  const { network, record, claimed } = input;
  if (claimed === undefined || record.incidents.open.length === 0) return;
  const { generation } = claimed;
  const address = { run: record.run, generation, role: "coordinator" as const, index: 0 };
  const subscription = subscribe(network, address, (message) => {
    if (message.type !== "host.failed") return;
    const { actor: offender, context, error: reason, host } = message.body;
    const incident = { offender, supervisor: `host:${host}`, context, reason };
    record.incidents.follow(generation, incident, network.clock.date());
  });
  return () => subscription.unsubscribe();
});
