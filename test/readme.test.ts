// The README: its picture is the command's output, made from the tree, and from the times and sizes
// in documents and code; its job file is valid. test/package.sh runs its program.

import { readFileSync } from "node:fs";
import test from "ava";
import { loadJob } from "../cli/support/job-file.ts";
import { drawPicture, pictureFile } from "../docs/pictures/make.ts";

test("the picture of the README is up to date: `npm run picture` draws it", (t) => {
  t.is(readFileSync(pictureFile, "utf8"), drawPicture());
});

test("the picture has every actor of the architecture's tree, and when its failure is noticed", (t) => {
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

test("the job that the README kills is one", async (t) => {
  const path = "examples/synthetic.yaml";
  t.true(readFileSync("README.md", "utf8").includes(`osiris train ${path}`));
  t.is((await loadJob(path)).name, "synthetic");
});
