// An object store whose calls return promises: runs the rules over a connection.

import type { Clock } from "../ports/clock.ts";
import type { ObjectStore } from "../ports/object-store.ts";
import type { StoreAnswer, StoreRequest } from "./requests.ts";
import {
  create,
  get,
  list,
  put,
  type Rule,
  remove,
  runners,
  type StorePlace,
  size,
} from "./rules.ts";
import { uploadTo } from "./uploads.ts";

/** Answers requests, many at once. */
export interface Connection {
  /** `into`: memory for an object in the answer, of `bytesMax` bytes. */
  ask(request: StoreRequest, into?: Uint8Array): Promise<StoreAnswer>;
  /** Ends open requests. */
  close(): void;
}

export function laterStoreOf(place: StorePlace, connection: Connection): ObjectStore {
  const run = <Result>(rule: Rule<Result>) => runLater(rule, connection, place.clock);
  const store: ObjectStore = {
    address: place.address,
    get: (key, range) => run(get(place, key, range)),
    size: (key) => run(size(place, key)),
    put: (key, bytes) => run(put(place, key, bytes)),
    create: (key, bytes) => run(create(place, key, bytes)),
    upload(key) {
      const { write, finish, discard } = uploadTo(place, key);
      return {
        write: (bytes) => run(write(bytes)),
        finish: () => run(finish()),
        discard: () => run(discard()),
      };
    },
    list: (prefix) => run(list(place, prefix)),
    remove: (keys) => run(remove(place, keys)),
    close: async () => connection.close(),
  };
  runners.set(store, { place, run });
  return store;
}

async function runLater<Result>(
  rule: Rule<Result>,
  connection: Connection,
  clock: Pick<Clock, "after">,
): Promise<Result> {
  let step = rule.next();
  while (step.done !== true) {
    const effect = step.value;
    switch (effect.kind) {
      case "send":
        step = rule.next(await connection.ask(effect.request));
        break;
      case "pause":
        await new Promise<void>((resume) => clock.after(jittered(effect.ms), resume));
        step = rule.next();
        break;
      case "fork": {
        const task = runLater(effect.rule, connection, clock);
        task.catch(() => {}); // `join` throws the error.
        step = rule.next(task);
        break;
      }
      case "join":
        step = await (effect.task as Promise<unknown>).then(
          (result) => rule.next(result),
          (error: unknown) => rule.throw(error),
        );
        break;
    }
  }
  return step.value;
}

/** A random wait around `ms`, so that callers that failed together do not retry together. */
export function jittered(ms: number): number {
  return ms * (0.75 + Math.random() / 2);
}
