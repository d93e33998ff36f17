// The metadata of Arrow's messages: a schema, a record batch, a dictionary, a footer. They are
// flatbuffers, whose generated readers trust every offset. Here each read is bounds-checked and the
// number of reads is limited, so that damaged metadata is an error and never an endless loop.
// https://arrow.apache.org/docs/format/IPC.html

import { Date as DateTable } from "apache-arrow/fb/date";
import { DateUnit } from "apache-arrow/fb/date-unit";
import { Decimal } from "apache-arrow/fb/decimal";
import { DictionaryBatch } from "apache-arrow/fb/dictionary-batch";
import { Endianness } from "apache-arrow/fb/endianness";
import type { Field } from "apache-arrow/fb/field";
import { FixedSizeBinary } from "apache-arrow/fb/fixed-size-binary";
import { FixedSizeList } from "apache-arrow/fb/fixed-size-list";
import { FloatingPoint } from "apache-arrow/fb/floating-point";
import { Footer } from "apache-arrow/fb/footer";
import { Int } from "apache-arrow/fb/int";
import { Message } from "apache-arrow/fb/message";
import { MessageHeader } from "apache-arrow/fb/message-header";
import { MetadataVersion } from "apache-arrow/fb/metadata-version";
import { RecordBatch } from "apache-arrow/fb/record-batch";
import { Schema } from "apache-arrow/fb/schema";
import { TimeUnit } from "apache-arrow/fb/time-unit";
import { Timestamp } from "apache-arrow/fb/timestamp";
import { Type } from "apache-arrow/fb/type";
import { Union } from "apache-arrow/fb/union";
import { UnionMode } from "apache-arrow/fb/union-mode";
import { ByteBuffer } from "flatbuffers";
import { CorruptFile } from "../tables/damage.ts";

/** Width and sign of the integers in a buffer. */
export interface IntegerType {
  readonly bits: number;
  readonly isUnsigned: boolean;
}

/** A field of a schema: its type and its child fields. */
export interface ArrowField extends IntegerType {
  readonly name: string;
  /** Type of the values, also if a dictionary holds them. */
  readonly type: Type;
  /** Divisor of a stored value: a power of ten for decimals, units per second for times, else 1. */
  readonly divisor: number;
  /**
   * Bytes of a value of fixed size, entries of a list of fixed size, digits of a decimal, or 1 for
   * a dense union; 0 for any other type.
   */
  readonly size: number;
  /** Id of the dictionary that holds the values, and the type of its codes. */
  readonly dictionary?: (IntegerType & { readonly id: number }) | undefined;
  readonly children: readonly ArrowField[];
}

/** The top-level fields of a schema. */
export interface ArrowSchema {
  readonly fields: readonly ArrowField[];
}

/** Nodes and buffers of a record batch, by index. Offsets count from the start of the body. */
export interface BatchLayout {
  readonly rows: number;
  readonly codec: "LZ4" | "ZSTD" | undefined;
  /** Whether the metadata is of version 4, in which a union has one more buffer. */
  readonly isOlder: boolean;
  /** Number of values of node `i`, and how many of them are null. */
  node(i: number): { readonly length: number; readonly nulls: number };
  /** Byte range of buffer `i` in the body. */
  buffer(i: number): { readonly offset: number; readonly length: number };
  /** Number of data buffers of view field `i`. */
  viewBuffers(i: number): number;
}

/** A message, without its body. */
export type ArrowMessage = { readonly bodyBytes: number } & (
  | { readonly kind: "schema"; readonly schema: ArrowSchema }
  | { readonly kind: "batch"; readonly layout: BatchLayout }
  | {
      readonly kind: "dictionary";
      readonly id: number;
      readonly isDelta: boolean;
      readonly layout: BatchLayout;
    }
);

/** Where a message lies in a file: its metadata, and then its body. */
export interface Block {
  readonly start: number;
  readonly metadataBytes: number;
  readonly bodyBytes: number;
}

/** Deepest nesting of structs and lists. */
const depthMax = 32;
/** Reads allowed per byte of metadata: parsing undamaged metadata needs a few. */
const readsPerByte = 64;

/** A flatbuffer reader that checks bounds and limits the number of reads. */
class CheckedBytes extends ByteBuffer {
  #readsLeft: number;

