// A model of processes that share an object store. The processes run the real code over requests
// that the model answers: a process is the list of the answers that it got, and running its program
// over them again leads to its next request. So states are plain values.
//
// A transition is one request that the store carries out. With faults, a write also
//   - gets no answer, and arrives later or never ("no answer"; the client repeats it), or
//   - is answered and arrives once more later ("twice").
// A process that sends no further request is a dead process, so deaths need no transition.
//
// A read of an object that never changes has the same answer at any time, so the model answers it
// at once and explores fewer orders. Requests that a process sends at the same time are carried
// out in their order.

import { MemoryBucket } from "../../../chaos/objects/memory-bucket.ts";
import type { StoreAnswer, StoreRequest } from "../../../src/objects/requests.ts";
import type { Model, Transition } from "./explore.ts";
import { latin, type Program, replay, textOf } from "./replay.ts";

export interface Scene {
  /** The initial objects. @default none */
  readonly objects?: Objects;
  /** Programs that run one after the other before the exploration, without faults. */
  readonly before: readonly Program[];
  readonly programs: readonly Program[];
  /** Most faults in all processes together. */
  readonly faultsMax: number;
  /** Keys of objects that are never changed or removed once they exist. */
  readonly lasting: RegExp;
  /**
   * Describes the promise that a state breaks; undefined: none. A fact is what a program noted, as
   * "program: note".
   */
  violation(facts: readonly string[], objects: Objects): Promise<string | undefined>;
  /** Plants a fault of the store. */
  readonly isUnfenced?: boolean;
}

export type Objects = ReadonlyMap<string, Uint8Array>;

/** All values are indices of interned values. */
interface State {
  readonly objects: number;
  /** Requests that may still arrive. */
  readonly late: readonly number[];
  /** The answers of each process so far. */
  readonly histories: readonly number[];
  readonly faults: number;
}

/** The next request of a process, or the fact for which it waits, and its facts so far. */
interface Outcome {
  readonly request: number | undefined;
  /** The beginning of the fact that it waits for. */
  readonly awaited: string | undefined;
  readonly facts: readonly string[];
}

/** Gives equal values the same number. */
class Interned<Value> {
  readonly #numbers = new Map<string, number>();
  readonly #values: Value[] = [];

  number(text: string, value: Value): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    this.#numbers.set(text, this.#values.length);
    return this.#values.push(value) - 1;
  }

  value(number: number): Value {
    return this.#values[number] as Value; // Numbers come from `number`.
  }
}

export class StoreModel implements Model<State> {
  readonly #scene: Scene;
  readonly #requests = new Interned<StoreRequest>();
  readonly #answers = new Interned<StoreAnswer>();
  readonly #objects = new Interned<{ readonly objects: Objects; readonly bucket: MemoryBucket }>();
  readonly #histories = new Interned<readonly StoreAnswer[]>();
  readonly #outcomes = new Map<string, Outcome>();
  readonly #effects = new Map<string, { readonly objects: number; readonly answer: number }>();
  readonly #verdicts = new Map<string, string | undefined>();
  #initial: State;

  private constructor(scene: Scene) {
    this.#scene = scene;
    this.#histories.number("", []);
    const histories = scene.programs.map(() => 0);
    const objects = this.#interned(scene.objects ?? new Map());
    this.#initial = { objects, late: [], histories, faults: 0 };
  }

