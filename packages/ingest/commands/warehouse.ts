// osiris warehouse: tables of Parquet files as jobs read them.

import type { Command } from "commander";
import { addCompact } from "./compact.ts";
import { addInspect } from "./inspect.ts";
import { addWrite } from "./write.ts";

/** Adds the commands. */
export function addWarehouse(program: Command): void {
  const warehouse = program
    .command("warehouse")
    .description("look at tables of Parquet files, write and compact them");
  addInspect(warehouse);
  addWrite(warehouse);
  addCompact(warehouse);
}
