// Tests whether a store behaves as Osiris requires. A store that ignores `If-None-Match` looks
// correct until two writers create the same object. So each store is tested on its first use; the
// verdict is saved in `store.json` below the address, and later openings only read it.

import { StoreUnfencedError } from "../errors/errors.ts";
import type { BlockingObjectStore, ObjectStore } from "../ports/object-store.ts";
import type { StoreAnswer } from "./requests.ts";
import {
  codeOf,
  create,
  fork,
  get,
  join,
  list,
  md5Of,
  put,
  type Rule,
  type RuleRunner,
  remove,
  runners,
  type StorePlace,
  textOf,
} from "./rules.ts";
import { uploadTo } from "./uploads.ts";

/** The result of one trial. */
export interface StoreFinding {
  readonly name: string;
  /** `fail`: Osiris cannot guarantee correct checkpoints in this store. */
  readonly state: "ok" | "warn" | "fail";
  readonly found: string;
}

/** The results of all trials of a store. */
export interface StoreVerdict {
  readonly version: number;
  readonly endpoint: string;
  /** The day and time, as text. */
  readonly triedAt: string;
  readonly findings: readonly StoreFinding[];
}

/** Increased when a trial is added: stores with an older verdict are then tested again. */
const verdictVersion = 1;
const verdictKey = "store.json";

/** Refuses a store that does not fence writers. @throws StoreUnfencedError */
export async function requireFence(store: ObjectStore): Promise<void> {
  const { place, run } = runnerOf(store);
  await run(fenced(place));
}

/** `requireFence`, blocking the thread. */
export function requireFenceBlocking(store: BlockingObjectStore): void {
  const { place, run } = runnerOf(store);
  void run(fenced(place));
}

/** Tests a store again, measures its speed, and saves the verdict. */
export async function probeStore(store: ObjectStore): Promise<StoreVerdict> {
  const { place, run } = runnerOf(store);
  return run(tried(place, true));
}

function runnerOf(store: object): RuleRunner {
  const runner = runners.get(store);
  if (runner === undefined) throw new Error("a store that src/objects did not open");
  return runner;
}

function* fenced(place: StorePlace): Rule<void> {
  const verdict = (yield* keptVerdict(place)) ?? (yield* tried(place, false));
  const failed = verdict.findings.filter(({ state }) => state === "fail");
  if (failed.length === 0) return;
  throw new StoreUnfencedError(place.address, failed.map(({ found }) => found).join("; "));
}

/** The verdict of an earlier trial of the same store. */
function* keptVerdict(place: StorePlace): Rule<StoreVerdict | undefined> {
  const bytes = yield* get(place, verdictKey);
  if (bytes === undefined) return undefined;
  try {
    const verdict = JSON.parse(textOf(bytes)) as StoreVerdict;
    const isCurrent = verdict.version === verdictVersion && verdict.endpoint === place.endpoint;
    return isCurrent && Array.isArray(verdict.findings) ? verdict : undefined;
  } catch {
    return undefined; // It is not a verdict: the trials write it again.
  }
}

function* tried(place: StorePlace, isMeasured: boolean): Rule<StoreVerdict> {
  const folder = `probe/${place.newName()}/`;
  const keys = ["twice", "race", "read", "sums"].map((name) => folder + name);
  const [twice = "", race = "", read = "", sums = ""] = keys;
  const findings = [
    yield* triedTwice(place, twice),
    yield* triedRace(place, race),
    yield* triedReads(place, read),
    ...(yield* triedSums(place, sums)),
    yield* triedList(place, folder),
    ...(isMeasured ? yield* measured(place, `${folder}long`) : []),
  ];
  yield* remove(place, [...keys, `${folder}long`]);
  const triedAt = place.clock.date().toISOString();
  const verdict = { version: verdictVersion, endpoint: place.endpoint, triedAt, findings };
  yield* put(place, verdictKey, Buffer.from(`${JSON.stringify(verdict, undefined, 2)}\n`));
  return verdict;
}

function finding(name: string, state: StoreFinding["state"], found: string): StoreFinding {
  return { name, state, found };
}

/** Whether an object has exactly these bytes. */
function* holds(place: StorePlace, key: string, bytes: Uint8Array): Rule<boolean> {
  const found = yield* get(place, key);
  return found !== undefined && Buffer.compare(found, bytes) === 0;
}

function* triedTwice(place: StorePlace, key: string): Rule<StoreFinding> {
  const name = "create, then again";
  const [first, second] = [Buffer.from("the first writer"), Buffer.from("the second writer")];
  const wins = [yield* create(place, key, first), yield* create(place, key, second)];
  const isKept = yield* holds(place, key, first);
  if (wins[0] && !wins[1] && isKept) return finding(name, "ok", "the second writer is refused");
  const did = isKept
    ? "confirmed two creations of one object"
    : "let a second writer replace an object, and confirmed both creations";
  return finding(name, "fail", `it ${did} (PUT, If-None-Match: *)`);
}

