// The options of a cluster, for `Cluster.start` and `osiris up`, with their defaults.

import { z } from "zod";
import { linkOptions } from "../../src/exchange/links/link-options.ts";
import { devicesMax } from "../../src/job/job-schema.ts";
import { usualHostSilenceMs } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { tenantsOptions } from "../../src/wire/tenancy/tenants.ts";
import { credentialOptions } from "../../src/wire/transports/credentials.ts";
import type { HostRecord } from "../host/membership.ts";
import { rootOptions } from "../jobs/allowed-paths.ts";
import { jetstreamOptions } from "../jobs/mirror/mirror-link.ts";
import { tracingOptions } from "../observe/observer.ts";
import type { LogOptions } from "../observe/process-log.ts";
import { usualFinishedMax } from "../run/state/registry.ts";
import type { Incident } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import type { World } from "../runtime/network.ts";
import { deviceThreads } from "../threads/device-threads.ts";

/** How long a lease is valid without a renewal, by default. */
export const usualLeaseMs = 2500;

export const clusterOptions = z.strictObject({
  /** Devices of this process: worker threads that compute. 0: only hosts that join. @default 2 */
  devices: z.int().min(0).max(128).default(2),
  /**
   * Threads of each of these devices: its kernels are split between them. "auto": the machine's
   * cores, shared by the devices. The number changes no bit of a model. @default 1
   */
  threads: deviceThreads.default(1),
  /**
   * Devices that must be present before a run without a number of its own starts. @default devices
   */
  minDevices: z.int().min(1).max(devicesMax).optional(),
  /** Longest wait of a run for its devices. @default 60000 */
  joinDeadlineMs: z.int().min(1).default(60_000),
  /**
   * Milliseconds without a heartbeat after which a joined host counts as lost; hosts send one every
   * 250 ms. For a run that trains, one heartbeat less; while it makes and restores a generation,
   * four times as long. Choose more for busy machines, at the price of a later notice of a dead
   * host. @default 1250
   */
  hostSilenceMs: z.int().min(750).max(600_000).default(usualHostSilenceMs),
  /** A real nats-server instead of the embedded broker: `nats://host:4222`. */
  nats: z.string().min(1).optional(),
  /** Credentials for the nats-server; the embedded broker uses the token. */
  ...credentialOptions,
  /** Port of the embedded broker; 0: any free port. @default 0 */
  port: z.int().min(0).max(65535).default(0),
  /** Name of the cluster: the second token of its subjects. @default "c1" */
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/)
    .default("c1"),
  /**
   * Makes several processes stand by for each other: with the same lease, one leads, and another
   * takes over when it is gone.
   */
  lease: z
    .strictObject({
      /**
       * Where the lease and the queue are stored: a directory that all processes see,
       * `s3://bucket/prefix`, or `nats`: in JetStream of the cluster's server.
       */
      directory: z.string().min(1),
      /** Milliseconds for which the lease is valid without a renewal. @default 2500 */
      ms: z.int().min(100).max(600_000).default(usualLeaseMs),
    })
    .optional(),
  /**
   * Where the queue is stored, so that its runs outlive this process: another process with the same
   * directory, or `s3://bucket/prefix`, takes them up. Left out: runs end with the process; under a
   * lease the queue is stored next to the lease.
   */
  state: z.strictObject({ directory: z.string().min(1) }).optional(),
  /** Mirrors events and the queue in JetStream, if the server of `nats` has it. */
  jetstream: jetstreamOptions.prefault({}),
  /** Finished runs that the cluster remembers; the oldest are forgotten first. */
  finishedMax: z.int().min(0).max(100_000).default(usualFinishedMax),
  /**
   * Directories that the paths of jobs must lie in. Left out: any path that the processes may
   * access.
   */
  roots: rootOptions.prefault({}),
  /** The tenants of the cluster, as in `osiris nats-config`; here, for their limits. */
  tenants: tenantsOptions.default({}),
  /**
   * How frames of the exchange travel between hosts: over the broker, or over direct links, with
   * the broker where one cannot be opened. "auto": the faster way where a plan is searched and
   * both were measured, else direct links. Changes no bit of a model. @default "auto"
   */
  links: z.enum(["auto", "direct", "broker"]).default("auto"),
  ...linkOptions,
  /** Where traces of steps are exported. @default nothing is traced */
  tracing: tracingOptions.optional(),
  /** Whether actors accept injected faults. For tests and the chaos harness. @default false */
  faultsAllowed: z.boolean().default(false),
});

/** Validated options, with defaults filled in. */
export type CheckedOptions = z.output<typeof clusterOptions>;

/** Options of `Cluster.start`, as a program writes them. */
export type ClusterOptions = z.input<typeof clusterOptions> & {
  /**
   * Called with each failure that a supervisor repaired, and with frames that could not be decoded.
   */
  readonly onIncident?: (incident: Incident) => void;
  /** Called with all present hosts whenever a host joins or leaves. */
  readonly onHosts?: (hosts: readonly HostRecord[]) => void;
  /** Under a lease: called with the name of the leader while another process leads. */
  readonly onStandby?: (leader: string) => void;
  /** Output of the log, besides the stored log of each run. @default nothing */
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
