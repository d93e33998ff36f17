// Every interleaving of processes that want to lead one cluster over one object store: terms and
// journals of leaders, by the real code. Any process may find the lease expired at any time. `npm
// run test:all` explores until all processes have ended, `npm test` the first 14 requests. Then the
// same with planted faults, which must be found.

import test, { type ExecutionContext } from "ava";
import { LeadershipLostError, StoreFailedError } from "../../../src/errors/errors.ts";
import type { ObjectStore } from "../../../src/ports/object-store.ts";
import type { JournalEntry } from "../../../storage/cluster/run-journal.ts";
import { StoredJournal } from "../../../storage/cluster/stored-journal.ts";
import { StoredLease } from "../../../storage/cluster/stored-lease.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { isTestAll, rounds } from "../../helpers/thinned.ts";
import { explore } from "./explore.ts";
import type { Program } from "./replay.ts";
import { factsAlone, type Objects, type Scene, StoreModel, textOfObjects } from "./store-model.ts";

/** Faults of a leader's program. */
interface Faults {
  /** The leader acknowledges entries without a check for a newer term. */
  readonly confirmsNothing?: boolean;
  /** The leader removes former journals without a check for a newer term. */
  readonly removesAtOnce?: boolean;
  /** The leader reads the former journal before it claims its term. */
  readonly readsFirst?: boolean;
}

type LeaderOptions = Partial<Program> & Faults & { readonly entries?: number };

const namesOf = (entries: readonly JournalEntry<string>[]) => entries.map(({ run }) => run);

/** A process that finds the lease expired, claims it, and acknowledges entries. */
function leader(name: string, options: LeaderOptions = {}): Program {
  const { entries: count = 1, confirmsNothing, removesAtOnce, readsFirst, ...rest } = options;
  const journalAt = (objects: ObjectStore, term: number, confirm: () => Promise<void>) =>
    new StoredJournal<string>({ objects, term, confirm });
  return {
    name,
    attemptsMax: 1, // The journal repeats requests itself.
    async run({ objects, note }) {
      const lease = new StoredLease({ objects, claimant: name, onForgotten() {} });
      const patient = async <Result>(body: () => Promise<Result>) => await untilAnswered(body);
      const { newest } = await lease.current();
      const term = newest + 1;
      const own = { term, owner: name, beat: 0, isReleased: false };
      const confirm = async () => {
        if (!(await patient(() => lease.isNewest(own)))) throw new LeadershipLostError(term, "?");
      };
      const journal = journalAt(objects, term, removesAtOnce ? async () => {} : confirm);
      const early = readsFirst ? await journal.readFormer() : undefined;
      if (!(await patient(() => lease.claim(term, name)))) return;
      note(`leads ${term}`);
      const { entries } = early ?? (await journal.readFormer());
      try {
        await patient(() => journal.begin(entries));
        note(`reads ${term} ${namesOf(entries).join(" ")}`); // `begin` has confirmed the term.
        for (let at = 1; at <= count; at++) {
          const entry = `${name}${at}`;
          journal.append([{ kind: "run", run: entry, job: {} }]);
          await patient(() => journal.synced());
          if (!confirmsNothing) await confirm();
          note(`acknowledges ${term} ${entry}`);
        }
      } catch (error) {
        if (!(error instanceof LeadershipLostError)) throw error;
      }
    },
    ...rest,
  };
}

/** Repeats a call until the store answers. */
async function untilAnswered<Result>(body: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await body();
    } catch (error) {
      if (!(error instanceof StoreFailedError)) throw error;
    }
  }
}

interface Said {
  readonly leads: readonly number[];
  readonly reads: readonly { readonly term: number; readonly entries: readonly string[] }[];
  readonly acknowledged: readonly { readonly term: number; readonly entry: string }[];
}

function saidIn(facts: readonly string[]): Said {
  const words = facts.map((fact) => fact.split(": ")[1]?.split(" ") ?? []);
  const of = (what: string) => words.filter(([first]) => first === what);
  return {
    leads: of("leads").map(([, term]) => Number(term)),
    reads: of("reads").map(([, term, ...entries]) => ({ term: Number(term), entries })),
    acknowledged: of("acknowledges").map(([, term, entry = ""]) => ({ term: Number(term), entry })),
  };
}