/** Number of writers that create the same object concurrently. */
const racers = 8;

function* triedRace(place: StorePlace, key: string): Rule<StoreFinding> {
  const name = `${racers} creations at once`;
  const tasks = [];
  const bytesOf = (racer: number) => Buffer.from(`writer ${racer} of ${racers}`);
  for (let racer = 0; racer < racers; racer++) {
    tasks.push(yield* fork(create(place, key, bytesOf(racer))));
  }
  const won: number[] = [];
  for (const [racer, task] of tasks.entries()) if (yield* join(task)) won.push(racer);
  const isKept = won.length === 1 && (yield* holds(place, key, bytesOf(won[0] ?? 0)));
  if (isKept) return finding(name, "ok", "one writer wins");
  const found = `it confirmed to ${won.length} of ${racers} concurrent writers that each had created one object`;
  return finding(name, "fail", found);
}

/** Reads after each write: with stale bytes, a run would resume from an older cut. */
function* triedReads(place: StorePlace, key: string): Rule<StoreFinding> {
  const name = "read after write";
  const fail = (found: string) => finding(name, "fail", found);
  for (let round = 1; round <= 3; round++) {
    const bytes = Buffer.from(`${"0123456789".repeat(10)} round ${round}`);
    yield* put(place, key, bytes);
    if (!(yield* holds(place, key, bytes))) {
      return fail("a read after a write did not return the written bytes");
    }
    const part = yield* get(place, key, { from: 7, bytes: 20 });
    if (part === undefined || Buffer.compare(part, bytes.subarray(7, 27)) !== 0) {
      return fail("it did not return the requested range of an object");
    }
  }
  yield* remove(place, [key]);
  if ((yield* get(place, key)) !== undefined) return fail("it returned a removed object");
  return finding(name, "ok", "reads, ranges and removals are exact");
}

/** Whether damaged bodies are refused, and the form of ETags. */
function* triedSums(place: StorePlace, key: string): Rule<StoreFinding[]> {
  const body = Buffer.from("the bytes that arrive");
  const send = function* (headers: Readonly<Record<string, string>>): Rule<StoreAnswer> {
    const request = { method: "PUT", key: place.prefix + key, body, headers } as const;
    return (yield { kind: "send", request }) as StoreAnswer;
  };
  const other = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"; // Of "hi".
  const signed = yield* send({ "x-amz-content-sha256": other });
  const md5 = yield* send({ "content-md5": md5Of(Buffer.from("the bytes that were sent")) });
  const right = yield* send({});
  const { etag = "" } = right.headers;
  const said = (answer: StoreAnswer) =>
    answer.status < 300 ? "takes it" : `refuses it (${answer.status} ${codeOf(answer)})`;
  const refuses = signed.status >= 400 || md5.status >= 400;
  const found = `with a wrong SHA-256 it ${said(signed)}, with a wrong MD5 it ${said(md5)}`;
  const form = etag === "" ? "missing" : etag.startsWith('"') ? "quoted" : "not quoted";
  return [
    finding("body with a wrong checksum", refuses ? "ok" : "warn", found),
    finding("ETags", etag === "" ? "fail" : "ok", form),
  ];
}

/** A list that lags behind is accepted, because lists are only used to find garbage. */
function* triedList(place: StorePlace, folder: string): Rule<StoreFinding> {
  const keys = yield* list(place, folder);
  const isThere = keys.includes(`${folder}twice`);
  return finding("list", "ok", isThere ? "shows a new object at once" : "lags behind");
}

/** Bytes of the object that is written and read to measure the speed: three parts. */
const measuredBytes = 0x180_0000;

function* measured(place: StorePlace, key: string): Rule<StoreFinding[]> {
  const { clock } = place;
  const small = 16;
  let beganMs = clock.now();
  for (let i = 0; i < small; i++) yield* put(place, key, Buffer.from("small"));
  const writeMs = (clock.now() - beganMs) / small;
  beganMs = clock.now();
  for (let i = 0; i < small; i++) yield* get(place, key);
  const readMs = (clock.now() - beganMs) / small;
  const bytes = new Uint8Array(measuredBytes);
  for (let at = 0; at < bytes.length; at += 64) bytes[at] = at >> 6;
  const speed = () => `${(bytes.length / 1e3 / Math.max(1e-3, clock.now() - beganMs)).toFixed(0)}`;
  beganMs = clock.now();
  const upload = uploadTo(place, key);
  yield* upload.write(bytes);
  yield* upload.finish();
  const writeSpeed = speed();
  beganMs = clock.now();
  const isWhole = yield* holds(place, key, bytes);
  const parts = isWhole ? "whole" : "not what was written";
  return [
    finding("upload in parts", isWhole ? "ok" : "fail", `the object is ${parts}`),
    finding("small objects", "ok", `write ${writeMs.toFixed(1)} ms, read ${readMs.toFixed(1)} ms`),
    finding("large objects", "ok", `write ${writeSpeed} MB/s, read ${speed()} MB/s`),
  ];
}
