// A host process (`osiris host`): joins a running cluster, and contributes its devices. If an actor
// of it fails, its supervisor restarts the actor, and the process goes on.
//
//   Host
//   └─ supervisor
//      └─ joining ── host ── generation ── devices ── shards; readers; bridge

import { randomInt } from "node:crypto";
import { hostname } from "node:os";
import { z } from "zod";
import { type ErrorRecord, RemoteError, recordError } from "../../src/errors/errors.ts";
import { linkOptions } from "../../src/exchange/links/link-options.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { type DrainNotice, drainOptions, watchDrain } from "../../src/ports/drain-notice.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import { type Launcher, rememberThreads, workerLauncher } from "../../src/ports/launcher.ts";
import type { Subscription } from "../../src/wire/messages/transport.ts";
import { connectionOptions } from "../client/connect.ts";
import { memoryOf } from "../host/data-preparation.ts";
import { joiningTree } from "../host/joining.ts";
import { openHostInspection } from "../observe/inspection.ts";
import { type Observer, observing, openObserver, tracingOptions } from "../observe/observer.ts";
import type { LogOptions } from "../observe/process-log.ts";
import { ActorFailedError, type Incident } from "../runtime/incident.ts";
import { clusterScope, type Network, openMailbox } from "../runtime/mailbox.ts";
import { openNetwork, type World } from "../runtime/network.ts";
import { deviceThreads, withDeviceThreads } from "../threads/device-threads.ts";
import { hardwareHere } from "../threads/kept-constants.ts";

const hostOptions = connectionOptions.extend({
  /** Devices: worker threads that compute. @default 2 */
  devices: z.int().min(1).max(128).default(2),
  /**
   * Threads of each device: its kernels are split between them. "auto": the machine's cores, shared
   * by the devices. The number changes no bit of a model. @default 1
   */
  threads: deviceThreads.default(1),
  /** Where traces of its threads' steps are exported. @default nowhere */
  tracing: tracingOptions.optional(),
  ...linkOptions,
  ...drainOptions,
  /**
   * Longest wait until all runs continue without this host, once it leaves; a notice may name
   * another time. @default 25000
   */
  graceMs: z.number().min(0).default(25_000),
  /** Whether actors accept injected faults. For tests and the chaos harness. @default false */
  faultsAllowed: z.boolean().default(false),
});

/** Options of `Host.join`, as a program writes them. */
export type HostOptions = z.input<typeof hostOptions> & {
  /**
   * Called with the host's index in the cluster, and with undefined when the cluster becomes
   * unreachable.
   */
  readonly onHost?: (host: number | undefined) => void;
  /** Called when `drainFile` or `drainUrl` announces this machine's end; the host then leaves. */
  readonly onDrain?: (notice: DrainNotice) => void;
  /**
   * Called with each failure that was repaired on this host, and with frames that could not be
   * decoded.
   */
  readonly onIncident?: (incident: Incident) => void;
  /** Output of the log, besides the stored log of each run. @default nothing */
  readonly log?: LogOptions;
  /** How threads are started. @default worker threads */
  readonly launcher?: Launcher;
  /** Clock and disk of its actors. @default the machine's own */
  readonly world?: World;
};

/** A host process of a cluster. Close it, or declare it with `await using`. */
export class Host implements AsyncDisposable {
  /** Devices of this process. */
  readonly devices: number;
  readonly network: Network;
  /** Resolves to the host's index in the cluster when it has joined for the first time. */
  readonly joined: Promise<number>;
  /** Rejects if it cannot be a host of this cluster, e.g. with VersionMismatchError. */
  readonly failed: Promise<never>;
  /** Resolves when it has left the cluster, and none of its threads is left. */
  readonly closed: Promise<void>;
  #onClosed = () => {};
  /** Wakes the call that waits until this host may leave. */
  #onMayLeave = () => {};
  #stopWatching = () => {};
  readonly #graceMs: number;
  /** Set once it leaves. */
  #drain: { readonly reason: string; readonly untilMs: number } | undefined;
  #isMember = false;
  readonly #key = randomInt(2 ** 47);
  readonly #launcher: ReturnType<typeof rememberThreads>;
  readonly #stop: () => void;
  readonly #observer: Observer;
  #inspection: Subscription | undefined;
  #isClosed = false;

