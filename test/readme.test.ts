// The README and docs/api.md. The README's picture is the output of its command, made from the tree
// and from the times and sizes in documents and code; its job file is valid. test/package.sh runs
// its program.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "ava";
import { loadJob } from "../cli/support/job-file.ts";
import { programs } from "../docs/pictures/draw.ts";
import { drawPicture, pictureFile } from "../docs/pictures/make.ts";

test("the picture of the README is up to date: `npm run draw -- picture` draws it", (t) => {
  t.is(readFileSync(pictureFile, "utf8"), drawPicture());
});

test("each picture that `npm run draw` names has a program, and other names are refused", (t) => {
  const from = new URL("../", import.meta.url);
  t.true(Object.keys(programs).includes("picture"));
  for (const program of Object.values(programs)) t.true(existsSync(new URL(program, from)));
  const path = fileURLToPath(new URL("docs/pictures/draw.js", from));
  const { status, stderr } = spawnSync(process.execPath, [path, "nothing"], { encoding: "utf8" });
  t.is(status, 2);
  t.regex(stderr, /npm run draw -- picture\|charts\|screens/);
});

test("the picture has the actors of the architecture, and detection times of their failures", (t) => {
  const picture = drawPicture();
  for (const actor of ["cluster supervisor", "host generation", "shard", "training coordinator"]) {
    t.true(picture.includes(`>${actor}</text>`), actor);
  }
  t.regex(
    readFileSync("docs/failure.md", "utf8"),
    /\| device actor \| host generation \| 21 to 54 ms/,
  );
  t.true(picture.includes(">21 to 54 ms</text>"));
});

test("the job file that the README names is valid", async (t) => {
  const path = "examples/synthetic.yaml";
  t.true(readFileSync("README.md", "utf8").includes(`osiris train ${path}`));
  t.is((await loadJob(path)).name, "synthetic");
});

test("docs/api.md lists the names that the package exports, at most 120", (t) => {
  const page = readFileSync("docs/api.md", "utf8");
  const listed = [...page.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)].flatMap(([, names = ""]) =>
    names.split(", ").map((name) => name.slice(1, -1)),
  );
  const exports = readFileSync("index.ts", "utf8").matchAll(/^export \{(.*?)\} from /gms);
  const exported = [...exports].flatMap(([, names = ""]) => namesOf(names));
  t.deepEqual(listed.toSorted(), exported.toSorted());
  t.true(exported.length <= 120, `${exported.length} names`);
  t.regex(page, new RegExp(`these ${exported.length} names`));
});

/** The names in an export list such as `a, type B,`. */
function namesOf(list: string): string[] {
  return list.split(",").flatMap((part) => part.trim().split(" ").at(-1) || []);
}
