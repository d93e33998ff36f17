// Writes predictions to a file: the input's lines with their predictions appended, or numbered rows
// with kept columns and predictions, as CSV, JSON Lines, Parquet or Arrow. Text is compressed batch
// by batch if the file's name ends in `.gz` or `.zst`.

import assert from "node:assert/strict";
import {
  type DiskFile,
  InvalidOptionError,
  type Pack,
  type PackedEnding,
  packedEndingOf,
  packOf,
  parquetWriter,
  withMembers,
} from "../../../internal.ts";
import { csvField } from "../../formats/index.ts";
import type { InputRows } from "./line-input.ts";
import type { Predictions } from "./sample-scorer.ts";

const formats = {
  ...{ csv: "csv", jsonl: "jsonl", ndjson: "jsonl", parquet: "parquet", arrow: "arrow" },
} as const;

/** A format of predictions. */
export type OutputFormat = (typeof formats)[keyof typeof formats];

/** The columns of numbered rows after `row`: kept columns, and predictions. */
interface WrittenColumns {
  readonly kept: readonly string[];
  /** The prediction columns. */
  readonly names: readonly string[];
}

/** Writes rows and their predictions, batch by batch. */
export interface PredictionOutput {
  write(rows: InputRows, predictions: readonly Predictions[]): void | Promise<void>;
  finish(): void | Promise<void>;
}

/** Numbered rows, by column. Null: missing. */
interface NumberedRows {
  /** Row numbers over all files, from 0. */
  readonly rows: readonly number[];
  readonly kept: readonly (readonly (string | null)[])[];
  readonly values: readonly (readonly (number | null)[])[];
}

interface RowWriter {
  write(rows: NumberedRows): void | Promise<void>;
  finish(): void | Promise<void>;
}

/** Format and compression by a name's ending; undefined: an unknown ending, no compression. */
export function outputFormatOf(path: string): {
  format: OutputFormat | undefined;
  packed: PackedEnding | undefined;
} {
  const packed = packedEndingOf(path);
  const name = path.slice(0, path.length - (packed?.length ?? 0));
  const ending = name.split(".").at(-1) ?? "";
  const isKnown = Object.hasOwn(formats, ending);
  return { format: isKnown ? formats[ending as keyof typeof formats] : undefined, packed };
}

/** @throws InvalidOptionError where column names collide, or the format cannot be compressed */
export async function openOutput(
  target: DiskFile,
  {
    format,
    packed,
  }: { readonly format: OutputFormat | "lines"; readonly packed: PackedEnding | undefined },
  columns: WrittenColumns,
): Promise<PredictionOutput> {
  if (format === "lines") return lineWriter(target, columns.names, await packOf(packed));
  const all = ["row", ...columns.kept, ...columns.names];
  const twice = all.find((name, i) => all.indexOf(name) !== i);
  if (twice !== undefined) {
    const message = `Expected columns of different names in the result, got two of \`${twice}\``;
    throw new InvalidOptionError("column", `${message}: name another with \`column\``);
  }
  if (format === "csv") return numbered(csvWriter(target, columns, await packOf(packed)), columns);
  if (format === "jsonl") {
    return numbered(jsonWriter(target, columns, await packOf(packed)), columns);
  }
  if (packed !== undefined) {
    const wanted = `Expected a file of columns without \`${packed}\``;
    throw new InvalidOptionError("out", `${wanted}: it is read from its end, by columns`);
  }
  const open = format === "parquet" ? openParquet : openArrow;
  return numbered(await open(target, columns), columns);
}

/** Copies each line and appends its predictions. */
function lineWriter(target: DiskFile, names: readonly string[], pack: Pack): PredictionOutput {
  const write = appender(target, pack);
  return {
    write({ lines }, predictions) {
      assert(lines !== undefined, "only rows of text files have lines to copy");
      const { header, texts, delimiter } = lines;
      const others = texts.map((text, i) => {
        const shown = names.map((_, column) => shownNumber(predictions[i]?.[column]));
        if (delimiter === undefined) return `${withMembers(text, names, shown)}\n`;
        return `${text}${delimiter}${shown.join(delimiter)}\n`;
      });
      const added = Buffer.from(names.join(delimiter)).toString("latin1");
      const first = header === undefined ? "" : `${header}${delimiter}${added}\n`;
      write(Buffer.from(first + others.join(""), "latin1"));
    },
    finish() {},
  };
}

