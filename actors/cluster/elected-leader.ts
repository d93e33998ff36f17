// A leader under a lease: a process that stands by until it leads, then takes up the runs of the
// leader before it, and is the leader for as long as it holds the lease.
//
//   standing by ─▶ leading: journal read ─▶ runs taken up ─▶ Root ─▶ lost: the tree ends
//
// Invariants
//   O1. As the leader it says and hears nothing while it does not hold the lease
//       (leader-transport.ts). What its threads still write, the store refuses once its successor
//       has claimed a generation.
//   O2. Nor does it claim a generation: that would fence its successor. What it claims in the very
//       moment in which it loses the lease costs the successor a restore.
//   O3. A run or a wish is answered only if a successor will find it: it is in the journal, and
//       no process led by then.

import { JournalDamagedError, RootLostError, recordError } from "../../src/errors/errors.ts";
import type { Register } from "../../src/wire/jetstream/register.ts";
import { FileJournal } from "../../storage/cluster/file-journal.ts";
import { KeptMark } from "../../storage/cluster/kept-mark.ts";
import { LeaseDirectory, RegisteredLease, type Term } from "../../storage/cluster/lease.ts";
import type { RunJournal } from "../../storage/cluster/run-journal.ts";
import type { MirrorLink } from "../mirror/mirror-link.ts";
import { mirroring, RunMirror } from "../mirror/run-mirror.ts";
import { openRunKeeper } from "../run/state/journal-writer.ts";
import { Registry } from "../run/state/registry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { PublishEvent } from "../run/state/run-record.ts";
import { Leadership } from "./election.ts";
import { Leader, type LeaderOptions } from "./leader.ts";
import { fencedTransport } from "./leader-transport.ts";
import { refuseSecondLeader } from "./other-leader.ts";
import { lostQueue } from "./queue-recovery.ts";

export interface ElectedLeaderOptions extends Omit<LeaderOptions, "registry" | "mirror"> {
  /** Where the lease is, and the journal of the runs: seen by all who may lead. */
  readonly directory: string;
  /** Where the lease is kept, where that is not in files of the directory. */
  readonly register?: Register | undefined;
  readonly leaseMs: number;
  /** Whether no other leader may answer: only processes under one lease stand by for each other. */
  readonly isAlone?: boolean;
  /** Where copies of its runs go; undefined: nowhere. */
  readonly mirror?: MirrorLink | undefined;
  /** Runs remembered after they are over. @default the registry's */
  readonly finishedMax?: number | undefined;
  /** Names of runs begin with it. */
  readonly prefix: string;
  /** Tells the world an event, over this network. */
  readonly publish: (network: LeaderOptions["network"], ...told: Parameters<PublishEvent>) => void;
  readonly onStandby: (leader: string) => void;
  readonly onLeading: () => void;
  /** LeadershipLostError, ClusterServedError, or what the disk refused when it began to lead. */
  readonly onLost: (error: unknown) => void;
}

/** Share of a lease that is left to a write that is under way when the lease is found lost. */
const fencedShare = 0.4;

/** Indices of hosts that one term gives; no two terms give the same index. */
const hostsPerTerm = 1_000_000;

export class ElectedLeader {
  readonly #options: ElectedLeaderOptions;
  readonly #leadership: Leadership;
  #leader: Leader | undefined;
  #journal: RunJournal<RunEvent> | undefined;
  #mirror: RunMirror | undefined;
  #isStopped = false;
  /** From here on the journal takes nothing, so nothing is told. */
  #isClosed = false;
  /** Messages that were not sent because the lease was not held; writes that the store refused. */
  #withheld = 0;
  #refused = 0;

