// The leader: the tree of actors under the cluster supervisor. Above it is only the process, which
// restarts it when it fails: the state of runs is in the registry and in the store.

import { type Actor, createActor } from "xstate";
import { type ErrorRecord, recordError } from "../../src/errors/errors.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { Subscription } from "../../src/wire/messages/transport.ts";
import { hostMachine } from "../host/host.ts";
import { hostsMachine } from "../host/host-registry.ts";
import type { Announcement, Membership } from "../host/membership.ts";
import type { Access } from "../jobs/allowed-paths.ts";
import { jobServiceMachine } from "../jobs/job-service.ts";
import type { RunMirror } from "../jobs/mirror/run-mirror.ts";
import { runQueueMachine } from "../jobs/run-queue.ts";
import { openInspection } from "../observe/inspection.ts";
import type { Registry } from "../run/state/registry.ts";
import { actorClock } from "../runtime/define-actor.ts";
import type { Incident } from "../runtime/incident.ts";
import { clusterScope, type Network, openMailbox } from "../runtime/mailbox.ts";
import { decide, emptyHistory, type RestartHistory } from "../runtime/restart-policy.ts";
import { backoff, type SupervisorInput, supervisorMachine } from "../runtime/supervisor.ts";

export interface LeaderOptions {
  readonly network: Network;
  readonly registry: Registry;
  readonly membership: Membership;
  readonly launcher: Launcher;
  readonly access: Access;
  /** Devices of this process. */
  readonly devices: number;
  readonly onIncident: (incident: Incident) => void;
  /** The mirror of its runs, if there is one. */
  readonly mirror?: RunMirror | undefined;
}

/**
 * Most restarts of the cluster supervisor, or of the broker, within a minute, before the cluster
 * gives up.
 */
export const intensity = { restartsMax: 10, windowMs: 60_000 } as const;

export class Leader {
  readonly #options: LeaderOptions;
  #actor: Actor<typeof supervisorMachine>;
  readonly #inspection: Subscription;
  #restarts: RestartHistory = emptyHistory;
  #isStopped = false;

  constructor(options: LeaderOptions) {
    this.#options = options;
    this.#actor = this.#start();
    this.#inspection = openInspection({ ...options, tree: () => this.#actor });
  }

  /** Stops all runs at their current state, and every thread that was started for them. */
  stop(): void {
    this.#isStopped = true;
    this.#inspection.unsubscribe();
    this.#actor.stop();
  }

  #start(): Actor<typeof supervisorMachine> {
    const { network, registry, membership, access, launcher, devices } = this.#options;
    const ownHost = {
      id: "host:0",
      restart: "permanent" as const,
      start: () => ({ logic: hostMachine, input: { network, launcher, host: 0, devices } }),
    };
    const onRefused = ({ machine, pid }: Announcement, error: ErrorRecord) =>
      this.#report(`process ${pid} on ${machine}`, error);
    const input: SupervisorInput = {
      name: "cluster",
      strategy: "one-for-one",
      intensity,
      clock: network.clock,
      mailbox: openMailbox(network, clusterScope, { role: "cluster", index: 0 }),
      onRestart: (incident) => this.#options.onIncident(incident),
      children: [
        ...(devices === 0 ? [] : [ownHost]),
        {
          id: "hosts",
          restart: "permanent",
          start: () => ({ logic: hostsMachine, input: { network, membership, onRefused } }),
        },
        {
          id: "jobs",
          restart: "permanent",
          start: () => ({
            logic: jobServiceMachine,
            input: { network, registry, membership, access },
          }),
        },
        {
          id: "queue",
          restart: "permanent",
          start: () => ({
            logic: runQueueMachine,
            input: { network, registry, membership, access },
          }),
        },
      ],
    };
    const actor = createActor(supervisorMachine, { input, clock: actorClock(network.clock) });
    actor.subscribe({ error: (error) => this.#failed(error) });
    return actor.start();
  }

  /** Applies the supervisors' restart policy to the root of the tree, which has no supervisor. */
  #failed(error: unknown): void {
    this.#report("cluster", recordError(error));
    if (this.#isStopped) return;
    const { network, registry } = this.#options;
    const children = [{ id: "cluster", restart: "permanent" as const }];
    const policy = {
      supervisor: "process",
      strategy: "one-for-one" as const,
      children,
      intensity,
      backoff,
    };
    const end = { child: "cluster", atMs: network.clock.now(), reason: "error" as const };
    // Whatever the error, the runs are in the registry and the store: the leader is always
    // restarted.
    const record = { ...recordError(error), recovery: "restore" as const };
    const decision = decide(policy, this.#restarts, { ...end, error: record });
    if (decision.escalate) {
      for (const run of registry.all()) {
        if (!run.isOver) run.append(0, { type: "run.failed", error: decision.cause });
      }
      return;
    }
    this.#restarts = decision.history;
    network.clock.after(decision.delayMs, () => {
      if (!this.#isStopped) this.#actor = this.#start();
    });
  }

  #report(offender: string, reason: ErrorRecord): void {
    const where = { supervisor: "process", context: "running" };
    this.#options.onIncident({ offender, ...where, reason });
  }
}
