// The cluster: starts broker, connection, registry and the tree of actors in order, and stops them
// in reverse.
//
//   Cluster
//   ├─ broker thread           (embedded, unless a NATS URL is given; restarted when it dies)
//   └─ cluster supervisor      (restarted when it fails: runs resume from their checkpoints)
//      ├─ host:0 ── generation ── devices ── shards; readers; bridge
//      ├─ hosts                (host processes that join: host-process.ts)
//      ├─ jobs
//      └─ queue ── job supervisor ── coordinators

import { hostname } from "node:os";
import { recordError } from "../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { withModel } from "../../src/job/job-files.ts";
import { kernelNotice, openKernels } from "../../src/kernels/index.ts";
import { checkOptions, expected } from "../../src/ports/check-options.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import { type Launcher, rememberThreads, workerLauncher } from "../../src/ports/launcher.ts";
import { type BrokerThread, startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { eventsSubject } from "../../src/wire/messages/subjects.ts";
import { Client } from "../client/client.ts";
import type { Run } from "../client/run.ts";
import { memoryOf } from "../host/data-preparation.ts";
import { type HostRecord, Membership } from "../host/membership.ts";
import { modulesOf } from "../jobs/allowed-paths.ts";
import type { RunLine } from "../jobs/job-api.ts";
import { type MirrorLink, openMirrorLink } from "../jobs/mirror/mirror-link.ts";
import { mirroring, RunMirror } from "../jobs/mirror/run-mirror.ts";
import { logEvent } from "../observe/event-lines.ts";
import { type Observer, observing, openObserver } from "../observe/observer.ts";
import { keptNowhere, Registry } from "../run/state/registry.ts";
import type { PublishEvent } from "../run/state/run-record.ts";
import type { Incident } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import { openNetwork } from "../runtime/network.ts";
import { backoff } from "../runtime/supervisor.ts";
import { withDeviceThreads } from "../threads/device-threads.ts";
import { hardwareHere, linkKeeper } from "../threads/kept-constants.ts";
import {
  type CheckedOptions,
  type ClusterOptions,
  clusterOptions,
  type Dashboard,
  usualLeaseMs,
} from "./cluster-options.ts";
import { ElectedLeader } from "./elected-leader.ts";
import { refuseSecondLeader } from "./election.ts";
import { intensity, Leader } from "./leader.ts";
import { type LeasePlace, openLeasePlace } from "./lease-place.ts";

/** Deadline of a connection to the embedded broker, which is known to run: only load delays it. */
const embeddedMs = 60_000;

/** A running cluster. Close it, or declare it with `await using`. */
export class Cluster implements AsyncDisposable {
  /** Address for clients: `nats://127.0.0.1:41234`. */
  readonly url: string;
  /** The token that clients of the embedded broker need. */
  readonly token: string | undefined;
  /** Name of the cluster, by which clients and hosts find it. */
  readonly name: string;
  /** Devices of this process. */
  readonly devices: number;
  /** Its own client, with the rights of the operator. */
  readonly client: Client;
  readonly network: Network;
  readonly #membership: Membership;
  readonly #launcher: ReturnType<typeof rememberThreads>;
  /** Resolves once this process is the leader: immediately, unless there is a lease. */
  readonly leading: Promise<void>;
  /**
   * Rejects when this process stops being the leader: with LeadershipLostError if another process
   * leads, ClusterServedError if another leader already serves the cluster, StoreFailedError or an
   * error of the disk if it could not take up the runs.
   */
  readonly lost: Promise<never>;
  readonly #leader: Leader | ElectedLeader;
  readonly #link: MirrorLink | undefined;
  #mirror: RunMirror | undefined;
  #broker: BrokerThread | undefined;
  #isClosed = false;
  /** Modules of models that this process has submitted. */
  readonly #ownModels = new Set<string>();
  #dashboard: Dashboard | undefined;
  readonly #observer: Observer;

  private constructor(parts: {
    readonly observer: Observer;
    options: CheckedOptions;
    broker: BrokerThread | undefined;
    network: Network;
    place: LeasePlace | undefined;
    link: MirrorLink | undefined;
    launcher: Launcher;
    onHosts: (hosts: readonly HostRecord[]) => void;
    onStandby: (leader: string) => void;
  }) {
    const { options, broker, network, place, launcher, observer, onHosts, onStandby } = parts;
    const { link } = parts;
    this.#link = link;
    const { incident: onIncident } = observer;
    const { name: cluster, devices, lease, roots, tenants, finishedMax } = options;
    const { transport } = network;
    this.url = broker?.url ?? options.nats ?? "";
    this.token = tokenOf(broker) ?? options.token;
    this.name = cluster;
    this.devices = devices;
    this.network = network;
    this.#broker = broker;
    this.#observer = observer;
    this.#membership = membershipOf(options, memoryOf(network));
    this.#membership.onChange(() => {
      network.log.write("info", "hosts", { actor: "hosts:0", hosts: this.hosts });
      onHosts(this.hosts);
    });
    const prefix = prefixAt(network.clock);
    const publish = (over: Network, ...[event, tenant]: Parameters<PublishEvent>) => {
      const { payload, headers } = encodeBody(event, "application/json");
      if (this.#isClosed) return;
      logEvent(network.log, event);
      over.transport.publish(eventsSubject(cluster, event.run, tenant), payload, { headers });
    };
    this.client = new Client({ transport, cluster, clock: realClock });
    this.#launcher = rememberThreads(launcher, observing(observer, network));
    const common = {
      network,
      devices,
      launcher: this.#launcher,
      membership: this.#membership,
      access: { roots, tenants, ownModels: this.#ownModels },
      onIncident,
    };
    let onLeading = () => {};
    let onLost: (error: unknown) => void = () => {};
    this.leading = new Promise((resolve) => {
      onLeading = resolve;
    });
    this.lost = new Promise((_, reject) => {
      onLost = reject;
    });
    this.lost.catch(() => {}); // A caller may ignore `lost`: the cluster then only stops leading.
    if (place === undefined) {
      const keeper = mirroring(keptNowhere, (run) => this.#mirror?.changed(run));
      const publishAll: PublishEvent = (...event) => {
        this.#mirror?.published(event[0]);
        publish(network, ...event);
      };
      const registry = new Registry(prefix, publishAll, keeper, finishedMax);
      this.#mirror = link && new RunMirror(link, { network, registry, isLeading: () => true });
      this.#leader = new Leader({ ...common, registry, mirror: this.#mirror });
      onLeading();
    } else {
      const leaseMs = lease?.ms ?? usualLeaseMs;
      const isAlone = lease === undefined && options.nats !== undefined;
      const forLease = { place, leaseMs, prefix, publish, finishedMax };
      const callbacks = { onStandby, onLeading, onLost, mirror: link, isAlone };
      this.#leader = new ElectedLeader({ ...common, ...forLease, ...callbacks });
    }
    if (broker !== undefined) this.#watchBroker(broker, options);
  }

  /**
   * Starts a cluster: the embedded broker, or a connection to `nats`, and the actors.
   * @throws InvalidOptionError, TransportLostError if the broker is unreachable, InputUnusableError
   * if the lease cannot be stored or the dashboard cannot be served, ClusterServedError if the
   * cluster already has a leader
   */
  static async start(given: ClusterOptions = {}): Promise<Cluster> {
    if (Object(given) !== given) throw expected("options", "an object", given);
    const {
      onIncident = () => {},
      onHosts = () => {},
      onStandby = () => {},
      launcher = workerLauncher,
      world,
      log,
      dashboard: openDashboard,
      ...plain
    } = given;
    const options = checkOptions(clusterOptions, plain);
    if (options.lease !== undefined && options.nats === undefined) {
      throw expected("nats", "set, because `lease` is set: the broker must outlive a leader", "");
    }
    const broker =
      options.nats === undefined ? await startBrokerThread(settingsOf(options)) : undefined;
    const { name, faultsAllowed, user, pass, nkey, creds, tls } = options;
    const { linkAddress, linkEncryption } = options;
    const token = tokenOf(broker) ?? options.token;
    const deadlineMs = broker === undefined ? undefined : embeddedMs;
    const credentials = { token, user, pass, nkey, creds, tls, deadlineMs };
    const watched = { log, tracing: options.tracing };
    const observer = await openObserver(watched, [token, user, pass], onIncident).catch(
      async (error: unknown) => {
        await broker?.close(); // The broker's thread would keep the process alive.
        throw error;
      },
    );
    let network: Network | undefined;
    let dashboard: Dashboard | undefined;
    let place: LeasePlace | undefined;
    try {
      network = await openNetwork({
        connection: { servers: broker?.url ?? options.nats ?? "", ...credentials },
        cluster: name,
        faultsAllowed,
        world: { links: linkKeeper(), ...world },
        log: observer.log,
        tracedEvery: observer.tracedEvery,
        hostLinks: { mode: options.links, linkAddress, linkEncryption },
        onError: (offender, error) => reportError(observer.incident, offender, error),
      });
      const { lease, state, nats } = options;
      if (nats !== undefined && !lease && !state) await refuseSecondLeader(network);
      const leaseMs = lease?.ms ?? usualLeaseMs;
      const { directory } = lease ?? { ...state };
      if (directory !== undefined) place = await openLeasePlace(network, { directory, leaseMs });
      const link =
        broker === undefined
          ? await openMirrorLink(network, options.jetstream, options.tenants)
          : undefined;
      dashboard = await openDashboard?.(network, Object.keys(options.tenants));
      const parts = { observer, onHosts, onStandby, link };
      const { threads, devices } = options;
      const own = { launcher: withDeviceThreads(launcher, threads, devices), ...parts };
      const cluster = new Cluster({ options, broker, network, place, ...own });
      cluster.#dashboard = dashboard;
      return cluster;
    } catch (error) {
      await place?.close();
      await dashboard?.close();
      await network?.transport.close();
      await broker?.close();
      await observer.close();
      throw error;
    }
  }

  /** Submits a job. @throws as `Client.submit` */
  async submit(job: JobOptions, options: { readonly key?: string } = {}): Promise<Run> {
    // Checks and allows the job's module: this process may run it anyway.
    for (const path of modulesOf(withModel(resolveJob(job)))) this.#ownModels.add(path);
    return this.client.submit(job, options);
  }

  /** All runs that the cluster remembers. */
  list(): Promise<RunLine[]> {
    return this.client.list();
  }

  /** The hosts: this process, if it has devices, and every process that joined. */
  get hosts(): readonly HostRecord[] {
    return this.#membership.present();
  }

  /**
   * Effects of a stale leader that fencing prevented. Under a lease: messages that this process
   * withheld, and writes that the store refused. Without a lease: writes of generations that were
   * taken over.
   */
  get refused(): { readonly messages: number; readonly writes: number } {
    const own =
      this.#leader instanceof ElectedLeader ? this.#leader.refused : { messages: 0, writes: 0 };
    return { messages: own.messages, writes: own.writes + this.#launcher.fenced };
  }

  /** The dashboard; undefined: it is not enabled. */
  get dashboard(): Omit<Dashboard, "close"> | undefined {
    return this.#dashboard;
  }

  /** A warning if the machine runs slow kernels, with the reason. */
  get notice(): string | undefined {
    return kernelNotice();
  }

  /**
   * Stops all runs at their current state, and everything that was started; resolves when no thread
   * is left. Safe to call twice.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#dashboard?.close();
    await this.#leader.stop();
    await this.#mirror?.close();
    await this.#link?.nats.close();
    await this.#launcher.allEnded();
    await this.network.transport.close();
    await this.#broker?.close();
    await this.#observer.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Ends the embedded broker's thread as a crash would. For tests and the chaos harness. */
  async killBroker(): Promise<void> {
    await this.#broker?.kill();
  }

  #watchBroker(broker: BrokerThread, options: CheckedOptions): void {
    void broker.exited.then(async (exit) => {
      if (this.#isClosed) return;
      const error = exit.error ?? recordError(new Error("the thread of the broker ended"));
      this.#report("broker", error);
      // Keeps port and token, so that clients reconnect by themselves.
      const settings = { ...settingsOf(options), port: broker.port, auth: broker.auth };
      const next = await startAgain(settings, this.network.clock);
      if (this.#isClosed) return void (await next?.close());
      this.#broker = next;
      if (next !== undefined) this.#watchBroker(next, options);
    });
  }

  #report(offender: string, error: ReturnType<typeof recordError>): void {
    this.#observer.incident({ offender, supervisor: "process", context: "running", reason: error });
  }
}

/** A prefix for names of runs, unique per start time of the leader. */
function prefixAt(clock: Clock): string {
  return `r${clock.date().getTime().toString(36)}-`;
}

function membershipOf(options: CheckedOptions, memoryBytes: number): Membership {
  const { devices, minDevices = Math.max(1, devices), joinDeadlineMs, hostSilenceMs } = options;
  const hardware = hardwareHere(memoryBytes);
  const own = { host: 0, devices, machine: hostname(), pid: process.pid, hardware };
  return new Membership({
    minDevices,
    joinDeadlineMs,
    hostSilenceMs,
    own: devices === 0 ? undefined : own,
    arithmetic: openKernels("auto").arithmetic,
    version: packageVersion(),
  });
}

function tokenOf(broker: BrokerThread | undefined): string | undefined {
  const auth = broker?.auth;
  return typeof auth === "object" && "token" in auth ? auth.token : undefined;
}

type Settings = NonNullable<Parameters<typeof startBrokerThread>[0]>;

function settingsOf(options: CheckedOptions): Settings {
  const { port, token } = options;
  return { port, ...(token === undefined ? {} : { auth: { token } }) };
}

async function startAgain(settings: Settings, clock: Clock): Promise<BrokerThread | undefined> {
  for (let attempt = 0; attempt < intensity.restartsMax; attempt++) {
    try {
      return await startBrokerThread(settings);
    } catch {
      await new Promise<void>((resume) => {
        clock.after(backoff.baseMs * backoff.factor ** attempt, resume);
      });
    }
  }
  return undefined;
}

function reportError(
  onIncident: (incident: Incident) => void,
  offender: string,
  error: unknown,
): void {
  const reason = recordError(error);
  onIncident({ offender, supervisor: "process", context: "running", reason });
}
