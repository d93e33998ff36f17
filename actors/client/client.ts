// The client of the job service: submits jobs and finds runs (run.ts), over any transport, from
// this process or another. A request is repeated until it is answered.

import { type ErrorRecord, RemoteError, RequestFailedError } from "../../src/errors/errors.ts";
import { checkSchemes } from "../../src/job/check-placement.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { decodeBody, encodeBody } from "../../src/wire/messages/body.ts";
import {
  eventStream,
  eventsSubject,
  inspectSubject,
  jobsSubject,
  streamSubject,
} from "../../src/wire/messages/subjects.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { JobMethod, ReplyOf, RunLine } from "../jobs/job-api.ts";
import type { ClusterReport } from "../observe/cluster-report.ts";
import { Run } from "./run.ts";
import { StreamedEvents } from "./streamed-events.ts";

/**
 * Longest wait for an answer of the job service. The request is repeated meanwhile, as frames may
 * be lost.
 */
const answerMs = 10_000;
const attempts = 5;

interface ClientOptions {
  readonly transport: Transport;
  readonly cluster: string;
  /** The tenant that makes the requests. @default the cluster's operator */
  readonly tenant?: string | undefined;
  readonly clock: Clock;
}

/** A client of a cluster: submits jobs, and requests reports of their runs. */
export class Client {
  readonly #transport: Transport;
  readonly #cluster: string;
  readonly #tenant: string | undefined;
  readonly #clock: Clock;
  #hasAnswered = false;

  constructor(options: ClientOptions) {
    this.#transport = options.transport;
    this.#cluster = options.cluster;
    this.#tenant = options.tenant;
    this.#clock = options.clock;
  }

  /**
   * Submits a job; resolves when the cluster has accepted it. Submitting again with the same `key`
   * returns the existing run. @throws InvalidOptionError, RemoteError (refused), RequestFailedError
   */
  async submit(job: JobOptions, options: { readonly key?: string } = {}): Promise<Run> {
    checkSchemes(resolveJob(job)); // Reports a wrong option before anything is sent.
    // The key makes a repeated submission safe: if the answer was lost, no second run begins. No
    // other process may ever have it, so its time is since 1970, not since this process began.
    const key = options.key ?? `${this.#transport.address}-${this.#clock.epochMs()}-${serial++}`;
    const { run } = await this.request("submit", { job, key });
    return this.run(run);
  }

  /** A run of this cluster, by name. Sends no request. */
  run(run: string): Run {
    return new Run({
      client: this,
      transport: this.#transport,
      events: eventsSubject(this.#cluster, run, this.#tenant),
      stream: new StreamedEvents(this.#transport, {
        stream: eventStream(this.#cluster, this.#tenant),
        subject: streamSubject(this.#cluster, run, this.#tenant),
      }),
      clock: this.#clock,
      run,
    });
  }

  /** All runs that the cluster remembers, in the order of submission. */
  async list(): Promise<RunLine[]> {
    // By name, because the cluster may forget the run at the end of a page: the next page then
    // starts over.
    const lines = new Map<string, RunLine>();
    let after: string | undefined;
    do {
      const { runs, next } = await this.request("list", { after });
      for (const line of runs) lines.set(line.run, line);
      after = next;
    } while (after !== undefined);
    return [...lines.values()];
  }

  /**
   * Reports the cluster's state: its runs, and the actors, mailboxes, credits and tiers of all its
   * processes. For the cluster's operator. @throws RemoteError, RequestFailedError
   */
  inspect(): Promise<ClusterReport> {
    return this.#ask(inspectSubject(this.#cluster, "all"), {});
  }

  /** Whether the cluster has answered a request of this client; for `Run`. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Sends one request to an actor through the leader; for `Run`. @throws RemoteError */
  inspectActor<Report>(what: string, body: unknown): Promise<Report> {
    return this.#ask(inspectSubject(this.#cluster, what), body);
  }

  /**
   * Sends one request to the job service, and repeats it for up to `againMs`. An attempt waits
   * `patienceMs` for its answer, and twice as long after each wait without an answer: a leader on a
   * busy machine may need longer than the first wait. @throws RemoteError, RequestFailedError
   */
  request<Method extends JobMethod>(
    method: Method,
    body: unknown,
    patienceMs?: number,
    againMs?: number,
  ): Promise<ReplyOf<Method>> {
    return this.#ask(jobsSubject(this.#cluster, method, this.#tenant), body, patienceMs, againMs);
  }

  async #ask<Answer>(
    subject: string,
    body: unknown,
    patienceMs = answerMs / attempts,
    againMs = Math.max(answerMs, patienceMs),
  ): Promise<Answer> {
    const { payload, headers } = encodeBody(body, "application/json");
    const startMs = this.#clock.now();
    for (let waitMs = patienceMs; ; ) {
      const sentMs = this.#clock.now();
      const deadlineMs = Math.max(patienceMs, Math.min(waitMs, startMs + againMs - sentMs));
      try {
        const options = { headers, deadlineMs };
        const frame = await this.#transport.request(subject, payload, options);
        const answer = decodeBody(frame) as Answer & { error?: ErrorRecord };
        this.#hasAnswered = true;
        const isRefused = typeof answer.error === "object" && !("status" in answer);
        if (isRefused && answer.error !== undefined) {
          throw new RemoteError({ ...answer.error, name: "RemoteError", recovery: "stop" });
        }
        return answer;
      } catch (error) {
        const isLater = error instanceof RemoteError && error.code === "TOO_MANY_REQUESTS";
        if (!isLater && !(error instanceof RequestFailedError)) throw error;
        if (this.#transport.status() === "closed") {
          throw new RequestFailedError(subject, "the client was closed", { cause: error });
        }
        if (this.#clock.now() - startMs >= againMs) throw error;
        // An immediate failure, as while the broker is away, does not show that the leader is busy.
        if (this.#clock.now() - sentMs >= deadlineMs) waitMs *= 2;
        await new Promise<void>((resume) => {
          this.#clock.after(answerMs / attempts / 4, resume);
        });
      }
    }
  }
}

let serial = 0;
