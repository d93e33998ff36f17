// House rules that neither the compiler nor the linter checks: the direction of imports, what
// deterministic rooms may not use, and requirements of every file, error and document.

import { existsSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import test from "ava";
import { excessOf, isAllowed, roomOf, sizesOf } from "../bench/rooms.ts";
import * as errors from "../src/errors/errors.ts";
import { privateWords } from "./helpers/private-words.ts";
import { listTree, textOf } from "./helpers/tree.ts";

const tree = listTree();
const code = tree.filter((path) => path.endsWith(".ts"));
const isTest = (path: string) =>
  /^(test|packages\/[\w-]+\/test)\//.test(path) && path.endsWith(".ts");
const documents = tree.filter((path) => path.endsWith(".md"));

/** Files of the house that a file imports, types too, or includes, as paths from the root. */
function importsOf(path: string): string[] {
  if (!path.endsWith(".ts")) return includesOf(path);
  const names = textOf(path).matchAll(/(?:from|import\(?)\s*"(\.[^"]+)"/g);
  return [...names].map(([, name = ""]) => normalize(join(dirname(path), name)));
}

/** Files that a C++ file includes: relative to it, or to `native`. */
function includesOf(path: string): string[] {
  const names = [...textOf(path).matchAll(/^#include "([^"]+)"/gm)];
  return names.map(([, name = ""]) => {
    const beside = normalize(join(dirname(path), name));
    return tree.includes(beside) ? beside : join("native", name);
  });
}

/** All files that a file reaches by imports. */
function reachedFrom(path: string, imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const reached = new Set<string>();
  const left = [path];
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    for (const other of imports.get(file) ?? []) {
      if (!reached.has(other)) left.push(other);
      reached.add(other);
    }
  }
  return reached;
}

/** Import cycles: a sentence for each. */
function circlesOf(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const reached = new Map([...imports.keys()].map((path) => [path, reachedFrom(path, imports)]));
  const inCircles = [...reached].filter(([path, others]) => others.has(path));
  const circles = inCircles.map(([path, others]) =>
    [...others].filter((other) => reached.get(other)?.has(path)).sort(),
  );
  return [...new Set(circles.map((circle) => circle.join(" ⇄ ")))];
}

test("every file belongs to a room", (t) => {
  const files = tree.filter((path) => /\.(ts|cc|h)$/.test(path));
  t.deepEqual(
    files.filter((path) => roomOf(path) === undefined),
    [],
  );
});

test("imports of the core point to lower rooms, and packages import the core by its door", (t) => {
  const wrong = code.flatMap((path) =>
    importsOf(path)
      .filter((other) => !isAllowed(path, other))
      .map((other) => `${path} imports ${other}`),
  );
  t.deepEqual(wrong, []);
});

test("no file reaches itself by imports, type imports included", (t) => {
  const files = tree.filter((path) => /\.(ts|cc|h)$/.test(path));
  t.deepEqual(circlesOf(new Map(files.map((path) => [path, importsOf(path)]))), []);
});

test("this test finds an import cycle", (t) => {
  const imports = { "a.ts": ["b.ts"], "b.ts": ["c.ts"], "c.ts": ["b.ts"], "d.ts": ["d.ts"] };
  t.deepEqual(circlesOf(new Map(Object.entries(imports))), ["b.ts ⇄ c.ts", "d.ts"]);
});

test("a part of the repository that outgrows its budget is named, with its lines", (t) => {
  const files = new Map([
    ["src/errors/a.ts", 990_000],
    ["storage/disk/b.ts", 9_999],
  ]);
  const [size] = sizesOf(files);
  t.like(size, { part: "core", lines: 999_999 });
  t.regex(size ? (excessOf(size) ?? "") : "", /^core has 999999 lines, and its budget is \d+:/);
  t.is(excessOf({ part: "core", lines: 5, linesMax: 5 }), undefined);
});

test("a wrong import is seen by this test", (t) => {
  t.deepEqual(importsOf("test/tidy.test.ts"), [
    "bench/rooms.ts",
    "src/errors/errors.ts",
    "test/helpers/private-words.ts",
    "test/helpers/tree.ts",
  ]);
  t.is(roomOf("src/exchange/cells.ts"), "src/exchange");
  const allowed = (path: string, other: string) => t.true(isAllowed(path, other), path);
  const refused = (path: string, other: string) => t.false(isAllowed(path, other), path);
  allowed("actors/cluster/cluster.ts", "src/training/step/step.ts");
  refused("src/training/step/step.ts", "actors/cluster/cluster.ts");
  refused("actors/cluster/cluster.ts", "packages/dashboard/index.ts");
  allowed("packages/serve/server/serve.ts", "internal.ts");
  refused("packages/serve/server/serve.ts", "src/ports/disk.ts");
  refused("packages/serve/server/serve.ts", "packages/formats/exports/export-model.ts");
  allowed("packages/serve/commands/serve.ts", "cli/support/arguments.ts");
});

// What would make a simulated run differ from a real one, and what to use instead.
const deterministic =
  /^(src\/(data|model|embedding|exchange|training)|actors|packages\/(serve|dashboard)\/server)\//;
const banned: readonly [RegExp, string][] = [
  [/\bMath\.random\b/, "the seeded random in the input"],
  [/\b(Date\.now|new Date|performance\.now)\b/, "the clock in the input"],
  [/\bset(Timeout|Interval|Immediate)\b/, "the clock in the input"],
];
const exempt: Readonly<Record<string, string>> = {
  "actors/runtime/define-actor.ts":
    "setTimeout is the name that xstate has for the clock in the input",
  "src/data/columnar/exact-values.ts": "new Date has a date of the data, not the present time",
  "src/exchange/simulated-cells.ts":
    "setImmediate only lets pending microtasks end; no time passes",
};

test("a generation's threads load no schemas and no client, as they start before all else", (t) => {
  const heavy = /^import (?!type)[^;]*from "(zod|nats|xstate|pino|@[^"]+)"/m;
  const loaded = new Set<string>();
  const load = (path: string) => {
    if (loaded.has(path)) return;
    loaded.add(path);
    const imports = textOf(path).matchAll(/^(?:import|export) (?!type)[^;]*?from "(\.[^"]+)"/gm);
    for (const [, name = ""] of imports) load(normalize(join(dirname(path), name)));
  };
  for (const program of ["device", "reader", "tier", "writer"])
    load(`actors/threads/${program}-program.ts`);
  load("actors/threads/thread-entry.ts");
  t.true(loaded.size > 100);
  t.deepEqual(
    [...loaded].filter((path) => heavy.test(textOf(path))),
    [],
  );
});