  private constructor(parts: {
    readonly observer: Observer;
    readonly network: Network;
    readonly devices: number;
    readonly launcher: Launcher;
    readonly onHost: (host: number | undefined) => void;
    readonly graceMs: number;
  }) {
    const { network, devices, onHost, observer } = parts;
    this.#graceMs = parts.graceMs;
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    this.#observer = observer;
    this.network = network;
    this.devices = devices;
    this.#launcher = rememberThreads(parts.launcher, observing(observer, network));
    let resolveJoined: (host: number) => void = () => {};
    this.joined = new Promise((resolve) => {
      resolveJoined = resolve;
    });
    const reportHost = (host: number | undefined) => {
      this.#isMember = host !== undefined;
      const who = { actor: "joining", cluster: network.cluster };
      if (host === undefined)
        network.log.write("warn", "the leader of the cluster does not answer", who);
      else network.log.write("info", "joined the cluster", { ...who, host, devices });
      if (host !== undefined) resolveJoined(host);
      else this.#onMayLeave(); // The cluster is unreachable: nothing needs this host.
      this.#inspection?.unsubscribe();
      this.#inspection = host === undefined ? undefined : openHostInspection(network, host, leader);
      onHost(host);
    };
    const identity = {
      key: this.#key,
      devices,
      arithmetic: openKernels("auto").arithmetic,
      version: packageVersion(),
      machine: hostname(),
      pid: process.pid,
      hardware: hardwareHere(memoryOf(network)),
    };
    const leader = joiningTree({
      network,
      launcher: this.#launcher,
      announcement: () => ({ ...identity, ...this.#leaving() }),
      onHost: reportHost,
      onMayLeave: () => this.#onMayLeave(),
      onIncident: observer.incident,
    });
    this.failed = new Promise((_, reject) => {
      leader.subscribe({ error: (error) => reject(new RemoteError(reasonOf(error))) });
    });
    this.failed.catch(() => {}); // A caller may ignore it: onIncident reports the failure, too.
    this.#stop = () => leader.stop();
    leader.start();
  }

  /**
   * Connects, and announces this process repeatedly until the cluster answers.
   * @throws InvalidOptionError, TransportLostError if the broker is unreachable
   */
  static async join(given: HostOptions): Promise<Host> {
    const {
      onIncident = () => {},
      onHost = () => {},
      onDrain = () => {},
      launcher = workerLauncher,
      world,
      log,
      ...plain
    } = given;
    const options = checkOptions(hostOptions, plain);
    const { nats: servers, cluster, devices, threads, ...others } = options;
    const { faultsAllowed, tracing, drainFile, drainUrl, graceMs, ...further } = others;
    const { linkAddress, linkEncryption, ...credentials } = further;
    const { token, user, pass } = credentials;
    const observer = await openObserver({ log, tracing }, [token, user, pass], onIncident);
    const network = await openNetwork({
      connection: { servers, ...credentials },
      cluster,
      faultsAllowed,
      world,
      log: observer.log,
      tracedEvery: observer.tracedEvery,
      hostLinks: { linkAddress, linkEncryption },
      onError: (offender, error) => {
        const reason = recordError(error);
        observer.incident({ offender, supervisor: "process", context: "running", reason });
      },
    }).catch(async (error) => {
      await observer.close();
      throw error;
    });
    const threaded = withDeviceThreads(launcher, threads, devices);
    const host = new Host({ observer, network, devices, launcher: threaded, onHost, graceMs });
    try {
      host.#watchDrain({ drainFile, drainUrl }, onDrain);
    } catch (error) {
      await host.close();
      throw error;
    }
    return host;
  }

  #watchDrain(sources: Parameters<typeof watchDrain>[0], tell: (notice: DrainNotice) => void) {
    const { clock, disk, log } = this.network;
    const warn = (message: string) => log.write("warn", message, { actor: "joining" });
    const ports = { clock, disk, fetch, env: process.env, warn };
    this.#stopWatching = watchDrain(sources, ports, (notice) => {
      const { reason, seconds } = notice;
      log.write("warn", "draining", { actor: "joining", reason, seconds });
      tell(notice);
      const graceMs = seconds === undefined ? this.#graceMs : 1000 * seconds;
      void this.leave({ graceMs, reason });
    });
  }

  /** The fields of its announcements about its leaving. */
  #leaving() {
    if (this.#drain === undefined) return { isLeaving: false };
    const { reason, untilMs } = this.#drain;
    const seconds = Math.max(0, untilMs - this.network.clock.now()) / 1000;
    return { isLeaving: true, drain: { reason, seconds } };
  }

  /**
   * Leaves the cluster gracefully: the run continues without this host after the current step and
   * loses no step; then the process closes. Closes after `graceMs` in any case. Safe to call twice:
   * the first call counts.
   */
  async leave({
    graceMs = this.#graceMs,
    reason = "it was asked to leave",
  }: {
    readonly graceMs?: number;
    /** Shown to operators. */
    readonly reason?: string;
  } = {}): Promise<void> {
    if (this.#drain !== undefined) return this.closed;
    this.#drain = { reason, untilMs: this.network.clock.now() + graceMs };
    this.#stopWatching();
    if (this.#isMember && !this.#isClosed) {
      let cancel = () => {};
      await new Promise<void>((resume) => {
        this.#onMayLeave = resume;
        this.failed.catch(resume);
        cancel = this.network.clock.after(graceMs, resume);
      });
      cancel();
    }
    await this.close();
  }

  /**
   * Leaves the cluster immediately and ends all threads; resolves when none is left. Its runs
   * resume elsewhere from their last checkpoints. Safe to call twice.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopWatching();
    const mailbox = openMailbox(this.network, clusterScope, { role: "joining", index: this.#key });
    mailbox.send({ role: "hosts", index: 0 }, "host.leave", { key: this.#key });
    this.#stop();
    await this.#launcher.allEnded();
    await this.network.transport.close();
    await this.#observer.close();
    this.#onClosed();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The error because of which the supervisor gave up, without the wrapping of supervisors. */
function reasonOf(error: unknown): ErrorRecord {
  return error instanceof ActorFailedError ? error.incident.reason : recordError(error);
}
