// `npm run papers`: writes docs/papers.md, in some minutes of one core.

import { writeFileSync } from "node:fs";
import { papersPage } from "./page.ts";

writeFileSync("docs/papers.md", papersPage().join("\n").replace(/\n*$/, "\n"));