  static async start(scene: Scene): Promise<StoreModel> {
    const model = new StoreModel(scene);
    for (const program of scene.before) {
      const { objects } = await model.alone(program, model.#initial);
      model.#initial = { ...model.#initial, objects };
    }
    await model.#advance();
    return model;
  }

  /** Runs programs up to their `until`. They may wait for each other. */
  async #advance(): Promise<void> {
    let state = await this.#settled(this.#initial);
    for (let at = 0; at < this.#scene.programs.length; ) {
      const until = this.#scene.programs[at]?.until;
      const { request } = await this.#outcome(at, state);
      if (until === undefined || request === undefined || until.test(this.#name(request))) at++;
      else {
        state = await this.#settled(this.#answered(state, at, request));
        at = 0;
      }
    }
    this.#initial = state;
  }

  get initial(): State {
    return this.#initial;
  }

  keyOf({ objects, late, histories, faults }: State): string {
    return `${objects};${late.join()};${histories.join()};${faults}`;
  }

  async next(state: State): Promise<readonly Transition<State>[]> {
    const found: Transition<State>[] = [];
    const add = async (label: string, to: State) => {
      found.push({ label, to: await this.#settled(to) });
    };
    for (const [at, { name }] of this.#scene.programs.entries()) {
      const { request } = await this.#outcome(at, state);
      if (request === undefined) continue;
      const answered = this.#answered(state, at, request);
      const what = `${name} ${this.#name(request)}`;
      await add(`${what} → ${this.#statusOf(state, request)}`, answered);
      const isWrite = this.#requests.value(request).method !== "GET";
      if (!isWrite || state.faults === this.#scene.faultsMax) continue;
      const faulty = { late: [...state.late, request].sort(), faults: state.faults + 1 };
      await add(`${what} → no answer`, { ...this.#told(state, at, nothing), ...faulty });
      await add(`${what} → twice`, { ...answered, ...faulty });
    }
    for (const [at, request] of state.late.entries()) {
      const { objects } = this.#effect(state.objects, request);
      const late = state.late.filter((_, other) => other !== at);
      await add(`late ${this.#name(request)} → ${this.#statusOf(state, request)}`, {
        ...{ ...state, late, objects },
      });
    }
    return found;
  }

  async violation(state: State): Promise<string | undefined> {
    const facts = await this.#facts(state);
    const key = `${state.objects} ${facts.join("\n")}`;
    if (!this.#verdicts.has(key)) {
      const { objects } = this.#objects.value(state.objects);
      this.#verdicts.set(key, await this.#scene.violation(facts, objects));
    }
    return this.#verdicts.get(key);
  }

  /** Runs a program to its end, without faults. Returns the objects then, and its facts. */
  async alone(
    program: Program,
    { objects }: Pick<State, "objects">,
  ): Promise<{ readonly objects: number; readonly facts: readonly string[] }> {
    let at = objects;
    let history = 0;
    for (;;) {
      const { request, facts } = await this.#replayed(program, history);
      if (request === undefined) return { objects: at, facts };
      const effect = this.#effect(at, request);
      at = effect.objects;
      history = this.#after(history, effect.answer);
    }
  }

  /** Answers requests whose answers can never change, and waits whose facts hold. */
  async #settled(given: State): Promise<State> {
    let state = given;
    for (let at = 0; at < this.#scene.programs.length; ) {
      const { request, awaited } = await this.#outcome(at, state);
      const { key = "", method } = { ...(request !== undefined && this.#requests.value(request)) };
      const { objects } = this.#objects.value(state.objects);
      const isQuiet = method === "GET" && this.#scene.lasting.test(key) && objects.has(key);
      const fact = awaited === undefined ? undefined : await this.#said(state, awaited);
      if (request !== undefined && isQuiet) state = this.#answered(state, at, request);
      else if (fact !== undefined) {
        const answer = { status: 1, headers: {}, body: Buffer.from(fact) };
        state = this.#told(state, at, answer);
      } else {
        at++;
        continue;
      }
      at = 0; // Another process may wait for its next fact.
    }
    return state;
  }

  async #said(state: State, beginning: string): Promise<string | undefined> {
    const found = (await this.#facts(state)).find((fact) => fact.startsWith(beginning));
    return found?.slice(beginning.length);
  }

  async #facts(state: State): Promise<string[]> {
    const found: string[] = [];
    for (const [at] of this.#scene.programs.entries()) {
      found.push(...(await this.#outcome(at, state)).facts);
    }
    return found;
  }

  #answered(state: State, at: number, request: number): State {
    const { objects, answer } = this.#effect(state.objects, request);
    return { ...this.#told(state, at, this.#answers.value(answer)), objects };
  }

  #told(state: State, at: number, answer: StoreAnswer): State {
    const number = this.#answers.number(textOf(answer), answer);
    const histories = state.histories.map((history, one) =>
      one === at ? this.#after(history, number) : history,
    );
    return { ...state, histories };
  }

  #after(history: number, answer: number): number {
    const answers = [...this.#histories.value(history), this.#answers.value(answer)];
    return this.#histories.number(`${history} ${answer}`, answers);
  }

  /** The objects after a request, and the store's answer. */
  #effect(objects: number, request: number) {
    const key = `${objects} ${request}`;
    const known = this.#effects.get(key);
    if (known !== undefined) return known;
    const sent = this.#requests.value(request);
    const before = this.#objects.value(objects);
    const isRead = sent.method === "GET";
    const bucket = isRead ? before.bucket : this.#bucketOf(before.objects);
    const { afterMs: _, ...answer } = bucket.answer(sent);
    const effect = {
      objects: isRead ? objects : this.#interned(contentsOf(bucket)),
      answer: this.#answers.number(textOf(answer), answer),
    };
    this.#effects.set(key, effect);
    return effect;
  }

  #interned(objects: Objects): number {
    return this.#objects.number(textOfObjects(objects), {
      objects,
      bucket: this.#bucketOf(objects),
    });
  }

  #bucketOf(objects: Objects): MemoryBucket {
    const { isUnfenced = false } = this.#scene;
    const bucket = new MemoryBucket("bucket", { isUnfenced });
    for (const [key, bytes] of objects) bucket.plant(key, bytes);
    return bucket;
  }

  async #outcome(at: number, { histories }: State): Promise<Outcome> {
    const program = this.#scene.programs[at];
    if (program === undefined) throw new Error(`there is no process ${at}`);
    return await this.#replayed(program, histories[at] ?? 0);
  }

  async #replayed(program: Program, history: number): Promise<Outcome> {
    const key = `${program.name} ${history}`;
    const known = this.#outcomes.get(key);
    if (known !== undefined) return known;
    const { request, ...rest } = await replay(program, this.#histories.value(history));
    const number = request && this.#requests.number(textOf(request), request);
    const outcome = { ...rest, request: number };
    this.#outcomes.set(key, outcome);
    return outcome;
  }

  #name(request: number): string {
    const { method, key, headers = {}, query = {} } = this.#requests.value(request);
    const how = "if-none-match" in headers ? "CREATE" : "prefix" in query ? "LIST" : method;
    return `${how} ${(query.prefix ?? key).replace(/^p\//, "")}`;
  }

  #statusOf(state: State, request: number): number {
    return this.#answers.value(this.#effect(state.objects, request).answer).status;
  }
}

/** The facts of a program that runs alone on these objects. */
export async function factsAlone(program: Program, objects: Objects): Promise<readonly string[]> {
  const scene = { before: [], programs: [], faultsMax: 0, lasting: /$^/, objects };
  const model = await StoreModel.start({ ...scene, violation: async () => undefined });
  return (await model.alone(program, model.initial)).facts;
}

const nothing: StoreAnswer = { status: 0, headers: {}, body: Buffer.from("no answer") };

function contentsOf(bucket: MemoryBucket): Objects {
  return new Map(bucket.keys.map((key) => [key, bucket.bytesOf(key) ?? new Uint8Array(0)]));
}

/** Equal for equal objects. */
export function textOfObjects(objects: Objects): string {
  return [...objects].map(([key, bytes]) => `${key}=${latin(bytes)}`).join("\n");
}