test("deterministic rooms use no clock, randomness or timer of their own", (t) => {
  const wrong = code
    .filter((path) => deterministic.test(path) && exempt[path] === undefined)
    .flatMap((path) =>
      banned.flatMap(([pattern, instead]) =>
        pattern.test(textOf(path)) ? [`${path} has ${pattern}: use ${instead}`] : [],
      ),
    );
  t.deepEqual(wrong, []);
});

test("every file except a test begins with a comment on its purpose", (t) => {
  const silent = code
    .filter((path) => !path.endsWith(".test.ts"))
    .filter((path) => !/^(#!.*\n)?\/\/ \S/.test(textOf(path)));
  t.deepEqual(silent, []);
});

test("no file is longer than 400 lines, no line of code longer than 100 columns", (t) => {
  const wrong = code.flatMap((path) => {
    const lines = textOf(path).split("\n");
    const long = lines.flatMap((line, i) => {
      // A line with a string that the formatter cannot break may be longer: a title, a sentence.
      return line.length > 100 && !/["'`/]/.test(line) ? [`${path}:${i + 1}`] : [];
    });
    const comments = lines.flatMap((line, i) => {
      return line.length > 100 && /^\s*(\/\/|\*|\/\*)/.test(line) ? [`${path}:${i + 1}`] : [];
    });
    const isLong = lines.length - 1 > 400 && path !== "internal.ts"; // A list of names.
    const tooMany = isLong ? [`${path} has ${lines.length - 1} lines`] : [];
    return [...long, ...comments, ...tooMany];
  });
  t.deepEqual(wrong, []);
});

test("no file has a catch-all name such as utils", (t) => {
  const drawers = /(^|\/)(utils?|types|common|helpers|misc|shared)\.ts$/;
  t.deepEqual(
    code.filter((path) => drawers.test(path)),
    [],
  );
});

test("ambiguous words are not used", (t) => {
  const wrong = code.flatMap((path) => {
    if (path === "test/tidy.test.ts") return [];
    const text = textOf(path);
    const hasXstate = /from "xstate"/.test(text); // XState's word for a machine's state.
    const found = [...(hasXstate ? [] : [/\bsnapshots?\b/i]), /\bTODO\b|\bFIXME\b/];
    return found.flatMap((word) => (word.test(text) ? [`${path}: ${word}`] : []));
  });
  t.deepEqual(wrong, []);
});

test("no private word of the table is left in code or documents", (t) => {
  const table = new Set(["test/helpers/private-words.ts", "docs/glossary.md", "CHANGELOG.md"]);
  const read = tree.filter((path) => /\.(ts|md|cc|h|sh)$/.test(path) && !table.has(path));
  const wrong = read.flatMap((path) => {
    const lines = textOf(path).split("\n");
    const words = privateWords.filter(({ elsewhere }) => elsewhere?.test(path) !== true);
    return words.flatMap(({ word, instead }) =>
      lines.flatMap((line, i) => (word.test(line) ? [`${path}:${i + 1} ${word}: ${instead}`] : [])),
    );
  });
  t.deepEqual(wrong, []);
});

test("the glossary has at most 50 words, one line and one meaning each", (t) => {
  const rows = textOf("docs/glossary.md").match(/^\| [^|-].*\|$/gm) ?? [];
  const words = rows.slice(1).flatMap((row) => (row.split("|")[1] ?? "").trim().split(", "));
  t.true(rows.length - 1 >= 35 && rows.length - 1 <= 50, `${rows.length - 1} rows`);
  t.deepEqual(words.length, new Set(words).size);
});

/** Class, code and recovery of each error that Osiris declares. */
const declaredErrors = Object.entries(errors).flatMap(([name, value]) =>
  "code" in value ? [{ name, code: value.code, recovery: value.recovery }] : [],
);

test("every error class is caused by a test", (t) => {
  const tests = tree.filter((path) => isTest(path) && path !== "test/tidy.test.ts");
  const texts = tests.map((path) => textOf(path));
  t.true(declaredErrors.length >= 60, `${declaredErrors.length} errors`);
  const uncaused = declaredErrors.filter(
    ({ name, code: errorCode }) =>
      !texts.some((text) => text.includes(name) || text.includes(errorCode)),
  );
  t.deepEqual(uncaused, []);
});

test("docs/errors.md lists every error, with its class and the supervisor's reaction", (t) => {
  const rows = [...textOf("docs/errors.md").matchAll(/^\| `([A-Z_]+)` \| `(\w+)` \| (\w+) \|/gm)];
  const listed = rows.map(([, errorCode, name, recovery]) => ({ name, code: errorCode, recovery }));
  const sorted = (errors: readonly object[]) => errors.map((one) => JSON.stringify(one)).sort();
  t.deepEqual(sorted(listed), sorted(declaredErrors));
});

test("every dependency has a line in docs/decisions that says why", (t) => {
  const { dependencies, devDependencies } = JSON.parse(textOf("package.json")) as {
    dependencies: Record<string, string>;
    devDependencies: Record<string, string>;
  };
  const decisions = documents.filter((path) => path.startsWith("docs/decisions/"));
  const text = decisions.map((path) => textOf(path)).join("\n");
  const names = [...Object.keys(dependencies), ...Object.keys(devDependencies)];
  t.deepEqual(
    names.filter((name) => !text.includes(`| \`${name}\` |`)),
    [],
  );
});

test("every dependency is used", (t) => {
  const { dependencies } = JSON.parse(textOf("package.json")) as {
    dependencies: Record<string, string>;
  };
  const users = tree.filter((path) => /\.(ts|sh)$/.test(path) && !isTest(path));
  const texts = users.map((path) => textOf(path));
  const unused = Object.keys(dependencies).filter(
    (name) => !texts.some((text) => text.includes(`"${name}`) || text.includes(`'${name}'`)),
  );
  t.deepEqual(unused, []);
});

test("links between documents have a target", (t) => {
  const broken = documents.flatMap((path) =>
    [...textOf(path).matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)].flatMap(([, target = ""]) => {
      if (/^[a-z]+:/.test(target)) return [];
      return existsSync(join(dirname(path), target)) ? [] : [`${path} → ${target}`];
    }),
  );
  t.deepEqual(broken, []);
});

test("links to a heading have a target", (t) => {
  const headingsOf = (path: string) => {
    const titles = textOf(path).matchAll(/^#+ (.*)$/gm);
    return [...titles].map(([, title = ""]) => {
      return title
        .toLowerCase()
        .replace(/[^\p{L}\d\s_-]/gu, "")
        .replace(/ /g, "-");
    });
  };
  const broken = documents.flatMap((path) =>
    [...textOf(path).matchAll(/\]\(([^):\s]*)#([^)]*)\)/g)].flatMap(
      ([link, target, heading = ""]) => {
        const page = target ? join(dirname(path), target) : path;
        return headingsOf(page).includes(heading) ? [] : [`${path} has ${link}`];
      },
    ),
  );
  t.deepEqual(broken, []);
});

test("files that a document names exist", (t) => {
  const named =
    /`((?:src|storage|actors|chaos|cli|examples|bench|test|native|docs)\/[\w./-]+\.\w+)`/g;
  const missing = documents.flatMap((path) =>
    [...textOf(path).matchAll(named)].flatMap(([, target = ""]) =>
      existsSync(target) ? [] : [`${path} names ${target}`],
    ),
  );
  t.deepEqual(missing, []);
});

test("tests that docs/failure.md names exist", (t) => {
  const tests = new Set(tree.map((path) => basename(path, ".test.ts")));
  const rows = textOf("docs/failure.md")
    .split("\n")
    .filter((line) => line.startsWith("| "));
  const missing = rows.flatMap((row) => {
    const named = [...(row.split("|").at(-2) ?? "").matchAll(/`([a-z-]+)`/g)];
    return named.flatMap(([, name = ""]) => (tests.has(name) ? [] : [name]));
  });
  t.deepEqual(missing, []);
});

test("each walk has at most twelve files, and names only existing messages", (t) => {
  const [, walk = ""] = textOf("docs/architecture.md").split(/^## The walk$|^## One step$/m);
  const [, ...walks] = walk.split(/^### /m);
  t.is(walks.length, 2);
  for (const one of walks) {
    const files = [...one.matchAll(/^\| \d+ \| `([^`]+)` \|/gm)];
    t.true(files.length > 5 && files.length <= 12, `${files.length} files`);
  }
  const catalogue = textOf("src/wire/messages/messages.ts");
  const named = [...walk.matchAll(/`((?:host|device|checkpoint|tier|part)\.[a-z]+)`/g)];
  t.true(named.length > 10);
  const missing = named.filter(([, name]) => !catalogue.includes(`"${name}": z.`));
  t.deepEqual(missing, []);
});

test("nothing cites a document that is not in the repository", (t) => {
  const names = new Set(documents.map((path) => basename(path)));
  const missing = tree.flatMap((path) => {
    if (path === "test/tidy.test.ts") return [];
    const text = textOf(path).replace(/https?:\S+/g, "");
    const cited = [...text.matchAll(/[\w-]+\.md\b/g)];
    return cited.flatMap(([name]) => (names.has(name) ? [] : [`${path} cites ${name}`]));
  });
  t.deepEqual(missing, []);
});

test("no file names a path of one machine", (t) => {
  const places = [/\/work\//, /\/Users\/\w/, /\/root\//];
  const texts = tree.filter((path) => !path.endsWith("package-lock.json"));
  const wrong = texts.flatMap((path) => {
    if (path === "test/tidy.test.ts") return [];
    return places.flatMap((place) => (place.test(textOf(path)) ? [`${path}: ${place}`] : []));
  });
  t.deepEqual(wrong, []);
});

// `osiris` on the npm registry is another author's package; this one is `osiris-train`.
test("no file installs, runs or imports the other author's package `osiris`", (t) => {
  const { name } = JSON.parse(textOf("package.json")) as { name: string };
  t.is(name, "osiris-train");
  const strangers = [
    /\bnpm (install|i|add)( -\S+)* osiris(?![\w-])/,
    /\bnpx (-\S+ )+osiris(?![\w-])/,
    /\b(from|import|require)\b[ (]*["']osiris["']/,
    /node_modules\/osiris\//,
  ];
  const texts = tree.filter((path) => path !== "test/tidy.test.ts");
  const wrong = texts.flatMap((path) =>
    strangers.flatMap((stranger) => (stranger.test(textOf(path)) ? [`${path}: ${stranger}`] : [])),
  );
  t.deepEqual(wrong, []);
});

// A bare `npx osiris` runs the other author's code in a folder without `osiris-train`.
test("no message of the product says npx", (t) => {
  const product = code.filter((path) => !isTest(path) && !/^(bench|examples)\//.test(path));
  t.deepEqual(
    product.filter((path) => textOf(path).includes("npx osiris")),
    [],
  );
});
