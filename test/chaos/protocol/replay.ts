// Runs the program of a process over the answers that it got so far, up to its next request. The
// code is the real one, except for the network below the object store's client.

import { blockingStoreOf } from "../../../src/objects/blocking-store.ts";
import { openObjectStore } from "../../../src/objects/open-object-store.ts";
import type { StoreAnswer, StoreRequest } from "../../../src/objects/requests.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import type { BlockingObjectStore, ObjectStore } from "../../../src/ports/object-store.ts";
import { seal, unseal } from "../../../storage/disk/sealed-json.ts";

export const address = "s3://bucket/p";

/** The means of a process: a store, and facts that the model and other processes can read. */
export interface Machine {
  readonly disk: Disk;
  readonly objects: ObjectStore;
  /** States a fact, which holds from now on. */
  note(fact: string): void;
  /** Waits until a process has stated a fact with this beginning; returns the rest of the fact. */
  wait(beginning: string): string;
}

export interface Program {
  readonly name: string;
  run(machine: Machine): Promise<void>;
  /** Attempts of a request before the program gets an error. @default 9 */
  readonly attemptsMax?: number;
  /** A fault of the program, planted between its code and the store. */
  readonly planted?: (store: BlockingObjectStore) => BlockingObjectStore;
  /** A fault of the client, planted between it and the network. */
  readonly misheard?: (request: StoreRequest, answer: StoreAnswer) => StoreAnswer;
  /** The exploration begins with this program just before its first request that matches. */
  readonly until?: RegExp;
}

/** Thrown into a program that has used up its answers. */
class Suspended extends Error {}

/** Runs a program over answers, up to the first request without one. */
export async function replay(program: Program, answers: readonly StoreAnswer[]) {
  const { name, run, attemptsMax = 9, planted = (store) => store } = program;
  const { misheard = (_, answer) => answer } = program;
  const facts: string[] = [];
  let used = 0;
  let request: StoreRequest | undefined;
  let awaited: string | undefined;
  const answerOf = (): StoreAnswer | undefined =>
    request === undefined && awaited === undefined ? answers[used++] : undefined;
  const records = new Records(name);
  const place = {
    ...{ address, prefix: "p/", newBytes: (count: number) => new Uint8Array(count) },
    limits: { attemptsMax, attemptMs: 1, backoffMs: 1 },
    ...{ endpoint: "", clock: new SimulatedClock(), newName: () => name },
  };
  const store = planted(
    blockingStoreOf(place, {
      send(given) {
        const { bytesMax: _, ...sent } = records.numbered(given);
        const answer = answerOf();
        if (answer !== undefined) return () => records.own(misheard(given, answer));
        if (awaited === undefined) request ??= sent;
        throw new Suspended();
      },
      pause() {},
      close() {},
    }),
  );
  const disk: Disk = { ...realDisk, writer: name, objects: () => store };
  const machine: Machine = {
    disk,
    objects: await openObjectStore(address, disk),
    note: (fact) => void facts.push(`${name}: ${fact}`),
    wait(beginning) {
      const answer = answerOf();
      if (answer !== undefined) return Buffer.from(answer.body).toString();
      if (request === undefined) awaited ??= beginning;
      throw new Suspended();
    },
  };
  try {
    await run(machine);
  } catch (error) {
    if (!(error instanceof Suspended)) facts.push(`${name}: ends with ${error}`);
  }
  return { request, awaited, facts };
}

/**
 * The records of a log have numbers, counted over the whole process that runs the model. Here each
 * program gets numbers of its own instead, so that each replay sends the same bytes.
 */
class Records {
  readonly #name: string;
  readonly #own = new Map<string, Uint8Array>();
  readonly #numbers = new Map<string, number>();

  constructor(name: string) {
    this.#name = name;
  }

  numbered(request: StoreRequest): StoreRequest {
    if (request.body === undefined || !/log\/\d+\.json$/.test(request.key)) return request;
    const text = latin(request.body);
    const number = this.#numbers.get(text) ?? this.#numbers.size + 1;
    this.#numbers.set(text, number);
    const { sha256: _, ...fields } = unseal(request.body, request.key) as Record<string, unknown>;
    const body = Buffer.from(seal({ ...fields, writer: `${this.#name} ${number}` }).text);
    this.#own.set(latin(body), request.body);
    return { ...request, body };
  }

  own(answer: StoreAnswer): StoreAnswer {
    const body = this.#own.get(latin(answer.body));
    if (body === undefined) return answer;
    const { length } = body;
    const headers = {
      "content-length": `${length}`,
      "content-range": `bytes 0-${length - 1}/${length}`,
    };
    return { status: 206, headers: { ...answer.headers, ...headers }, body };
  }
}

export function latin(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}

export function textOf({ body, ...rest }: StoreRequest | StoreAnswer): string {
  return JSON.stringify([rest, body === undefined ? null : latin(body)]);
}