  constructor(bytes: Uint8Array) {
    super(bytes);
    this.#readsLeft = 4096 + readsPerByte * bytes.length;
  }

  override readUint8(offset: number): number {
    this.#check(offset, 1);
    return super.readUint8(offset);
  }

  override readUint16(offset: number): number {
    this.#check(offset, 2);
    return super.readUint16(offset);
  }

  override readInt32(offset: number): number {
    this.#check(offset, 4);
    return super.readInt32(offset);
  }

  override __vector_len(offset: number): number {
    const length = super.__vector_len(offset);
    if (length >= 0 && length <= this.capacity()) return length;
    throw new CorruptFile(`its metadata has a list of ${length} entries`);
  }

  #check(offset: number, width: number): void {
    const isThere = offset >= 0 && offset + width <= this.capacity();
    if (isThere && this.#readsLeft-- > 0) return;
    throw new CorruptFile("its metadata is damaged");
  }
}

/** Parses the metadata of a message. @throws CorruptFile */
export function readMessage(bytes: Uint8Array): ArrowMessage {
  const message = Message.getRootAsMessage(new CheckedBytes(bytes));
  const version = message.version();
  if (version !== MetadataVersion.V4 && version !== MetadataVersion.V5) {
    throw new CorruptFile(`its metadata has the version ${version + 1}, and Osiris reads 4 and 5`);
  }
  const isOlder = version === MetadataVersion.V4;
  const bodyBytes = countOf(message.bodyLength(), "bytes");
  switch (message.headerType()) {
    case MessageHeader.Schema: {
      const schema = schemaOf(message.header(new Schema()));
      return { kind: "schema", bodyBytes, schema };
    }
    case MessageHeader.RecordBatch: {
      const layout = layoutOf(message.header(new RecordBatch()), isOlder);
      return { kind: "batch", bodyBytes, layout };
    }
    case MessageHeader.DictionaryBatch: {
      const batch: DictionaryBatch | null = message.header(new DictionaryBatch());
      const layout = layoutOf(batch?.data() ?? null, isOlder);
      const id = Number(batch?.id() ?? 0n);
      return { kind: "dictionary", bodyBytes, id, isDelta: batch?.isDelta() === true, layout };
    }
    default:
      throw new CorruptFile(
        `it has a message of the type ${message.headerType()}, which is not read`,
      );
  }
}

/** Parses the footer of a file: its schema and the blocks of its batches. @throws CorruptFile */
export function readFooter(bytes: Uint8Array): {
  readonly schema: ArrowSchema;
  readonly dictionaries: readonly Block[];
  readonly batches: readonly Block[];
} {
  const footer = Footer.getRootAsFooter(new CheckedBytes(bytes));
  const schema = schemaOf(footer.schema());
  const dictionaries = blocksOf(footer.dictionariesLength(), (i) => footer.dictionaries(i));
  const batches = blocksOf(footer.recordBatchesLength(), (i) => footer.recordBatches(i));
  return { schema, dictionaries, batches };
}

function blocksOf(
  count: number,
  blockAt: (i: number) => ReturnType<Footer["dictionaries"]>,
): Block[] {
  return Array.from({ length: count }, (_, i) => {
    const block = blockAt(i);
    return {
      start: countOf(block?.offset() ?? -1n, "bytes before it"),
      metadataBytes: countOf(BigInt(block?.metaDataLength() ?? -1), "bytes of metadata"),
      bodyBytes: countOf(block?.bodyLength() ?? -1n, "bytes"),
    };
  });
}

function layoutOf(batch: RecordBatch | null, isOlder: boolean): BatchLayout {
  if (batch === null) throw new CorruptFile("a message has no record batch");
  const [nodes, buffers] = [batch.nodesLength(), batch.buffersLength()];
  const views = batch.variadicBufferCountsLength();
  const compression = batch.compression();
  return {
    rows: rowsOf(batch.length()),
    codec: compression === null ? undefined : compression.codec() === 0 ? "LZ4" : "ZSTD",
    isOlder,
    node(i) {
      const node = i < nodes ? batch.nodes(i) : null;
      if (node === null) throw new CorruptFile("the record batch lacks it");
      return { length: rowsOf(node.length()), nulls: rowsOf(node.nullCount()) };
    },
    buffer(i) {
      const buffer = i < buffers ? batch.buffers(i) : null;
      if (buffer === null) throw new CorruptFile("the record batch lacks it");
      const offset = countOf(buffer.offset(), "bytes before it");
      return { offset, length: countOf(buffer.length(), "bytes") };
    },
    viewBuffers: (i) => (i < views ? rowsOf(batch.variadicBufferCounts(i) ?? 0n) : 0),
  };
}

