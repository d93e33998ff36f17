// Secondary failures: actors fail because their generation has ended. Their hosts report to the
// training coordinator, which has stopped by then; the job supervisor receives the messages instead
// and records them in the incident that ended the generation (I1 of incident-log.ts).

import { fromCallback } from "xstate";
import { type Network, subscribe } from "../../runtime/mailbox.ts";
import type { RunRecord } from "../state/run-record.ts";

/** Receives host.failed of the last generation while it is invoked. */
export const receivingSecondaryFailures = fromCallback<
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