  /** Errors are the disk's. */
  constructor(options: ElectedLeaderOptions) {
    this.#options = options;
    const { network, directory, register, leaseMs, onStandby, onIncident } = options;
    const files = new LeaseDirectory(network.disk, directory);
    this.#leadership = new Leadership({
      clock: network.clock,
      lease: register === undefined ? files : new RegisteredLease(register, files),
      leaseMs,
      owner: options.createdBy,
      onStandby: (leader) => onStandby(leader.owner),
      onLeading: (term, former) => {
        this.#lead(term, former).catch((error) => {
          void this.#leadership.close(); // Another one may be able to.
          this.#end(error);
        });
      },
      onLost: (error) => this.#lose(error),
      onError: (error) => {
        const reason = recordError(error);
        onIncident({ offender: "lease", supervisor: "process", context: directory, reason });
      },
    });
  }

  /** What it did not say and could not write as a leader that was not one any more. */
  get refused(): { readonly messages: number; readonly writes: number } {
    return { messages: this.#withheld, writes: this.#refused };
  }

  /** Gives the lease back and ends all runs where they are: the next leader takes them up. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#leader?.stop();
    await this.#mirror?.close();
    this.#isClosed = true;
    await this.#journal?.close();
    await this.#leadership.close();
    await this.#options.register?.close();
  }

  async #lead(term: number, former: Term | undefined): Promise<void> {
    const options = this.#options;
    const { directory, prefix, membership, createdBy, onLeading } = options;
    const leadership = this.#leadership;
    const transport = fencedTransport(
      options.network.transport,
      () => leadership.isHeld && !this.#isClosed,
      () => this.#withheld++,
    );
    if (options.isAlone === true) await refuseSecondLeader(options.network);
    const assertLeading = () => leadership.confirm();
    const network = { ...options.network, transport, assertLeading };
    const journal = new FileJournal<RunEvent>(network.disk, directory, term);
    this.#journal = journal;
    if (this.#isStopped) return await journal.close();
    const tell = (offender: string, error: unknown, context = "taking up its runs") => {
      const where = { offender, supervisor: "lease", context };
      options.onIncident({ ...where, reason: recordError(error) });
    };
    const mark = new KeptMark(network.disk, directory, term);
    const { keeper, publish } = openRunKeeper({
      journal,
      mark,
      clock: network.clock,
      retryMs: options.leaseMs / 5,
      isHeld: () => leadership.isHeld, // O1
      confirm: assertLeading, // O3
      entries: () => registry.entries(),
      publish: (event, tenant) => {
        // Of what the leader writes itself; its threads' are counted where they end.
        const isOwn = event.type === "run.incident" && !event.offender.includes(":");
        if (isOwn && event.error.code === "GENERATION_FENCED") this.#refused++;
        this.#mirror?.told(event);
        options.publish(network, event, tenant);
      },
      onError: (error, context) => tell("journal", error, context),
    });
    const mirrored = mirroring(keeper, (run) => this.#mirror?.changed(run));
    const name = `${prefix}${term}-`;
    const registry: Registry = new Registry(name, publish, mirrored, options.finishedMax);
    const { entries, damaged } = journal.readFormer();
    if (damaged > 0) tell("journal", new JournalDamagedError(directory, damaged));
    const { mirror } = options;
    const lost =
      entries.length > 0 || mirror === undefined ? [] : await lostQueue(mirror, options.network);
    if (this.#isStopped) return await journal.close();
    const isWhole = entries.length > 0 && damaged === 0 && mark.isFormerWhole();
    const renumbered = registry.restore([...entries, ...lost], tell, isWhole);
    if (former?.isReleased === true) registry.lives.forgive();
    journal.begin(registry.entries());
    mark.set();
    for (const told of renumbered) publish(...told);
    const isLeading = () => leadership.isHeld;
    this.#mirror = mirror && new RunMirror(mirror, { network, registry, term, isLeading });
    membership.countFrom(1 + hostsPerTerm * (term - 1));
    this.#tellRuns(registry, former, createdBy);
    onLeading();
    this.#leader = new Leader({ ...options, network, registry, mirror: this.#mirror });
  }

  /** First cause first: why the runs go on from a checkpoint. */
  #tellRuns(registry: Registry, former: Term | undefined, next: string): void {
    if (former === undefined) return;
    const silent = `has not renewed its lease for ${this.#options.leaseMs} ms`;
    const why = former.isReleased ? "has given its lease back" : silent;
    const error = recordError(new RootLostError(former.owner, why, next));
    for (const record of registry.all()) {
      if (record.status !== "running") continue;
      const where = { offender: "root", supervisor: "lease", context: `term ${former.term}` };
      const at = this.#options.network.clock.date();
      record.fail(0, { ...where, reason: error }, at);
      record.incidents.act("lease", `gave the cluster to ${next}`, at);
    }
  }

  /**
   * It says nothing from here on (O1). What its threads are in the midst of writing comes to the
   * fence meanwhile, so that it is counted; then they end.
   */
  #lose(error: unknown): void {
    const { network, leaseMs } = this.#options;
    network.clock.after(fencedShare * leaseMs, () => this.#end(error));
  }

  #end(error: unknown): void {
    this.#leader?.stop();
    void this.#journal?.close();
    this.#options.onLost(error);
  }
}
