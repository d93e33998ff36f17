// Subjects, wildcards and the routing table.

import test from "ava";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import {
  eventsPatterns,
  eventsSubject,
  isPattern,
  isSubject,
  jobsSubject,
  matches,
  parseSubject,
  subjectOf,
  subjectPattern,
  tenantOf,
  tenantsPattern,
} from "../../../src/wire/messages/subjects.ts";
import { SubjectRouter } from "../../../src/wire/transports/subject-router.ts";
import { fc } from "../../helpers/properties.ts";

const start = {
  cluster: "c1",
  run: "r7",
  generation: 4,
  role: "device",
  index: 3,
  action: "start",
} as const;

test("an actor's subject has seven tokens and is read back", (t) => {
  t.is(subjectOf(start), "osiris.c1.r7.4.device.3.start");
  t.deepEqual(parseSubject("osiris.c1.r7.4.device.3.start"), start);
  t.is(jobsSubject("c1", "submit"), "osiris.c1.jobs.submit");
  t.is(eventsSubject("c1", "r7"), "osiris.c1.runs.r7.events");
});

test("the subjects of a tenant's requests and events contain the tenant", (t) => {
  t.is(jobsSubject("c1", "submit", "acme"), "osiris.c1.jobs.acme.submit");
  t.is(eventsSubject("c1", "r7", "acme"), "osiris.c1.runs.acme.r7.events");
  t.is(tenantOf("osiris.c1.jobs.acme.submit"), "acme");
  t.is(tenantOf("osiris.c1.jobs.submit"), undefined);
  for (const tenant of ["", "a.b", "*", ">"]) {
    t.throws(() => jobsSubject("c1", "submit", tenant), { instanceOf: InvalidOptionError });
  }
  const heard = (subject: string) =>
    eventsPatterns("c1").filter((pattern) => matches(pattern, subject)).length;
  t.is(heard(eventsSubject("c1", "r7")), 1);
  t.is(heard(eventsSubject("c1", "r7", "acme")), 1);
  t.is(heard("osiris.c1.r7.4.device.3.run"), 0);
  t.true(matches(tenantsPattern("c1", "submit"), "osiris.c1.jobs.acme.submit"));
  t.false(matches(tenantsPattern("c1", "submit"), "osiris.c1.jobs.submit"));
});

test("a subject pattern has a wildcard for each part that is left out", (t) => {
  const pattern = subjectPattern({ cluster: "c1", run: "r7", role: "device" });
  t.is(pattern, "osiris.c1.r7.*.device.*.*");
  t.true(matches(pattern, subjectOf(start)));
  t.false(matches(pattern, subjectOf({ ...start, role: "reader" })));
});

test("an invalid subject token is refused by the name of its option", (t) => {
  for (const run of ["", "a b", "a.b", "*", ">", "a\n", "x".repeat(129)]) {
    const error = t.throws(() => subjectOf({ ...start, run }), { instanceOf: InvalidOptionError });
    t.is(error?.option, "run");
  }
  for (const generation of [-1, 1.5, Number.NaN, 1e21]) {
    const error = t.throws(() => subjectOf({ ...start, generation }), {
      instanceOf: InvalidOptionError,
    });
    t.is(error?.option, "generation");
  }
});

test("a subject that is not an actor's is not parsed as one", (t) => {
  for (const subject of [
    "",
    "osiris.c1.jobs.submit",
    "osiris.c1.r7.4.device.3",
    "osiris.c1.r7.4.device.3.start.now",
    "osiris.c1.r7.04.device.3.start",
    "osiris.c1.r7.4.device.-3.start",
    "osiris.c1.*.4.device.3.start",
    "isis.c1.r7.4.device.3.start",
  ]) {
    t.is(parseSubject(subject), undefined, subject);
  }
});

test("wildcards: * is one token, a last > is one or more", (t) => {
  for (const [pattern, subject, isMatch] of [
    ["a.b", "a.b", true],
    ["a.*", "a.b", true],
    ["a.*", "a.b.c", false],
    ["a.*", "a", false],
    ["a.>", "a.b.c", true],
    ["a.>", "a", false],
    [">", "a", true],
    ["*.b.>", "a.b.c", true],
    ["a*", "ab", false],
  ] as const) {
    t.is(matches(pattern, subject), isMatch, `${pattern} ${subject}`);
  }
  t.true(isPattern("a.*.>") && !isPattern("a.>.b") && !isPattern("a..b") && !isPattern("a b"));
  t.true(isSubject("a.b*") && !isSubject("a.*") && !isSubject(">") && !isSubject("a.\u007f"));
});

const token = fc.constantFrom("a", "b", "c");
const subjects = fc.array(token, { minLength: 1, maxLength: 4 }).map((all) => all.join("."));
const patterns = fc
  .tuple(
    fc.array(fc.constantFrom("a", "b", "c", "*"), { minLength: 1, maxLength: 4 }),
    fc.boolean(),
  )
  .map(([tokens, hasRest]) => [...tokens, ...(hasRest ? [">"] : [])].join("."));

test("the routing table finds what a linear search finds, in the order of subscription", (t) => {
  const property = fc.property(
    fc.array(patterns),
    fc.array(patterns),
    subjects,
    (kept, gone, at) => {
      const table = new SubjectRouter<{ pattern: string }>();
      const members = kept.map((pattern) => ({ pattern }));
      const others = gone.map((pattern) => ({ pattern }));
      for (let index = 0; index < Math.max(members.length, others.length); index++) {
        const [member, other] = [members[index], others[index]];
        if (other !== undefined) table.add(other);
        if (member !== undefined) table.add(member);
      }
      for (const other of others) table.remove(other);
      const expected = members.filter(({ pattern }) => matches(pattern, at));
      t.deepEqual(table.match(at), expected);
    },
  );
  t.notThrows(() => fc.assert(property, { seed: 7, numRuns: 300 }));
});

test("a queue group receives a frame once, in turn, even if its patterns differ", (t) => {
  const table = new SubjectRouter<{ pattern: string; queue?: string }>();
  const members = [
    { pattern: "a", queue: "q" },
    { pattern: "*", queue: "q" },
    { pattern: ">", queue: "other" },
    { pattern: "a" },
  ];
  for (const member of members) table.add(member);
  const names = () => table.match("a").map((member) => members.indexOf(member));
  t.deepEqual(
    [names(), names(), names()],
    [
      [3, 0, 2],
      [3, 1, 2],
      [3, 0, 2],
    ],
  );
  const [first] = members;
  if (first !== undefined) table.remove(first);
  t.deepEqual(names(), [3, 1, 2]);
});

test("150,000 subscriptions of one pattern can be added, found and removed", (t) => {
  // Removal from a list would take quadratic time, and a spread call cannot pass so many arguments.
  const router = new SubjectRouter<{ readonly pattern: string }>();
  const members = Array.from({ length: 150_000 }, () => ({ pattern: "*.*.*.3.>" }));
  for (const member of members) router.add(member);
  t.is(router.match("a.b.c.3.e").length, members.length);
  t.is(router.match("a.b.c.3.e")[0], members[0]);
  for (const member of members.reverse()) router.remove(member);
  t.deepEqual(router.match("a.b.c.3.e"), []);
});
