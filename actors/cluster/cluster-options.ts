// The options of a cluster: what `Cluster.start` and `osiris up` take, with their defaults.

import { z } from "zod";
import { usualHostSilenceMs } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { tenantsOptions } from "../../src/wire/tenancy/tenants.ts";
import { credentialOptions } from "../../src/wire/transports/credentials.ts";
import type { HostRecord } from "../host/membership.ts";
import { rootOptions } from "../jobs/allowed-paths.ts";
import { jetstreamOptions } from "../mirror/mirror-link.ts";
import { tracingOptions } from "../observe/observer.ts";
import type { LogOptions } from "../observe/process-log.ts";
import { usualFinishedMax } from "../run/state/registry.ts";
import type { Incident } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import type { World } from "../runtime/network.ts";

export const clusterOptions = z.strictObject({
  /** Devices of this process: worker threads that compute. 0: only hosts that join. @default 2 */
  devices: z.int().min(0).max(128).default(2),
  /** A run waits until so many devices are there, its job's own number aside. @default devices */
  minDevices: z.int().min(1).max(128).optional(),
  /** Longest that a run waits for them. @default 60000 */
  joinDeadlineMs: z.int().min(1).default(60_000),
  /**
   * Milliseconds without a heartbeat, which hosts send every 250 ms, after which a host that joined
   * is lost; of a run that trains a beat less; four times as long while it makes a generation and
   * restores it. Longer for busy machines, which then notice a dead host later. @default 1250
   */
  hostSilenceMs: z.int().min(750).max(600_000).default(usualHostSilenceMs),
  /** A real nats-server instead of the embedded broker: `nats://host:4222`. */
  nats: z.string().min(1).optional(),
  /** Credentials for it; the embedded broker takes a token. */
  ...credentialOptions,
  /** Port of the embedded broker; 0: any that is free. @default 0 */
  port: z.int().min(0).max(65535).default(0),
  /** Name of the cluster: the second token of its subjects. @default "c1" */
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/)
    .default("c1"),
  /**
   * Several processes may be started with the same lease: one leads, the others stand by, and one
   * of them leads when it is gone. It has a directory that all of them see, and is kept in NATS
   * where the server has JetStream.
   */
  lease: z
    .strictObject({
      directory: z.string().min(1),
      /** Milliseconds that the lease holds without a renewal. @default 2500 */
      ms: z.int().min(100).max(600_000).default(2500),
    })
    .optional(),
  /**
   * Where the queue lies, so that its runs outlive this process: a process that is started with the
   * same directory has them. Left out: the runs end with the process; under a lease the queue lies
   * beside the lease.
   */
  state: z.strictObject({ directory: z.string().min(1) }).optional(),
  /** Copies of events and of the queue in JetStream, where the server of `nats` has it. */
  jetstream: jetstreamOptions.prefault({}),
  /** Finished runs that the cluster remembers; the oldest are forgotten first. */
  finishedMax: z.int().min(0).max(100_000).default(usualFinishedMax),
  /** Directories that the paths of jobs must lie in. Left out: any that its processes may use. */
  roots: rootOptions.prefault({}),
  /** Who shares the cluster, as `osiris nats-config` takes it: here, how much each may ask. */
  tenants: tenantsOptions.default({}),
  /** Where traces of steps go. @default nothing is traced */
  tracing: tracingOptions.optional(),
  /** Whether actors may be told to throw. For tests and the chaos harness. @default false */
  faultsAllowed: z.boolean().default(false),
});

/** Options that were checked, defaults filled in. */
export type CheckedOptions = z.output<typeof clusterOptions>;

export type ClusterOptions = z.input<typeof clusterOptions> & {
  /** Told of each failure that a supervisor mended, and of frames that were no messages. */
  readonly onIncident?: (incident: Incident) => void;
  /** Told all hosts that are there, whenever one has come or gone. */
  readonly onHosts?: (hosts: readonly HostRecord[]) => void;
  /** Under a lease: told who leads, while that is another process. */
  readonly onStandby?: (leader: string) => void;
  /** What becomes of its log, besides what is kept of each run. @default nothing */
  readonly log?: LogOptions;
  /** Serves a page that shows the cluster: `dashboard()` makes one. @default no page */
  readonly dashboard?: DashboardSource;
  /** How threads are started. @default worker threads */
  readonly launcher?: Launcher;
  /** Clock and disk of its actors. @default the machine's own */
  readonly world?: World;
};

/** A page of a cluster that is served. The cluster closes it. */
export interface Dashboard {
  /** The operator's address: with a token at its end, where the page needs one. */
  readonly url: string;
  /** The address of each tenant, by name: its page shows the tenant's own runs. */
  readonly tenantUrls: Readonly<Record<string, string>>;
  /** Tabs that are open now. */
  readonly tabs: number;
  close(): Promise<void>;
}

/**
 * Opens a page of a cluster with these tenants.
 * @throws InvalidOptionError, InputUnusableError where the page cannot be served
 */
export type DashboardSource = (network: Network, tenants: readonly string[]) => Promise<Dashboard>;
