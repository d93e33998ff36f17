// Every interleaving of two roots and their hosts over one object store, with requests that are
// late, repeated or without an answer: claims, commits and removals of checkpoints, by the real
// code. `npm run test:all` explores until all processes have ended, `npm test` the first 14
// requests. Then the same with planted faults, each to be found.

import test, { type ExecutionContext } from "ava";
import type { StoreAnswer, StoreRequest } from "../../../src/objects/requests.ts";
import type { PartRecord } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { decodeManifest } from "../../../storage/checkpoints/store/manifest.ts";
import type { LogRecord } from "../../../storage/checkpoints/store/object-log.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { filesNeeded } from "../../../storage/checkpoints/store/part-index.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { unseal } from "../../../storage/disk/sealed-json.ts";
import { contentOf, testJob, writePart } from "../../helpers/stores/checkpoints.ts";
import { isTestAll, rounds } from "../../helpers/thinned.ts";
import { explore } from "./explore.ts";
import { address, type Machine, type Program } from "./replay.ts";
import { factsAlone, type Objects, type Scene, StoreModel, textOfObjects } from "./store-model.ts";

const openAt = ({ disk }: Machine) => openStore({ directory: address, disk, ...testJob });

interface RootOptions extends Partial<Program> {
  /** The number of checkpoints that the root keeps; left out: all. */
  readonly keep?: number;
  /** Whether the root writes the part itself, instead of its host. */
  readonly isAlone?: boolean;
  /** A fault: the root removes every listed object that is not of its own checkpoint. */
  readonly collectsByList?: boolean;
}

/** A root that claims a generation, lets its host write a part, and commits the next cut. */
function root(name: string, options: RootOptions = {}): Program {
  const { keep, isAlone = false, collectsByList = false, ...rest } = options;
  return {
    name,
    async run(machine) {
      const store = openAt(machine);
      const { generation, latest } = store.beginGeneration();
      const cut = (latest?.cut ?? 0) + 1;
      machine.note(`claims ${generation}, writes ${cut}`);
      if (latest !== undefined) store.readWholePart(latest, "dense");
      const part = isAlone
        ? writePart(store, { generation, cut, name: "dense" }, contentOf(cut, "dense"))
        : (JSON.parse(machine.wait(`host of ${name}: wrote `)) as PartRecord);
      const { sha256 } = store.commit({
        ...{ run: "r1", cut, generation, parts: [part], modelDigest: "d".repeat(64) },
        ...{ arithmetic: "reference", metrics: {}, position: { pass: 0, sample: 8 * cut } },
        ...{ best: false, createdBy: name },
      });
      machine.note(`commits ${sha256}`);
      if (keep !== undefined) await store.collect({ generation, keep });
      if (!collectsByList) return;
      const listed = await machine.objects.list("checkpoints/");
      await machine.objects.remove(listed.filter((key) => !key.includes(`-g00000${generation}/`)));
    },
    ...rest,
  };
}

function host(of: string): Program {
  return {
    name: `host of ${of}`,
    async run(machine) {
      const claimed = machine.wait(`${of}: claims `);
      const [generation = 0, cut = 0] = claimed.split(", writes ").map(Number);
      const at = { generation, cut, name: "dense" };
      const part = writePart(openAt(machine), at, contentOf(cut, "dense"));
      machine.note(`wrote ${JSON.stringify(part)}`);
    },
  };
}

/** The log's records of claims, commits and removals, in its order. */
function recordsOf(objects: Objects): LogRecord[] {
  const keys = [...objects.keys()].filter((key) => /log\/\d+\.json$/.test(key));
  return keys.map((key) => unseal(objects.get(key) ?? new Uint8Array(0), key) as LogRecord);
}

const idsOf = ({ chain }: LogRecord) => chain.map(({ sha256 }) => sha256);