function wrongIn(facts: readonly string[]): string | undefined {
  const failed = facts.find((fact) => fact.includes("ends with"));
  if (failed !== undefined) return failed;
  const { leads, reads, acknowledged } = saidIn(facts);
  const twice = leads.find((term, at) => leads.indexOf(term) !== at);
  if (twice !== undefined) return `two processes lead in term ${twice}`;
  for (const { term, entries } of reads) {
    const lost = acknowledged.find((one) => one.term < term && !entries.includes(one.entry));
    if (lost !== undefined) return `the leader of term ${term} does not find ${lost.entry}`;
  }
  return undefined;
}

type Explored = Pick<Scene, "programs"> & Partial<Scene>;

/** The longest scene without a planted fault ends after 64 transitions. */
const depthMax = rounds("depth", 14, 80);
const reach = isTestAll ? "every interleaving" : `the first ${depthMax} requests`;

/** Explores a scene with a former leader, which has acknowledged an entry. */
async function exploreScene(
  t: ExecutionContext,
  given: Explored,
  depth = depthMax,
): Promise<string | undefined> {
  const former = leader("former");
  const said = await factsAlone(former, new Map());
  const recoveries = new Map<string, readonly string[]>();
  /** The facts of another process that becomes leader on these objects, alone. */
  const successor = async (objects: Objects) => {
    const key = textOfObjects(objects);
    const facts = recoveries.get(key) ?? (await factsAlone(leader("next"), objects));
    recoveries.set(key, facts);
    return facts;
  };
  const scene: Scene = {
    ...{ before: [former], faultsMax: 1, lasting: /^p\/terms\//, ...given },
    async violation(own, objects) {
      const facts = [...said, ...own];
      const next = await successor(objects);
      const goesOn = next.some((fact) => fact.startsWith("next: acknowledges"));
      return (
        wrongIn(facts) ?? wrongIn([...facts, ...next]) ?? (goesOn ? undefined : "no successor")
      );
    },
  };
  const explored = await explore(await StoreModel.start(scene), depth);
  const { perDepth, isWhole, violation: found } = explored;
  if (isTestAll && found === undefined) t.true(isWhole, `scenes end within ${depth} transitions`);
  const total = perDepth.reduce((sum, count) => sum + count, 0);
  t.log(`${total} states; per depth ${perDepth.join(" ")}; ${recoveries.size} successors`);
  for (const [at, line] of [...(found?.trace ?? []), ...(found ? [found.what] : [])].entries()) {
    t.log(`${at + 1}. ${line}`);
  }
  return found?.what;
}

/** Two processes, of which the first has claimed its term and is about to begin its journal. */
const two = (options: LeaderOptions = {}) => [
  leader("A", { ...options, until: /PUT runs.*begun/ }),
  leader("B", options),
];

test(`of two processes one leads in a term, and finds all acknowledged entries: ${reach}`, async (t) => {
  t.is(await exploreScene(t, { programs: [leader("A"), leader("B")] }), undefined);
});

test(`an entry written during a takeover is found later, or not acknowledged: ${reach}`, async (t) => {
  t.is(await exploreScene(t, { programs: two({ entries: 2 }) }), undefined);
});

test(`with three processes, the journal is passed on from term to term: ${reach}`, async (t) => {
  t.is(await exploreScene(t, { programs: [...two(), leader("C")], faultsMax: 0 }), undefined);
});

testIf(testAll)(
  "planted bug: a leader that does not check for a newer term acknowledges lost entries",
  async (t) => {
    const programs = [
      leader("A", { confirmsNothing: true, until: /PUT runs.*000001/ }),
      leader("B", { until: /GET runs.*000001/ }), // B has read the objects before this one.
    ];
    const found = await exploreScene(t, { programs, faultsMax: 0 }, 20);
    t.regex(found ?? "", /the leader of term \d does not find A1/);
  },
);

test("planted bug: a leader that removes former journals early removes needed ones", async (t) => {
  const found = await exploreScene(t, { programs: two({ removesAtOnce: true }) });
  t.regex(found ?? "", /the leader of term \d does not find former1/);
});

testIf(testAll)("planted bug: a process that reads before it claims misses an entry", async (t) => {
  const found = await exploreScene(t, { programs: two({ readsFirst: true }) });
  t.regex(found ?? "", /the leader of term \d does not find/);
});

test("planted bug: in a store that ignores conditions, two leaders have one term", async (t) => {
  const programs = [leader("A"), leader("B")];
  t.regex((await exploreScene(t, { programs, isUnfenced: true })) ?? "", /two processes lead/);
});
