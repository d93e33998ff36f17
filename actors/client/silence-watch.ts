// How long a client that follows a run waits while the cluster does not answer, as while its broker
// is away: the run may continue meanwhile, and does when the broker is back.

import { RequestFailedError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";

/**
 * Longest silence of a cluster that a follower waits for. No deadline ends a run because its broker
 * is away, so the limit is the time that a person needs to notice that and to repair it.
 */
export const silenceMsMax = 15 * 60_000;

interface Followed {
  readonly run: string;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Whether the cluster has ever answered: if not, its name may be wrong. */
  readonly hasAnswered: () => boolean;
  /** Receives a sentence for each request without an answer, and for the end of the silence. */
  readonly onSilence: ((sentence: string) => void) | undefined;
}

/** Awaits answers of the cluster, and measures how long it has not answered. */
export class SilenceWatch {
  readonly #followed: Followed;
  /** When the first request without an answer was sent; undefined: the last one was answered. */
  #sinceMs: number | undefined;

  constructor(followed: Followed) {
    this.#followed = followed;
  }

  /**
   * Awaits an answer. Undefined: none now, and the caller requests it again. `command` of the
   * command line continues a view that has ended; `isLeaderless`: whether an absent leader explains
   * the silence, which then has no limit.
   * @throws RequestFailedError after `silenceMsMax`, if the client was closed, or if the cluster
   * has never answered
   */
  async outlast<Answer>(
    answer: Promise<Answer>,
    command: string,
    isLeaderless: () => Promise<boolean> = async () => false,
  ): Promise<Answer | undefined> {
    const sentMs = this.#followed.clock.now();
    try {
      const answered = await answer;
      this.#heard();
      return answered;
    } catch (error) {
      if (!(error instanceof RequestFailedError)) throw error;
      if (await isLeaderless()) this.#heard();
      else this.#missed(error, sentMs, command);
      return undefined;
    }
  }

  #heard(): void {
    if (this.#sinceMs !== undefined) this.#say(`answers again, after ${this.#seconds()} s`);
    this.#sinceMs = undefined;
  }

  #missed(error: RequestFailedError, sentMs: number, command: string): void {
    const { run, transport, hasAnswered } = this.#followed;
    if (transport.status() === "closed" || !hasAnswered()) throw error;
    this.#sinceMs ??= sentMs;
    const seconds = this.#seconds();
    if (1000 * seconds >= silenceMsMax) {
      const advice = `repair broker or leader; \`osiris ${command}\` continues`;
      const reason = `${transport.address} has been silent for ${seconds} s: ${advice}`;
      throw new RequestFailedError(`run ${run}`, reason, { cause: error });
    }
    const limit = silenceMsMax / 60_000;
    this.#say(`has not answered for ${seconds} s, of at most ${limit} min (${error.message})`);
  }

  #seconds(): number {
    const { clock } = this.#followed;
    return Math.round((clock.now() - (this.#sinceMs ?? clock.now())) / 1000);
  }

  #say(what: string): void {
    const { run, transport, onSilence } = this.#followed;
    onSilence?.(`the cluster of run ${run} at ${transport.address} ${what}`);
  }
}
