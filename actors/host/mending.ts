// Mending: how a generation on a host replaces one failed actor while the others continue. It
// applies to a reader of synchronous training (host-generation.ts), and to any actor of
// asynchronous training (asynchronous/generation.ts).

import { recordError } from "../../src/errors/errors.ts";
import { type ActorFailedError, failureOf, type Incident } from "../runtime/incident.ts";
import type { MessageEvent, Network } from "../runtime/mailbox.ts";
import { decide, type RestartHistory, type RestartPolicy } from "../runtime/restart-policy.ts";
import { backoff } from "../runtime/supervisor.ts";
import type { GenerationSpec } from "../threads/generation-spec.ts";

export type Mended = MessageEvent<"host.mended">["body"];

export interface MendingHost {
  readonly network: Pick<Network, "clock">;
  readonly spec: Pick<GenerationSpec, "run" | "generation">;
  readonly host: number;
}

const placeOf = ({ spec, host }: MendingHost) => ({
  supervisor: `host:${host}`,
  context: `run ${spec.run}, generation ${spec.generation}`,
});

/** The failure of actor `id` of the generation. */
export function failureOfActor(
  at: MendingHost,
  id: string,
  error: unknown,
  more: Pick<Incident, "step" | "waits"> = {},
): ActorFailedError {
  return failureOf(error, { ...placeOf(at), offender: id, host: at.host, ...more });
}

/** The message of a replacement, after its delay; undefined: it failed too often, or for good. */
export function replacementOf(
  at: MendingHost & { readonly history: RestartHistory },
  id: string,
  failure: ActorFailedError,
  intensity: RestartPolicy["intensity"],
): { readonly history: RestartHistory; readonly body: Mended } | undefined {
  const { supervisor, context } = placeOf(at);
  const children = [{ id, restart: "permanent" }] as const;
  const decision = decide(
    { supervisor, strategy: "one-for-one", children, intensity, backoff },
    at.history,
    { child: id, atMs: at.network.clock.now(), reason: "error", error: recordError(failure) },
  );
  if (decision.escalate) return undefined;
  const { offender: actor, reason: error, step } = failure.incident;
  const { delayMs, history } = decision;
  return { history, body: { host: at.host, actor, context, error, step, delayMs } };
}
