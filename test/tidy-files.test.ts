// Files in the repository besides code and documents: binary and large files must be listed, and
// package.json must answer for every install script.

import test from "ava";
import {
  binaries,
  committedFiles,
  isBinary,
  largeFiles,
  listedAboveBytes,
  seenFile,
  unlistedOf,
} from "./helpers/listed-files.ts";
import { textOf } from "./helpers/tree.ts";

const paths = committedFiles();

/** Files of the product, without tests and benches. */
function isProduct(path: string): boolean {
  return /^(src|storage|actors|chaos|cli|packages\/[\w-]+\/(?!test\/|bench\/)).*\.ts$/.test(path);
}

test("every binary file, and every file above 200 KB, is listed with its reason", (t) => {
  t.true(paths.length > 1000, `${paths.length} files`);
  t.deepEqual(unlistedOf(paths.map(seenFile)), []);
});

test("each list names only existing files of its kind", (t) => {
  const matching = (pattern: RegExp) => paths.filter((path) => pattern.test(path)).map(seenFile);
  for (const { paths: pattern, reason } of binaries) {
    const files = matching(pattern);
    t.true(files.length > 0, `${pattern} names no file`);
    t.true(reason.length > 20, reason);
    t.deepEqual(
      files.filter(({ bytes }) => !isBinary(bytes)).map(({ path }) => path),
      [],
    );
  }
  for (const { paths: pattern, reason } of largeFiles) {
    const files = matching(pattern);
    t.true(files.length > 0, `${pattern} names no file`);
    t.true(reason.length > 20, reason);
    t.true(files.every(({ bytes }) => bytes.length > listedAboveBytes));
  }
});

test("this test finds an unlisted wheel, large text and fixture of another kind", (t) => {
  const zip = Uint8Array.from([0x50, 0x4b, 3, 4, 0, 0]);
  const text = (count: number) => new Uint8Array(count).fill(0x61);
  t.deepEqual(unlistedOf([{ path: "safetensors-0.8.0.whl", bytes: zip }]), [
    "safetensors-0.8.0.whl is binary and not listed",
  ]);
  t.deepEqual(unlistedOf([{ path: "test/fixtures/pytorch/model.zip", bytes: zip }]), [
    "test/fixtures/pytorch/model.zip is binary and not listed",
  ]);
  t.deepEqual(unlistedOf([{ path: "docs/rows.jsonl", bytes: text(listedAboveBytes + 1) }]), [
    "docs/rows.jsonl has 200001 bytes and is not listed",
  ]);
  t.deepEqual(unlistedOf([{ path: "docs/latin.txt", bytes: Uint8Array.of(0x66, 0xfc) }]), [
    "docs/latin.txt is binary and not listed",
  ]);
  t.deepEqual(unlistedOf([{ path: "docs/rows.jsonl", bytes: text(listedAboveBytes) }]), []);
  t.deepEqual(unlistedOf([{ path: "node_modules", bytes: text(0), isLink: true }]), [
    "node_modules is a link",
  ]);
});

interface LockedPackage {
  readonly name?: string;
  readonly hasInstallScript?: boolean;
}

test("package.json lists each install script of the lockfile, and allows none", (t) => {
  const { allowScripts } = JSON.parse(textOf("package.json")) as {
    allowScripts: Record<string, boolean>;
  };
  const { packages } = JSON.parse(textOf("package-lock.json")) as {
    packages: Record<string, LockedPackage>;
  };
  // npm matches the name in the registry, which the lockfile states if a package has an alias.
  const scripted = Object.entries(packages)
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([path, { name }]) => name ?? path.replace(/^.*node_modules\//, ""));
  t.deepEqual(Object.keys(allowScripts).sort(), [...new Set(scripted)].sort());
  t.true(Object.values(allowScripts).every((isAllowed) => !isAllowed));
});

test("each server with a listener guards it, so that an exception ends one request alone", (t) => {
  const product = paths.filter((path) => isProduct(path));
  // A server without a listener only checks whether a port is free: it answers no request.
  const servers = product.filter((path) => /createServer\((?!\))/.test(textOf(path)));
  t.true(servers.length >= 3, servers.join());
  const isGuarded = (path: string) =>
    /\b(guarded|answering)\b[^;]* from "[^"]*(http\/answering|internal)\.ts"/.test(textOf(path));
  t.deepEqual(
    servers.filter((path) => path !== "src/wire/http/answering.ts" && !isGuarded(path)),
    [],
  );
});

test("no regular expression is built from a request or a job", (t) => {
  const product = paths.filter((path) => isProduct(path));
  // Both are built from constants of the code.
  const constant = ["chaos/faults/schedule.ts", "packages/ingest/first-job/column-roles.ts"];
  const made = product.filter((path) => /\bRegExp\(/.test(textOf(path)));
  t.deepEqual(made.sort(), constant);
});

test("the image is built without running a script of any package", (t) => {
  const lines = textOf("deploy/Dockerfile").split("\n");
  const installs = lines.filter((line) => /\bnpm (ci|install|prune)\b/.test(line));
  t.is(installs.length, 2);
  // The npm of node:20 does not support `allowScripts` of package.json.
  for (const line of installs) t.true(line.includes("--ignore-scripts"), line);
});

// `npm test` rolls the tests of a room up into one module, which would wait between declarations.
test("no test file awaits anything before its tests are declared", (t) => {
  const waiting = paths.filter((path) => {
    return (
      /^(test|packages\/[\w-]+\/test)\/.*\.test\.ts$/.test(path) &&
      /^[a-z(].*\bawait\b/m.test(textOf(path))
    );
  });
  t.deepEqual(waiting, []);
});