function schemaOf(schema: Schema | null): ArrowSchema {
  if (schema === null) throw new CorruptFile("it has no schema");
  if (schema.endianness() !== Endianness.Little) {
    throw new CorruptFile(
      "its numbers have their highest byte first, and Osiris reads the other order",
    );
  }
  const fields = Array.from({ length: schema.fieldsLength() }, (_, i) => {
    return fieldOf(schema.fields(i), 0);
  });
  return { fields };
}

function fieldOf(field: Field | null, depth: number): ArrowField {
  if (field === null) throw new CorruptFile("its schema lacks a field");
  if (depth > depthMax)
    throw new CorruptFile(`its schema has more than ${depthMax} types in a type`);
  const dictionary = field.dictionary();
  const index = dictionary?.indexType();
  const children = Array.from({ length: field.childrenLength() }, (_, i) => {
    return fieldOf(field.children(i), depth + 1);
  });
  return {
    name: field.name() ?? "",
    type: field.typeType(),
    ...typeOf(field),
    children,
    dictionary: dictionary
      ? {
          id: Number(dictionary.id()),
          bits: index?.bitWidth() ?? 32,
          isUnsigned: index?.isSigned() === false,
        }
      : undefined,
  };
}

type TypeDetails = Pick<ArrowField, "bits" | "isUnsigned" | "divisor" | "size">;

function typeOf(field: Field): TypeDetails {
  const plain = { bits: 0, isUnsigned: false, divisor: 1, size: 0 };
  switch (field.typeType()) {
    case Type.Int: {
      const type: Int = field.type(new Int());
      return { ...plain, bits: type.bitWidth(), isUnsigned: !type.isSigned() };
    }
    case Type.FloatingPoint: {
      const type: FloatingPoint = field.type(new FloatingPoint());
      return { ...plain, bits: 16 << type.precision() };
    }
    case Type.Decimal: {
      const type: Decimal = field.type(new Decimal());
      const scale = type.scale();
      // Powers of ten up to 10^22 are exact, so that the quotient is the double nearest the
      // decimal.
      const divisor = scale < 0 || scale > 22 ? Number.NaN : 10 ** scale;
      return { ...plain, bits: type.bitWidth(), divisor, size: type.precision() };
    }
    case Type.Date: {
      const type: DateTable = field.type(new DateTable());
      return type.unit() === DateUnit.DAY
        ? { ...plain, bits: 32, divisor: 1 / 86_400 }
        : { ...plain, bits: 64, divisor: 1e3 };
    }
    case Type.Timestamp: {
      const type: Timestamp = field.type(new Timestamp());
      return { ...plain, bits: 64, divisor: perSecond[type.unit()] };
    }
    case Type.FixedSizeBinary: {
      const type: FixedSizeBinary = field.type(new FixedSizeBinary());
      return { ...plain, size: type.byteWidth() };
    }
    case Type.FixedSizeList: {
      const type: FixedSizeList = field.type(new FixedSizeList());
      return { ...plain, size: type.listSize() };
    }
    case Type.Union: {
      const type: Union = field.type(new Union());
      return { ...plain, size: type.mode() === UnionMode.Dense ? 1 : 0 };
    }
    default:
      return plain;
  }
}

const perSecond: Readonly<Record<TimeUnit, number>> = {
  [TimeUnit.SECOND]: 1,
  [TimeUnit.MILLISECOND]: 1e3,
  [TimeUnit.MICROSECOND]: 1e6,
  [TimeUnit.NANOSECOND]: 1e9,
};

/** A number of rows or values. It must fit into 31 bits, the range of the counters downstream. */
function rowsOf(value: bigint): number {
  if (value >= 0n && value <= 0x7fff_ffffn) return Number(value);
  throw new CorruptFile(`it says that it has ${value} values`);
}

function countOf(value: bigint, what: string): number {
  if (value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new CorruptFile(`it says that it has ${value} ${what}`);
}
