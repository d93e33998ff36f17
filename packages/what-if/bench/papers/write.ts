// `npm run papers`: writes docs/papers.md and its pictures, in some minutes of one core.

import { writeFileSync } from "node:fs";
import { papersPage } from "./page.ts";
import { drawLadder, drawRates, files, pictureRows, timelinePicture } from "./pictures.ts";

writeFileSync("docs/papers.md", papersPage().join("\n").replace(/\n*$/, "\n"));
const rows = pictureRows();
writeFileSync(files.rows, `${JSON.stringify(rows)}\n`);
writeFileSync(files.rates, drawRates(rows));
writeFileSync(files.ladder, drawLadder(rows));
writeFileSync(files.timeline, timelinePicture());
