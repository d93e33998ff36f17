// Checks whether a table can be cut by the scheme in its job. If no number of devices could make it
// possible, the job is refused when it is submitted. If only the devices of a run do not suit the
// scheme, the run places the table otherwise and notes that in its report.

import { tileGroupsOf } from "./enumerate.ts";
import {
  cutsColumns,
  cutsRows,
  type Devices,
  isOfOneHost,
  type PlannedTable,
  quantumColumns,
  type Scheme,
  tableQuanta,
} from "./shards.ts";

/** The part of a table that decides how its written scheme can cut it. */
export interface WrittenTable extends Pick<PlannedTable, "name" | "dim" | "rowBlocks"> {
  readonly sharding: Scheme | "auto";
}

/** The parts that a table lacks, so that no number of devices could cut it by its scheme. */
export function lackOf({
  sharding,
  dim,
  rowBlocks,
}: WrittenTable): "blocks" | "quanta" | undefined {
  if (sharding === "auto") return undefined;
  if (cutsRows(sharding) && rowBlocks === 1) return "blocks";
  return cutsColumns(sharding) && tableQuanta({ dim }) === 1 ? "quanta" : undefined;
}

/** Replaces the schemes of tables that none of their schemes can cut here by `table-wise`. */
export function withWholeTables(
  tables: readonly PlannedTable[],
  devices: Devices,
): readonly PlannedTable[] {
  return tables.map((table) => {
    const isCut = table.schemes.some((scheme) => tileGroupsOf(devices, table, scheme).length > 0);
    return isCut ? table : { ...table, schemes: ["table-wise"] };
  });
}

/**
 * The note on tables that a run places otherwise than by their written schemes; undefined: there
 * are none. `hosts`: number of devices of each host.
 */
export function schemeNote(
  tables: readonly WrittenTable[],
  hosts: readonly number[],
): string | undefined {
  if (hosts.reduce((sum, count) => sum + count, 0) === 1) return undefined;
  const whole = tables.filter((table) => lackOf(table) !== undefined);
  const isUneven = hosts.some((count) => count !== hosts[0]);
  const spread = tables.filter((table) => {
    const { sharding } = table;
    return isUneven && sharding !== "auto" && isOfOneHost(sharding) && !whole.includes(table);
  });
  const notes = [
    whole.length > 0 &&
      `${namesOf(whole)}: whole on one device, as a table of one row block, or of at most ` +
        `${quantumColumns} columns, cannot be cut by its \`sharding\``,
    spread.length > 0 &&
      `${namesOf(spread)}: over the devices of all hosts, as the hosts have unequal numbers of them`,
  ];
  const said = notes.filter((note) => note !== false);
  return said.length === 0 ? undefined : said.join("; ");
}

/** Maximum number of tables that a sentence names. */
const namedMax = 3;

function namesOf(tables: readonly WrittenTable[]): string {
  const names = tables.slice(0, namedMax).map(({ name }) => name);
  const more = tables.length - names.length;
  return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