function numbered(writer: RowWriter, { names }: WrittenColumns): PredictionOutput {
  return {
    write(input, predictions) {
      if (input.count === 0) return undefined;
      const rows = Array.from({ length: input.count }, (_, i) => input.firstRow + i);
      const values = names.map((_, column) => predictions.map((own) => own?.[column] ?? null));
      return writer.write({ rows, kept: input.kept(), values });
    },
    finish: () => writer.finish(),
  };
}

/** Returns a function that compresses text and appends it to a file. */
function appender(target: DiskFile, pack: Pack): (text: string | Buffer) => void {
  let at = 0;
  return (text) => {
    const bytes = pack(Buffer.from(text as string));
    target.write(bytes, at);
    at += bytes.length;
  };
}

function csvWriter(target: DiskFile, { kept, names }: WrittenColumns, pack: Pack): RowWriter {
  const write = appender(target, pack);
  write(`${["row", ...kept, ...names].map(csvField).join(",")}\n`);
  return {
    write({ rows, kept, values }) {
      const lines = rows.map((row, i) => {
        const texts = kept.map((column) => csvField(column[i] ?? ""));
        const numbers = values.map((column) => shownNumber(column[i]));
        return `${[row, ...texts, ...numbers].join(",")}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}

function jsonWriter(target: DiskFile, columns: WrittenColumns, pack: Pack): RowWriter {
  const write = appender(target, pack);
  return {
    write({ rows, kept, values }) {
      const lines = rows.map((row, i) => {
        const texts = columns.kept.map((name, c) => [name, JSON.stringify(kept[c]?.[i] ?? null)]);
        const numbers = columns.names.map((name, c) => {
          return [name, shownNumber(values[c]?.[i]) || "null"];
        });
        const members = [["row", String(row)], ...texts, ...numbers];
        return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}\n`;
      });
      write(lines.join(""));
    },
    finish() {},
  };
}

/**
 * A prediction as text; nine digits distinguish a float32 from its neighbours. Null: empty text.
 */
function shownNumber(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(9)));
}

/** Writes Parquet; each batch becomes a row group. */
function openParquet(target: DiskFile, { kept, names }: WrittenColumns): RowWriter {
  const writer = parquetWriter(target, {
    schema: [
      { name: "root", num_children: 1 + kept.length + names.length },
      { name: "row", type: "INT64", repetition_type: "REQUIRED" },
      ...kept.map((name) => {
        const text = { type: "BYTE_ARRAY", converted_type: "UTF8" } as const;
        return { name, ...text, repetition_type: "OPTIONAL" } as const;
      }),
      ...names.map((name) => {
        return { name, type: "FLOAT", repetition_type: "OPTIONAL" } as const;
      }),
    ],
  });
  return {
    write(batch) {
      void writer.write({
        rowGroupSize: batch.rows.length,
        columnData: [
          { name: "row", data: batch.rows.map(BigInt) },
          ...kept.map((name, i) => ({ name, data: [...(batch.kept[i] ?? [])] })),
          ...names.map((name, i) => ({ name, data: [...(batch.values[i] ?? [])] })),
        ],
      });
    },
    finish: () => void writer.finish(),
  };
}

/** Writes an Arrow file; each batch becomes a record batch. */
async function openArrow(target: DiskFile, { kept, names }: WrittenColumns): Promise<RowWriter> {
  const arrow = await import("apache-arrow");
  const { Float32, Int64, makeData, RecordBatch, Utf8, vectorFromArray } = arrow;
  const writer = new arrow.RecordBatchFileWriter();
  const written = drain();
  async function drain(): Promise<void> {
    let at = 0;
    for await (const bytes of writer) {
      target.write(bytes, at);
      at += bytes.length;
    }
  }

  let isEmpty = true;
  const write = (batch: NumberedRows) => {
    const dataOf = <Type extends InstanceType<typeof Float32> | InstanceType<typeof Utf8>>(
      own: readonly unknown[] = [],
      type: Type,
    ) => vectorFromArray([...own], type).data[0] ?? makeData({ type, length: 0 } as never);
    const columns = [
      ...kept.map((name, i) => [name, dataOf(batch.kept[i], new Utf8())] as const),
      ...names.map((name, i) => [name, dataOf(batch.values[i], new Float32())] as const),
    ];
    const row = makeData({ type: new Int64(), data: BigInt64Array.from(batch.rows, BigInt) });
    writer.write(new RecordBatch({ row, ...Object.fromEntries(columns) }));
    isEmpty = false;
  };
  return {
    write,
    async finish() {
      if (isEmpty) write({ rows: [], kept: [], values: [] });
      writer.finish();
      await written;
    },
  };
}
