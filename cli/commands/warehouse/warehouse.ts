// osiris warehouse: tables of Parquet files as jobs read them.

import type { Command } from "commander";
import { addInspect } from "./inspect.ts";

/** Adds the commands. */
export function addWarehouse(program: Command): void {
  const warehouse = program
    .command("warehouse")
    .description("look at tables of Parquet files, and what a job reads of them");
  addInspect(warehouse);
}