/** A violation of the log's rules, if there is one. */
function wrongInLog(records: readonly LogRecord[]): string | undefined {
  for (const [at, record] of records.entries()) {
    const { number, kind, generation, writer } = record;
    if (number !== at + 1) return `record ${at + 1} is missing`;
    const before = records[at - 1];
    const [own, former] = [idsOf(record), before === undefined ? [] : idsOf(before)];
    const was = before?.generation ?? 0;
    if (kind === "generation") {
      if (generation !== was + 1) return `generation ${generation} follows ${was}`;
      if (own.join() !== former.join()) return `the claim of ${writer} does not see every commit`;
    } else if (generation !== was) {
      return `a ${kind} of generation ${generation} follows generation ${was}`;
    } else if (kind === "commit") {
      if (own.slice(1).join() !== former.join()) return `${writer} commits off the chain`;
    } else if (own[0] !== former[0] || !own.every((id) => former.includes(id))) {
      return `${writer} removes the newest checkpoint`;
    }
  }
  return undefined;
}

/** An object that a checkpoint of the chain needs and that does not exist, if there is one. */
function missing(record: LogRecord | undefined, objects: Objects): string | undefined {
  const paths = pathsOf(address);
  const keyOf = (path: string) => path.replace(/^s3:\/\/bucket\//, "");
  for (const { cut, generation } of record?.chain ?? []) {
    const path = paths.manifest(cut, generation);
    const bytes = objects.get(keyOf(path));
    if (bytes === undefined) return path;
    for (const one of filesNeeded(decodeManifest(bytes, path))) {
      const file = paths.file(one.cut, one.generation, one.file);
      if (!objects.has(keyOf(file))) return file;
    }
  }
  return undefined;
}

/** Whether the process that stated a fact has claimed a generation that is no longer the newest. */
function isFenced(fact: string, facts: readonly string[], records: readonly LogRecord[]): boolean {
  const [name = ""] = fact.split(":");
  const of = name.replace("host of ", "");
  const claimed = facts.find((one) => one.startsWith(`${of}: claims `))?.slice(of.length + 9);
  return claimed !== undefined && Number.parseInt(claimed, 10) < (records.at(-1)?.generation ?? 0);
}

async function violation(
  facts: readonly string[],
  objects: Objects,
  goesOn: (objects: Objects) => Promise<string | undefined>,
): Promise<string | undefined> {
  const records = recordsOf(objects);
  const wrong = wrongInLog(records);
  if (wrong !== undefined) return wrong;
  const gone = missing(records.at(-1), objects);
  if (gone !== undefined) return `a checkpoint of the chain lacks ${gone}`;
  for (const fact of facts) {
    const [, committed] = /commits (\w+)/.exec(fact) ?? [];
    if (committed !== undefined && !records.some((one) => idsOf(one)[0] === committed)) {
      return `${fact.slice(0, 10)}… was acknowledged, and is in no record`;
    }
    if (fact.includes("ends with") && !isFenced(fact, facts, records)) return fact;
  }
  return await goesOn(objects);
}

const lastingLog = /^p\/(log\/\d+\.json|jobs\/)/;
/** For scenes in which no process removes checkpoints. */
const lastingAll = /^p\/(log\/\d+\.json|jobs\/|checkpoints\/)/;
/** The longest scene without a planted fault ends after 52 transitions. */
const depth = rounds("depth", 14, 80);
const reach = isTestAll ? "every interleaving" : `the first ${depth} requests`;

type Explored = Pick<Scene, "programs"> &
  Partial<Pick<Scene, "isUnfenced" | "lasting" | "faultsMax">>;

/** Explores a scene that begins with a committed checkpoint. Returns the violation, if any. */
async function exploreScene(t: ExecutionContext, given: Explored): Promise<string | undefined> {
  const recoveries = new Map<string, string | undefined>();
  /** The reason why a new root cannot continue alone from these objects; undefined: it can. */
  const goesOn = async (objects: Objects) => {
    const key = textOfObjects(objects);
    if (!recoveries.has(key)) {
      const facts = await factsAlone(root("next root", { isAlone: true }), objects);
      const failed = facts.find((fact) => fact.includes("ends with"));
      recoveries.set(key, failed && `a new root cannot go on: ${failed}`);
    }
    return recoveries.get(key);
  };
  const scene: Scene = {
    ...{ lasting: lastingAll, faultsMax: 1, ...given },
    before: [root("former root", { isAlone: true })],
    violation: (facts, objects) => violation(facts, objects, goesOn),
  };
  const explored = await explore(await StoreModel.start(scene), depth);
  const { perDepth, isWhole, violation: found } = explored;
  if (isTestAll && found === undefined) t.true(isWhole, `scenes end within ${depth} transitions`);
  const total = perDepth.reduce((sum, count) => sum + count, 0);
  t.log(`${total} states; per depth ${perDepth.join(" ")}; ${recoveries.size} recoveries`);
  for (const [at, line] of [...(found?.trace ?? []), ...(found ? [found.what] : [])].entries()) {
    t.log(`${at + 1}. ${line}`);
  }
  return found?.what;
}

/** Two roots with their hosts. */
const two = (more: RootOptions = {}) => [
  ...[root("A", more), host("A"), root("B", more), host("B")],
];
/** The same programs, except that the first root begins just before its commit. */
const late = (more: RootOptions = {}) => [
  ...[root("A", { ...more, until: /CREATE log.*4/ }), { ...host("A"), until: /$^/ }],
  ...[root("B", more), host("B")],
];

test(`two leaders and their hosts commit to one chain, which no late writer joins: ${reach}`, async (t) => {
  t.is(await exploreScene(t, { programs: two() }), undefined);
});

test(`a claim during another leader's commit sees the commit or fences it: ${reach}`, async (t) => {
  t.is(await exploreScene(t, { programs: late(), faultsMax: 2 }), undefined);
});

test(`a leader that collects garbage removes nothing that a newer leader needs: ${reach}`, async (t) => {
  const programs = late({ keep: 1 });
  t.is(await exploreScene(t, { programs, lasting: lastingLog }), undefined);
});

test("planted bug: a store that ignores the condition of a record loses a commit", async (t) => {
  const found = await exploreScene(t, { programs: late(), isUnfenced: true });
  t.regex(found ?? "", /acknowledged, and is in no record|does not see every commit|follows/);
});

test("planted bug: a record written before its manifest is on the chain without it", async (t) => {
  const planted: Program["planted"] = (store) => {
    let manifest: [string, Uint8Array] | undefined;
    return {
      ...store,
      put(key, bytes) {
        if (key.includes("manifest")) manifest = [key, bytes];
        else store.put(key, bytes);
      },
      create(key, bytes) {
        const isMine = store.create(key, bytes);
        if (manifest !== undefined) store.put(...manifest);
        return isMine;
      },
    };
  };
  const found = await exploreScene(t, { programs: two({ planted }) });
  t.regex(found ?? "", /lacks .*manifest\.json/);
});

test("planted bug: a late leader that removes by a list removes needed objects", async (t) => {
  const programs = late({ collectsByList: true });
  const found = await exploreScene(t, { programs, lasting: lastingLog });
  t.regex(found ?? "", /lacks .*checkpoints/);
});

const unanswered = ({ method, headers }: StoreRequest, { status }: StoreAnswer) =>
  status === 0 && method === "PUT" && headers?.["if-none-match"] !== undefined;

test("planted bug: a client that takes no answer as success loses a commit", async (t) => {
  const misheard: Program["misheard"] = (request, answer) =>
    unanswered(request, answer) ? { ...answer, status: 200 } : answer;
  const found = await exploreScene(t, { programs: late({ misheard }) });
  t.regex(found ?? "", /acknowledged, and is in no record|is missing/);
});

test("planted bug: a client that takes no answer as a loss finds its own record", async (t) => {
  const misheard: Program["misheard"] = (request, answer) =>
    unanswered(request, answer) ? { ...answer, status: 412 } : answer;
  const found = await exploreScene(t, { programs: late({ misheard }) });
  t.regex(found ?? "", /another writer|no record/);
});
