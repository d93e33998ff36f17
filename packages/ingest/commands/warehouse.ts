// osiris warehouse: inspects, writes and compacts tables of Parquet files that jobs read.

import type { Command } from "commander";
import { addCompact } from "./compact.ts";
import { addInspect } from "./inspect.ts";
import { addWrite } from "./write.ts";

export function addWarehouse(program: Command): void {
  const warehouse = program
    .command("warehouse")
    .description("inspect, write and compact tables of Parquet files");
  addInspect(warehouse);
  addWrite(warehouse);
  addCompact(warehouse);
}
